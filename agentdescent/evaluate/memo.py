"""The memory of measurements: nothing is measured twice while it is remembered."""

import hashlib
import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from agentdescent.core.task import Task
from agentdescent.evaluate.identity import EvaluationIdentity, identity_of, task_key

CAPACITY = 200_000
"""Measurements kept by default: about 7 MB where each artifact was measured on 16 tasks."""


Key = tuple[bytes, bytes, int]
"""One measurement: the digests of artifact and task, and the repeat."""


class Page:
    """What is known of one artifact, told apart by its rendered text.

    Every candidate that a gate turns down leaves a page behind, so that a long run has many, each
    of a few tasks that are measured once. First measurements are therefore kept apart, as bare
    numbers in the order of the tasks' own: dicts would take more than twice the memory.

    Attributes:
        digest: SHA-256 of the text.
    """

    __slots__ = ("_later", "_numbers", "_parts", "_tasks", "_values", "digest")

    def __init__(self, digest: bytes, numbers: dict[bytes, int]) -> None:
        """Start empty.

        Args:
            digest: SHA-256 of the text.
            numbers: A number for each task digest; all pages share and extend it.
        """
        self.digest: bytes = digest
        self._numbers = numbers
        self._tasks = array("I")
        self._values = array("d")
        self._later: dict[bytes, list[float | None]] | None = None
        self._parts: dict[bytes, list[Mapping[str, float]]] | None = None

    def count(self) -> int:
        """How many measurements there are."""
        later = (self._later or {}).values()
        return len(self._values) + sum(draw is not None for draws in later for draw in draws)

    def value(self, task: bytes, repeats: int) -> float | None:
        """The mean of all measurements; None unless the first `repeats` are there."""
        first = self._first(task)
        if first is None or (repeats == 1 and task not in (self._later or ())):
            return first
        draws = self._draws(task)
        if len(draws) < repeats or None in draws[:repeats]:
            return None
        return mean([draw for draw in draws if draw is not None])

    def second(self, task: bytes, repeats: int) -> float | None:
        """The mean of the `repeats` measurements after the first `repeats`; None unless all are."""
        drawn = self.drawn(task, range(repeats, 2 * repeats))
        return mean(list(drawn.values())) if len(drawn) == repeats else None

    def drawn(self, task: bytes, repeats: range) -> dict[int, float]:
        """Those of the measurements `repeats` that are there."""
        draws = self._draws(task)[: repeats.stop]
        return {
            repeat: draw
            for repeat, draw in enumerate(draws)
            if repeat in repeats and draw is not None
        }

    def reserve(self, task: bytes, repeats: int, count: int) -> range:
        """`count` repeats after the first `repeats` that nobody has drawn and nobody else will."""
        first = max(repeats, len(self._draws(task)))
        self._make_room(task, first + count)
        return range(first, first + count)

    def store(self, task: bytes, repeat: int, value: float) -> bool:
        """Keep one measurement; False if it replaces another."""
        if repeat == 0:
            return self._store_first(task, value)
        later = self._make_room(task, repeat + 1)
        is_new = later[repeat - 1] is None
        later[repeat - 1] = value
        return is_new

    def note_parts(self, task: bytes, parts: Mapping[str, float]) -> None:
        """Keep what one measurement is made of."""
        self._parts = self._parts or {}
        self._parts.setdefault(task, []).append(parts)

    def parts(self, task: bytes) -> Sequence[Mapping[str, float]]:
        """What measurements are made of, where the scorer said so."""
        return (self._parts or {}).get(task, ())

    def _first(self, task: bytes) -> float | None:
        number = self._numbers.get(task)
        if number is None:
            return None
        place = bisect_left(self._tasks, number)
        return self._values[place] if self._has(number, place) else None

    def _store_first(self, task: bytes, value: float) -> bool:
        number = self._numbers.setdefault(task, len(self._numbers))
        place = bisect_left(self._tasks, number)
        if self._has(number, place):
            self._values[place] = value
            return False
        self._tasks.insert(place, number)
        self._values.insert(place, value)
        return True

    def _has(self, number: int, place: int) -> bool:
        return place < len(self._tasks) and self._tasks[place] == number

    def _draws(self, task: bytes) -> list[float | None]:
        return [self._first(task), *(self._later or {}).get(task, ())]

    def _make_room(self, task: bytes, repeats: int) -> list[float | None]:
        self._later = self._later or {}
        later = self._later.setdefault(task, [])
        later.extend([None] * (repeats - 1 - len(later)))
        return later


