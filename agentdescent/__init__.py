"""Evolve prompts, rules and worked examples of an agent against examples of your own.

`evolve` for scripts and ``await async_evolve(...)`` for async applications take the same
parameters; everything else here is what can be plugged into them.
"""

from lazy_loader import attach_stub  # pyright: ignore[reportMissingTypeStubs]

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
