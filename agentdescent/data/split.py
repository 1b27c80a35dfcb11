"""How items are dealt out to train, val and test."""

import math
import random
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import TypeVar

from agentdescent.data.identity import content_key

T = TypeVar("T")

Unit = list[T]
"""Items that must not be separated."""

Parts = tuple[list[T], list[T], list[T]]
"""Train, val, test."""

TRAIN, VAL, TEST = range(3)
NAMES = ("train", "val", "test")

_SLACK = Fraction(1, 10**6)


def checked_ratios(ratios: Sequence[float]) -> list[Fraction]:
    """The ratios as exact shares of 1.

    Raises:
        ValueError: If they are not three finite numbers from 0 on that sum to 1.
    """
    if len(ratios) != len(NAMES) or not all(math.isfinite(r) and r >= 0 for r in ratios):
        raise ValueError(
            "ratios must be three finite numbers from 0 on, for train, val and test, such as "
            f"(0.6, 0.2, 0.2); got {ratios!r}"
        )
    shares = [Fraction(str(ratio)) for ratio in ratios]
    total = sum(shares)
    if abs(total - 1) > _SLACK:
        raise ValueError(f"ratios must sum to 1, but {ratios!r} sum to {float(total):g}")
    return [share / total for share in shares]


def split_by_share(
    items: list[T],
    shares: Sequence[Fraction],
    *,
    seed: int | None,
    stratum_of: Callable[[T], object] | None,
    group_of: Callable[[T], object],
) -> Parts[T]:
    """Deal out the groups among `items`, stratum by stratum.

    A group belongs to the stratum of its first item.

    Args:
        items: What to split.
        shares: Of train, val and test; they sum to 1.
        seed: Of the shuffle; None keeps the order of the items.
        stratum_of: What each part gets its share of; None for no such thing.
        group_of: Items with the same value stay together.
    """
    rng = None if seed is None else random.Random(seed)  # noqa: S311 - a reproducible split
    units = _grouped(range(len(items)), lambda place: group_of(items[place]))
    dealt: Parts[Unit[int]] = ([], [], [])
    for stratum in _strata(units, items, stratum_of):
        if rng is not None:
            rng.shuffle(stratum)
        parts = _deal(stratum, shares)
        if stratum_of is not None:
            _represent(parts, shares)
        for part, more in zip(dealt, parts, strict=True):
            part.extend(more)
    _fill_empty(dealt, shares)
    is_mixed = stratum_of is not None or len(units) < len(items)
    train, val, test = (_in_order(part, items, rng, is_mixed=is_mixed) for part in dealt)
    return train, val, test


def split_by_hash(
    items: list[T], shares: Sequence[Fraction], *, seed: int, key_of: Callable[[T], object]
) -> Parts[T]:
    """Place each item by a hash of its key and `seed`, whatever the other items are."""
    parts: Parts[T] = ([], [], [])
    for item in items:
        digest = sha256(f"{seed}:{key_of(item)}".encode("utf-8", "surrogatepass")).digest()
        place = Fraction(int.from_bytes(digest[:8], "big"), 2**64)
        is_at = sum(place >= bound for bound in (shares[TRAIN], shares[TRAIN] + shares[VAL]))
        parts[is_at].append(item)
    empty = [NAMES[p] for p, part in enumerate(parts) if shares[p] and not part]
    if empty and items:
        warnings.warn(
            f"hash_key left {' and '.join(empty)} empty: {len(items)} items are few for a split "
            "that places each on its own; give more items or another seed, or leave hash_key out",
            RuntimeWarning,
            stacklevel=3,
        )
    return parts


def sizes(n: int, shares: Sequence[Fraction]) -> list[int]:
    """`n` divided in proportion to `shares`, rounded by largest remainder; a later part wins a tie.

    The results sum to `n`, and each is within 1 of its exact share.
    """
    exact = [n * share for share in shares]
    rounded = [math.floor(value) for value in exact]
    by_remainder = sorted(
        range(len(shares)), key=lambda part: (exact[part] - rounded[part], part), reverse=True
    )
    for part in by_remainder[: n - sum(rounded)]:
        rounded[part] += 1
    return rounded


def _grouped(values: Sequence[T], key_of: Callable[[T], object]) -> list[list[T]]:
    groups: dict[object, list[T]] = {}
    for value in values:
        groups.setdefault(content_key(key_of(value)), []).append(value)
    return list(groups.values())


def _strata(
    units: list[Unit[int]], items: Sequence[T], stratum_of: Callable[[T], object] | None
) -> list[list[Unit[int]]]:
    if stratum_of is None:
        return [units]

    def key_of(unit: Unit[int]) -> object:
        return stratum_of(items[unit[0]])

    return sorted(_grouped(units, key_of), key=lambda stratum: str(key_of(stratum[0])))


def _deal(units: list[Unit[int]], shares: Sequence[Fraction]) -> Parts[Unit[int]]:
    """Deal out units: single items in their order, larger units where most room is left."""
    room = sizes(sum(map(len, units)), shares)
    if all(len(unit) == 1 for unit in units):
        first, second = room[TRAIN], room[TRAIN] + room[VAL]
        return units[:first], units[first:second], units[second:]
    parts: Parts[Unit[int]] = ([], [], [])
    wanted = [part for part, share in enumerate(shares) if share]
    for unit in sorted(units, key=len, reverse=True):
        roomiest = max(wanted, key=lambda part: room[part])
        room[roomiest] -= len(unit)
        parts[roomiest].append(unit)
    return parts


def _represent(parts: Parts[Unit[int]], shares: Sequence[Fraction]) -> None:
    """Give val, if it is to have any, at least one unit of a stratum."""
    if shares[VAL] and not parts[VAL]:
        _move_one(parts, TEST if parts[TEST] else TRAIN, VAL)


def _fill_empty(parts: Parts[Unit[int]], shares: Sequence[Fraction]) -> None:
    """Give each part with a share above 0 at least one unit, while another has two."""
    for part, share in enumerate(shares):
        richest = max(range(len(parts)), key=lambda other: len(parts[other]))
        if share and not parts[part] and len(parts[richest]) > 1:
            _move_one(parts, richest, part)


def _move_one(parts: Parts[Unit[int]], source: int, target: int) -> None:
    """Move the unit at the near end of `source`, the smallest there is, to `target`."""
    smallest = min(map(len, parts[source]))
    near_first = parts[source][::-1] if source < target else parts[source]
    unit = next(unit for unit in near_first if len(unit) == smallest)
    parts[source].remove(unit)
    parts[target].insert(0 if source < target else len(parts[target]), unit)


def _in_order(
    units: list[Unit[int]], items: Sequence[T], rng: random.Random | None, *, is_mixed: bool
) -> list[T]:
    """The items of one part: in their order, or shuffled once more where they were sorted out."""
    places = [place for unit in units for place in unit]
    if rng is None:
        places.sort()
    elif is_mixed:
        rng.shuffle(places)
    return [items[place] for place in places]
