"""Tasks: what an artifact is worked on and judged by."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MIN_TASKS = 4


@dataclass(frozen=True)
class Task:
    """One unit of work.

    Tasks are equal when id and prompt are; the hash is that of the id alone, so that `meta` may
    hold anything.

    Attributes:
        id: Unique within one run.
        prompt: What `run` is given.
        meta: Yours: the gold answer, a rubric, fixtures. Reflectors are shown it by default.
    """

    id: str
    prompt: str
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def __hash__(self) -> int:
        return hash(self.id)


def tasks_from(
    rows: Iterable[Mapping[str, Any]],
    prompt: str = "prompt",
    gold: str = "gold",
    id: str | None = None,  # noqa: A002 - the column's name is the caller's word for it
    **meta_keys: str,
) -> list[Task]:
    """Make one task of each row.

    Args:
        rows: Mappings from column names to values.
        prompt: The column with the prompt, or a template such as ``"{context} Q: {question}"``
            when it contains a brace.
        gold: The column with the expected answer, kept as it is under ``meta["gold"]``; rows
            without it get none.
        id: The column with the id; by default tasks are numbered from "0".
        **meta_keys: Further columns to keep: ``level="difficulty"`` copies the column
            ``difficulty`` to ``meta["level"]`` where a row has it.

    Raises:
        ValueError: If there are no rows, or an id occurs twice.
        KeyError: If a row lacks a column that the prompt or the id needs, or no row has a column
            that was asked for; the message names row and columns.
        TypeError: If a row is no mapping.
    """
    rows = list(rows)
    _refuse_absent_columns(rows, [*([gold] if gold != "gold" else []), *meta_keys.values()])
    tasks: list[Task] = []
    for number, row in enumerate(rows):
        try:
            text = prompt.format_map(row) if "{" in prompt else str(row[prompt])
            name = str(number) if id is None else str(row[id])
        except KeyError as missing:
            raise KeyError(
                f"row {number} has no column {missing.args[0]!r}; it has {sorted(map(str, row))}"
            ) from None
        meta = {key: row[column] for key, column in meta_keys.items() if column in row}
        if gold in row:
            meta["gold"] = row[gold]
        tasks.append(Task(name, text, meta))
    if not tasks:
        raise ValueError("rows is empty; tasks_from needs at least one row")
    refuse_duplicate_ids(tasks)
    return tasks


def _refuse_absent_columns(rows: Sequence[Any], wanted: Iterable[str]) -> None:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"row {number} is {type(row).__name__} {row!r:.60}; tasks_from takes mappings from "
                "column names to values, such as dicts"
            )
    for column in wanted:
        if rows and not any(column in row for row in rows):
            raise KeyError(f"no row has a column {column!r}; row 0 has {sorted(map(str, rows[0]))}")


def refuse_duplicate_ids(tasks: Iterable[Task]) -> None:
    """Raise ValueError naming up to five ids that occur more than once."""
    repeated = sorted(name for name, count in Counter(t.id for t in tasks).items() if count > 1)
    if repeated:
        raise ValueError(f"task ids must be unique; these occur more than once: {repeated[:5]}")


def split_held_out(
    tasks: Sequence[Task], fraction: float, *, shuffle: bool = False, seed: int = 0
) -> tuple[list[Task], list[Task]]:
    """Split into (train, held-out): by position, or after a seeded shuffle.

    The first ``round(n * (1 - fraction))`` tasks are for training, but never none and never all.

    Raises:
        ValueError: If `fraction` is not strictly between 0 and 1.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"held_out_frac must be strictly between 0 and 1, got {fraction!r}")
    order = list(tasks)
    if shuffle:
        random.Random(seed).shuffle(order)  # noqa: S311 - a reproducible split, not a secret
    cut = min(max(1, round(len(order) * (1 - fraction))), len(order) - 1)
    return order[:cut], order[cut:]
