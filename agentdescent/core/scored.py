"""A reward that says more than its value."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scored:
    """What a scorer may return instead of a number.

    Attributes:
        value: The reward, in [0, 1].
        feedback: What was wrong, in words; shown to the reflector.
        parts: What the value is made of, by name; reported, never optimised.
    """

    value: float
    feedback: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])

    def __float__(self) -> float:
        return float(self.value)


def feedback_of(value: object) -> str:
    """What a scorer said about an output beside its reward; "" for a plain number."""
    return value.feedback if isinstance(value, Scored) else ""
