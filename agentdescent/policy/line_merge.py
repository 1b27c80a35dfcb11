"""Merging changes of one text, line by line."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

MOST_PAIRS = 100_000
"""Texts with more pairs of equal lines are compared by what they begin and end with alone."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change: the lines `start` to `end` of a text are replaced by `lines`."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: "Hunk") -> bool:
        """True if the two cannot both be made: they share a line, or an insertion touches."""
        if self.start < other.end and other.start < self.end:
            return True
        inserts = self.start == self.end or other.start == other.end
        return inserts and self.start <= other.end and other.start <= self.end


def merge_lines(base: str, *sides: str) -> str | None:
    """The text with the changes that each of `sides` makes to `base`; None if two overlap.

    Changes of different lines do not overlap, even next to each other; two insertions at one place
    do. A change that several make is made once. The order of `sides` does not matter.
    """
    changes = {hunk: None for side in sides for hunk in _changes(base, side)}
    ordered = sorted(changes, key=lambda hunk: (hunk.start, hunk.end))
    if any(hunk.overlaps(following) for hunk, following in pairwise(ordered)):
        return None
    return "".join(_applied(lines_of(base), ordered))


def lay_over(base: str, under: str, over: str) -> str:
    """`over` with the changes that `under` makes to other lines of `base`; never fails."""
    ours = _changes(base, over)
    theirs = [
        hunk for hunk in _changes(base, under) if not any(hunk.overlaps(mine) for mine in ours)
    ]
    ordered = sorted([*ours, *theirs], key=lambda hunk: (hunk.start, hunk.end))
    return "".join(_applied(lines_of(base), ordered))


@lru_cache(maxsize=256)
def _changes(base: str, text: str) -> tuple[Hunk, ...]:
    """As `hunks`; a merge of many compares each with all others."""
    return tuple(hunks(lines_of(base), lines_of(text)))


def lines_of(text: str) -> list[str]:
    """Its lines with their ends; only a line feed ends one, and the last one has none."""
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), last]


def hunks(base: Sequence[str], lines: Sequence[str]) -> list[Hunk]:
    """The changes that turn `base` into `lines`, from the first line to the last."""
    head = _n_equal(base, lines)
    most = min(len(base), len(lines)) - head
    tail = min(most, _n_equal(base[::-1], lines[::-1]))
    old, new = base[head : len(base) - tail], lines[head : len(lines) - tail]
    if _n_pairs(old, new) > MOST_PAIRS:
        return [Hunk(head, head + len(old), tuple(new))]
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        small
        for tag, i1, i2, j1, j2 in codes
        if tag != "equal"
        for small in _split(Hunk(head + i1, head + i2, tuple(new[j1:j2])))
    ]


def _split(hunk: Hunk) -> list[Hunk]:
    """A replacement of as many lines as there were, line by line."""
    if hunk.end - hunk.start != len(hunk.lines):
        return [hunk]
    return [Hunk(at, at + 1, (line,)) for at, line in enumerate(hunk.lines, start=hunk.start)]


def _n_equal(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _n_pairs(one: Sequence[str], other: Sequence[str]) -> int:
    counts = Counter(other)
    return sum(counts[line] for line in one)


def _applied(base: Sequence[str], changes: Sequence[Hunk]) -> list[str]:
    merged: list[str] = []
    at = 0
    for hunk in changes:
        merged += [*base[at : hunk.start], *hunk.lines]
        at = hunk.end
    return [*merged, *base[at:]]
