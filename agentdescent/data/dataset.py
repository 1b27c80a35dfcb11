"""Data sets in three parts: what is trained on, what merges are judged by, what nobody sees."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agentdescent.data.identity import content_key
from agentdescent.data.split import checked_ratios, split_by_hash, split_by_share

T = TypeVar("T")
U = TypeVar("U")

RATIOS = (0.6, 0.2, 0.2)
"""The shares of train, val and test unless others are asked for."""


@dataclass(frozen=True, slots=True)
class Dataset(Generic[T]):
    """Items in three parts.

    ``evolve(ds.trainval, ..., held_out_frac=ds.val_frac)`` holds out exactly `val`; `test` stays
    unseen, to measure the result with.

    Attributes:
        train: What workers work on.
        val: What merges are judged by.
        test: For you alone.
        name: For people.
    """

    train: list[T] = field(default_factory=list[T])
    val: list[T] = field(default_factory=list[T])
    test: list[T] = field(default_factory=list[T])
    name: str = ""

    def __len__(self) -> int:
        return len(self.train) + len(self.val) + len(self.test)

    @property
    def trainval(self) -> list[T]:
        """`train`, then `val`."""
        return [*self.train, *self.val]

    @property
    def val_frac(self) -> float:
        """The share of `val` in `trainval`; 0.0 when both are empty."""
        return len(self.val) / max(1, len(self.train) + len(self.val))

    def sizes(self) -> dict[str, int]:
        """How many items each part has."""
        return {"train": len(self.train), "val": len(self.val), "test": len(self.test)}

    def map(self, function: Callable[[T], U]) -> "Dataset[U]":
        """The same parts with `function` applied to each item."""
        parts = ([function(item) for item in part] for part in (self.train, self.val, self.test))
        return Dataset(*parts, name=self.name)


def split_dataset(
    items: Iterable[T],
    *,
    ratios: tuple[float, float, float] = RATIOS,
    seed: int = 0,
    shuffle: bool = True,
    stratify_key: Callable[[T], object] | None = None,
    group_key: Callable[[T], object] | None = None,
    hash_key: Callable[[T], object] | None = None,
    name: str = "",
) -> Dataset[T]:
    """Split `items` into train, val and test; none is in two parts.

    Sizes are rounded by largest remainder. A part with a ratio above 0 is empty only when there
    are fewer items (or groups) than parts. Items with equal content share a part; that of a task is
    its prompt and meta.

    Args:
        items: What to split.
        ratios: The shares of train, val and test; they sum to 1, and a part may have 0.
        seed: Of the shuffle, or of the hash.
        shuffle: False keeps the order: first train, then val, then test.
        stratify_key: Items with the same value of it are split among themselves, so that each part
            has its share of them; `val` gets at least one of each value.
        group_key: Items with the same value of it share a part. Whole groups are dealt out, so
            that sizes are only as near to the ratios as the groups allow.
        hash_key: Place each item by a hash of this value alone, such as an id, so that no item
            moves when others are added later. Items keep their order; sizes are near the ratios
            only for many items, and a part that stays empty is warned of.
        name: Of the data set.

    Raises:
        ValueError: If the ratios are not three numbers from 0 on that sum to 1, or `hash_key` is
            combined with another key.
    """
    shares = checked_ratios(ratios)
    if hash_key is None:
        parts = split_by_share(
            list(items),
            shares,
            seed=seed if shuffle else None,
            stratum_of=stratify_key,
            group_of=content_key if group_key is None else group_key,
        )
    elif stratify_key is not None or group_key is not None:
        raise ValueError(
            "hash_key places each item on its own, so it cannot be combined with stratify_key or "
            "group_key; to keep groups together, let hash_key return the group"
        )
    else:
        parts = split_by_hash(list(items), shares, seed=seed, key_of=hash_key)
    return Dataset(*parts, name=name)


def dataset_from_splits(
    train: Iterable[T], val: Iterable[T], test: Iterable[T] = (), name: str = ""
) -> Dataset[T]:
    """A data set of parts that are given, such as the native splits of a benchmark.

    Warns (RuntimeWarning) when items with equal content are in two parts; that of a task is its
    prompt and meta.
    """
    dataset = Dataset(list(train), list(val), list(test), name)
    home: dict[object, str] = {}
    shared: list[str] = []
    for part, items in (("train", dataset.train), ("val", dataset.val), ("test", dataset.test)):
        for item in items:
            first = home.setdefault(content_key(item), part)
            if first != part:
                shared.append(f"{first} and {part}: {item!r:.80}")
    if shared:
        warnings.warn(
            f"{len(shared)} items are in two parts, the first in {shared[0]}; what is measured on "
            "them is too good. Drop them, or join the parts and use split_dataset",
            RuntimeWarning,
            stacklevel=2,
        )
    return dataset
