"""Rewards that look at the form of an output, or at how far it is from the expected answer."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from agentdescent.core.task import Task
from agentdescent.policy.rewards import Scorer, as_text, comparable
from agentdescent.policy.rewards_numbers import Number, read_number


@dataclass(frozen=True, slots=True, repr=False)
class _Matches(Scorer[str]):
    _: KW_ONLY
    pattern: str | None = None
    whole: bool = False
    name: ClassVar[str] = "matches"
    _sought: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        if self.pattern is not None and not _is_pattern(self.pattern):
            raise ValueError(
                f"pattern={self.pattern!r} is no regular expression; re.escape() takes a text "
                "literally"
            )

    def _look(self, value: Any) -> str:
        return as_text(value)

    def _score(self, gold: str, seen: str) -> float:
        found = re.fullmatch(gold, seen) if self.whole else re.search(gold, seen)
        return float(found is not None)

    def _golds(self, task: Task) -> Sequence[str]:
        if self.pattern is not None:
            return [self.pattern]
        golds = super(_Matches, self)._golds(task)
        for gold in golds:
            if not _is_pattern(gold):
                raise self._flaw(task, f"is {gold[:80]!r}, which is no regular expression")
        return golds


@dataclass(frozen=True, slots=True, repr=False)
class _EditSimilarity(Scorer[str]):
    _: KW_ONLY
    normalise: bool = True
    name: ClassVar[str] = "edit_similarity"

    def _look(self, value: Any) -> str:
        return comparable(as_text(value), normalise=self.normalise)

    def _score(self, gold: str, seen: str) -> float:
        return 1.0 - _distance(gold, seen) / max(len(gold), len(seen))


@dataclass(frozen=True, slots=True, repr=False)
class _NumberCloseness(Scorer[Number]):
    _: KW_ONLY
    zero_at: float = 1.0
    name: ClassVar[str] = "number_closeness"
    _sought: ClassVar[str] = "number"
    _wrong_kind: ClassVar[str] = "which holds no number"

    def __post_init__(self) -> None:
        if not self.zero_at > 0.0:
            raise ValueError(
                f"zero_at must be above 0, got {self.zero_at!r}; last_number() wants the number "
                "itself"
            )

    def _look(self, value: Any) -> Number | None:
        return read_number(as_text(value))

    def _shown(self, seen: Number) -> str:
        return str(seen)

    def _score(self, gold: Number, seen: Number) -> float:
        return max(0.0, 1.0 - seen.error(gold) / self.zero_at)


def matches(
    pattern: str | None = None, gold_key: str = "gold", *, whole: bool = False
) -> Scorer[str]:
    """1.0 if the output matches a regular expression, else 0.0.

    Args:
        pattern: The expression, for all tasks; None if each task has its own.
        gold_key: Where in `Task.meta` the task's own expression stands, or several, of which one
            must match.
        whole: The whole output must match, not just some part of it.

    Raises:
        ValueError: If `pattern` is no regular expression.
    """
    return _Matches(gold_key, pattern=pattern, whole=whole)


def edit_similarity(gold_key: str = "gold", *, normalise: bool = True) -> Scorer[str]:
    """One minus the share of characters to insert, delete or replace, a graded `exact_match`.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands.
        normalise: As in `exact_match`.
    """
    return _EditSimilarity(gold_key, normalise=normalise)


def number_closeness(gold_key: str = "gold", *, zero_at: float = 1.0) -> Scorer[Number]:
    """1.0 for the expected number, less the further away it is, a graded `last_number`.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands: a number, or text with one.
        zero_at: The difference that earns nothing, as a share of the expected number; above 0.
            Where 0 is expected only 0 earns anything.

    Raises:
        ValueError: If `zero_at` is not positive.
    """
    return _NumberCloseness(gold_key, zero_at=zero_at)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _distance(left: str, right: str) -> int:
    """The Levenshtein distance of texts that are not empty; a row of the table in one integer."""
    positions: dict[str, int] = {}
    for index, character in enumerate(left):
        positions[character] = positions.get(character, 0) | 1 << index
    full = (1 << len(left)) - 1
    rises, falls, distance = full, 0, len(left)
    last = 1 << len(left) >> 1
    for character in right:
        same = positions.get(character, 0)
        level = (((same & rises) + rises) ^ rises) | same | falls
        up = falls | ~(level | rises)
        down = level & rises
        distance += bool(up & last) - bool(down & last)
        up = up << 1 | 1
        rises = (down << 1 | ~(level | up)) & full
        falls = up & level & full
    return distance
