"""Prompts that know which part of them comes again, and what was said before them."""

from collections.abc import Mapping, Sequence
from typing import Self


class Prompt(str):
    """A prompt whose beginning is shared with the prompts of other tasks, or that ends a talk.

    Plain text shares nothing and begins a talk.

    Attributes:
        stable: How many characters at its beginning are the same for every task, as long as the
            artifact does not change; a provider may be asked to cache them.
        turns: What was said before, each ``{"role": "user" or "assistant", "content": text}``;
            completions of model APIs send them along, others do not know them.
    """

    __slots__ = ("stable", "turns")

    stable: int
    turns: Sequence[Mapping[str, str]]

    def __new__(cls, text: str, stable: int = 0, turns: Sequence[Mapping[str, str]] = ()) -> Self:
        """`text`, of which the first `stable` characters come again, after `turns`."""
        prompt = super().__new__(cls, text)
        prompt.stable = stable
        prompt.turns = tuple(turns)
        return prompt


def turns_before(prompt: str) -> list[dict[str, str]]:
    """What was said before `prompt`; empty for plain text."""
    return [dict(turn) for turn in prompt.turns] if isinstance(prompt, Prompt) else []
