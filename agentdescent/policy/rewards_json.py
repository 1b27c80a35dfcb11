"""Rewards for outputs that are, or hold, JSON."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NoReturn, cast

from agentdescent.policy.rewards import Scorer, shortened
from agentdescent.policy.rewards_gold import at_path
from agentdescent.policy.rewards_numbers import ROUNDING
from agentdescent.policy.rewards_text import normalised

_BEGIN = re.compile(r'\{(?=\s*["}])')
_MOST_BROKEN = 1000

Found = tuple[Any]
"""One value, in a tuple, because a value may be false."""


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object that stands in `text` outside of another, in their order.

    After a thousand that are broken no more are looked for: a model has lost its way.
    """
    end, broken = 0, 0
    while broken < _MOST_BROKEN and (begin := _BEGIN.search(text, end)) is not None:
        try:
            value, end = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            end = begin.end()
            broken += 1
        else:
            yield value


@dataclass(frozen=True, slots=True, repr=False)
class _JsonField(Scorer[Found]):
    _: KW_ONLY
    field: str
    name: ClassVar[str] = "json_field"
    _sought: ClassVar[str] = "value at the field"

    def _seen(self, output: Any) -> Found | None:
        return _answer(at_path(_document(output), self.field))

    def _look(self, value: Any) -> Found | None:
        return _answer(value)

    def _shown(self, seen: Found) -> str:
        return _written(seen[0])

    def _score(self, gold: Found, seen: Found) -> float:
        return float(_agree(gold[0], seen[0]))


@dataclass(frozen=True, slots=True, repr=False)
class _JsonFields(Scorer[Mapping[str, Any]]):
    name: ClassVar[str] = "json_fields"
    _sought: ClassVar[str] = "JSON object"
    _wrong_kind: ClassVar[str] = "which maps no fields to values"

    def _look(self, value: Any) -> Mapping[str, Any] | None:
        return _document(value)

    def _shown(self, seen: Mapping[str, Any]) -> str:
        return _written(seen)

    def _score(self, gold: Mapping[str, Any], seen: Mapping[str, Any]) -> float:
        return sum(_agree(value, at_path(seen, path)) for path, value in gold.items()) / len(gold)


def json_field(field: str, gold_key: str = "gold") -> Scorer[Found]:
    """1.0 if the output's JSON has the expected value in one field, else 0.0.

    The output may be a mapping, or text with a JSON object in it, of which the last counts. Numbers
    are compared as numbers and texts as in `exact_match`; a list or an object must agree in all of
    its members.

    Args:
        field: The field, or a path such as "answer.amount" or "items.0.id".
        gold_key: Where in `Task.meta` the expected value stands.
    """
    return _JsonField(gold_key, field=field)


def json_fields(gold_key: str = "gold") -> Scorer[Mapping[str, Any]]:
    """The share of expected fields that the output's JSON has right, a graded reward.

    Args:
        gold_key: Where in `Task.meta` the expected fields stand: a mapping of fields, or of paths
            such as "items.0.id", to values; or JSON of one. What else the output holds is not
            looked at. Values are compared as in `json_field`.
    """
    return _JsonFields(gold_key)


_PLAIN = (str, int, float)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _document(output: Any) -> Mapping[str, Any] | None:
    if isinstance(output, Mapping):
        return cast("Mapping[str, Any]", output)
    *_, last = (None, *objects_in(output)) if isinstance(output, str) else (None,)
    return last


def _answer(value: Any) -> Found | None:
    return None if value is None or value == "" else (value,)


def _written(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def _agree(gold: Any, found: Any) -> bool:
    wanted, given = _members(gold), _members(found)
    if wanted is not None and given is not None:
        return wanted.keys() == given.keys() and all(_agree(wanted[k], given[k]) for k in wanted)
    expected, number = _number(gold), _number(found)
    if expected is not None and number is not None:
        return math.isclose(expected, number, rel_tol=ROUNDING)
    if isinstance(gold, _PLAIN) and isinstance(found, _PLAIN):
        return normalised(str(gold)) == normalised(str(found))
    return gold is None and found is None


def _members(value: Any) -> dict[Any, Any] | None:
    """What a mapping or a list is made of; None of anything else."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    return (
        dict(enumerate(cast("Sequence[Any]", value))) if isinstance(value, list | tuple) else None
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, _PLAIN):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