class Memo:
    """Measurements by artifact, task and repeat; the artifact not asked about for longest goes.

    The pinned artifact stays, and so does the most recent one, also where these two alone exceed
    the capacity. Failures are never kept: there is nothing to store.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        reward: Callable[..., Any],
        evaluation_key: str = "",
        *,
        capacity: int = CAPACITY,
    ) -> None:
        """Start empty.

        Args:
            run: Whose work is measured.
            reward: What measures it.
            evaluation_key: The user's word for whatever else the measurements depend on.
            capacity: Measurements to keep.
        """
        self._measures = (run, reward, evaluation_key)
        self._capacity = capacity
        self._pages: dict[bytes, Page] = {}
        self._numbers: dict[bytes, int] = {}
        self._pinned = b""
        self._on_store: Callable[[Sequence[Any]], object] | None = None
        self._passing: set[bytes] = set()
        self._size = 0
        self._task_keys: dict[Task, tuple[Mapping[str, Any], bytes]] = {}

    def __len__(self) -> int:
        return self._size

    @cached_property
    def identity(self) -> EvaluationIdentity:
        """What all its measurements have in common, and whether a later run may trust them."""
        run, reward, evaluation_key = self._measures
        return EvaluationIdentity(identity_of(run), identity_of(reward), evaluation_key)

    def page(self, rendered: str) -> Page:
        """What is known of the artifact, which becomes the most recent one."""
        return self._opened(hashlib.sha256(rendered.encode("utf-8", "surrogatepass")).digest())

    def pin(self, rendered: str) -> None:
        """Keep this artifact whatever happens, and no longer the one pinned before."""
        self._pinned = self.page(rendered).digest

    def task_key(self, task: Task) -> bytes:
        """The digest of the task's content; computed once per task."""
        known = self._task_keys.get(task)
        if known is not None and known[0] is task.meta:
            return known[1]
        key = task_key(task)
        digest = key.digest
        self._task_keys[task] = (task.meta, digest)
        if not key.is_lasting:
            self._passing.add(digest)
        return digest

    def store(self, digest: bytes, task: bytes, repeat: int, value: float) -> None:
        """Keep one measurement of the artifact whose page has `digest`."""
        self._size += self._opened(digest).store(task, repeat, value)
        self._evict()
        if self._on_store is not None and task not in self._passing:
            self._on_store((digest.hex(), task.hex(), repeat, value))

    def tell(self, listener: Callable[[Sequence[Any]], object]) -> None:
        """Give `listener` every measurement from now on that means the same in a later process.

        Each is (hex digest of the artifact, hex digest of the task, repeat, value).
        """
        self._on_store = listener

    def restore(self, entries: Iterable[Sequence[Any]]) -> None:
        """Remember what another process has measured, in the form that `tell` gives."""
        for digest, task, repeat, value in entries:
            self.store(bytes.fromhex(digest), bytes.fromhex(task), repeat, value)

    def note_parts(self, key: Key, parts: Mapping[str, float]) -> None:
        """Keep what a measurement is made of; it goes with the artifact."""
        digest, task, _ = key
        self._opened(digest).note_parts(task, parts)

    def parts(self, rendered: str, tasks: Sequence[Task]) -> dict[str, float]:
        """The mean of each part over those of `tasks` that have it; empty if none was noted."""
        page = self.page(rendered)
        by_name: defaultdict[str, list[float]] = defaultdict(list)
        for task in tasks:
            for name, value in _means(page.parts(self.task_key(task))).items():
                by_name[name].append(value)
        return {name: mean(values) for name, values in sorted(by_name.items())}

    def _opened(self, digest: bytes) -> Page:
        page = self._pages.pop(digest, None) or Page(digest, self._numbers)
        self._pages[digest] = page
        return page

    def _evict(self) -> None:
        while self._size > self._capacity:
            oldest = next(digest for digest in self._pages if digest != self._pinned)
            if oldest == next(reversed(self._pages)):
                return
            self._size -= self._pages.pop(oldest).count()


def _means(draws: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for parts in draws for name in parts)
    return {name: mean([parts[name] for parts in draws if name in parts]) for name in names}


def mean(draws: Sequence[float]) -> float:
    """The mean, the same in whatever order they came; 0.0 of none."""
    return math.fsum(draws) / max(1, len(draws))
