"""Percentiles of what is measured again and again, in bounded memory."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

EXACT = 4096
"""So many values are kept; beyond, they are a uniform random sample of all."""

_DIGEST = 101
"""So many of them are saved: every whole percentile."""


@dataclass(slots=True, eq=False)
class Samples:  # noqa: PLW1641 - it changes, so it has no hash
    """Values, put in order when somebody asks.

    Two are equal when they count as many values and agree on every whole percentile.

    Attributes:
        count: How many values there were.
    """

    count: int = 0
    _kept: "array[float]" = field(default_factory=lambda: array("d"))
    _random: Random = field(default_factory=lambda: Random(0), repr=False)  # noqa: S311 - a sample

    def add(self, value: float) -> None:
        """Learn one value."""
        self.count += 1
        if len(self._kept) == self.count - 1 < EXACT:
            self._kept.append(value)
            return
        place = int(self._random.random() * self.count)
        if place < len(self._kept):
            self._kept[place] = value

    def percentile(self, percent: float) -> float | None:
        """The value that `percent` of all do not exceed; None if there are none."""
        if not self._kept:
            return None
        ordered = self._ordered()
        return ordered[round((len(ordered) - 1) * percent / 100)]

    @property
    def p50(self) -> float | None:
        """The median."""
        return self.percentile(50)

    @property
    def p90(self) -> float | None:
        """The value that nine of ten do not exceed."""
        return self.percentile(90)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads: all values, or a hundred and one percentiles of them."""
        ordered = self._ordered()
        kept: Iterable[float] = ordered
        if len(ordered) > _DIGEST:
            last = len(ordered) - 1
            kept = (ordered[round(last * percent / 100)] for percent in range(_DIGEST))
        return {"count": self.count, "values": list(kept)}

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """What `as_json` has written; whole percentiles are the same as before."""
        values = array("d", sorted(record.get("values", ())))
        return cls(max(record.get("count", 0), len(values)), values)

    def _ordered(self) -> "array[float]":
        """All values, put in order where they are; what a thread adds meanwhile comes after."""
        ordered = array("d", sorted(self._kept))
        self._kept[: len(ordered)] = ordered
        return ordered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Samples) and self.as_json() == other.as_json()
