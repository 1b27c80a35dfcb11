"""Tasks: what an artifact is worked on and judged by."""

import random
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

MIN_TASKS = 4

_GOLD = "gold"


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
    gold: str = _GOLD,
    id: str | None = None,  # noqa: A002 - the column's name is the caller's word for it
    **meta_keys: str,
) -> list[Task]:
    """Make one task of each row.

    Args:
        rows: Mappings from column names to values.
        prompt: The column with the prompt, or a template such as ``"{context} Q: {question}"``
            when it contains a brace.
        gold: The column with the expected answer, kept as it is under ``meta["gold"]``. Every row
            must have a column that you name; without the default one, rows get none.
        id: The column with the id; by default tasks are numbered from "0".
        **meta_keys: Further columns to keep: ``level="difficulty"`` copies the column
            ``difficulty`` to ``meta["level"]`` where a row has it.

    Raises:
        ValueError: If there are no rows, an id occurs twice, or the template is none.
        KeyError: If a row lacks a column that the prompt, the id or `gold` names, or no row has
            a further column that was asked for; the message names row and columns.
        TypeError: If a row is no mapping.
    """
    rows = list(rows)
    _refuse_absent_columns(rows, [*([gold] if gold != _GOLD else []), *meta_keys.values()])
    if not rows:
        raise ValueError("rows is empty; tasks_from needs at least one row")
    fill = prompt.format_map if "{" in prompt else itemgetter(prompt)
    tasks: list[Task] = []
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        with _naming(number, row, prompt):
            text = str(fill(row))
            name = str(number) if id is None else str(row[id])
            meta = {key: row[column] for key, column in meta_keys.items() if column in row}
            if gold != _GOLD or gold in row:
                meta["gold"] = row[gold]
        if first.setdefault(name, number) != number:
            raise ValueError(
                f"task ids must be unique; row {number} has the id {name!r} of row {first[name]}"
            )
        tasks.append(Task(name, text, meta))
    return tasks


@contextmanager
def _naming(number: int, row: Mapping[str, Any], prompt: str) -> Generator[None]:
    """Say in which row something is missing."""
    try:
        yield
    except KeyError as missing:
        raise KeyError(
            f"row {number} has no column {missing.args[0]!r}; it has {sorted(map(str, row))}"
        ) from None
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the prompt template {prompt!r:.80} cannot be filled in from row {number}: {error}; "
            "braces that name no column are written twice"
        ) from error


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


def refuse_other_than_task(task: Any) -> None:
    """Make sure that `task` is one, of texts.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(task, Task):
        raise TypeError(
            f"tasks must be Task objects, got {type(task).__name__} {task!r:.80}; make them with "
            "Task(id, prompt, meta), or of rows with tasks_from(rows)"
        )
    for name, value in (("id", task.id), ("prompt", task.prompt)):
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"the {name} of a task must be text, got {type(value).__name__} {value!r:.80} in "
                f"the task with id {task.id!r}; convert it, and put anything else in meta"
            )


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
