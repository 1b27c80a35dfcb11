"""Completions, and the actors made of them."""

from lazy_loader import attach_stub  # pyright: ignore[reportMissingTypeStubs]

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
