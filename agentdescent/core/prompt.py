"""Prompts that know which part of them comes again."""

from typing import Self


class Prompt(str):
    """A prompt whose beginning is shared with the prompts of other tasks. Plain text shares none.

    Attributes:
        stable: How many characters at its beginning are the same for every task, as long as the
            artifact does not change; a provider may be asked to cache them.
    """

    __slots__ = ("stable",)

    stable: int

    def __new__(cls, text: str, stable: int = 0) -> Self:
        """`text`, of which the first `stable` characters come again."""
        prompt = super().__new__(cls, text)
        prompt.stable = stable
        return prompt
