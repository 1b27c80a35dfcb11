"""Rollouts that expose their turns: how they say so, and how they are cut and gone on with."""

import json
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from inspect import isasyncgenfunction, isgeneratorfunction, ismethod, signature
from typing import Any, Final

from agentdescent.errors import ContractError

_NONE_YET: Final = object()


@dataclass(frozen=True, slots=True)
class Turn:
    """What a `run` that is an async generator yields: after each turn, and with its output last.

    Attributes:
        state: What the rollout can be gone on with, a JSON value: it is handed to
            ``run(rendered, task, resume=state)``.
        output: The output, which ends the rollout.
    """

    state: Any = None
    output: Any = _NONE_YET

    @property
    def is_last(self) -> bool:
        """True if it carries the output."""
        return self.output is not _NONE_YET


def has_turns(function: object) -> bool:
    """True if calling `function` gives an async generator."""
    while isinstance(function, partial) or ismethod(function):
        function = function.func if isinstance(function, partial) else function.__func__
    return isasyncgenfunction(function) or isasyncgenfunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - asks what kind it is
    )


def check_generators(run: Callable[..., Any], propose: Callable[..., Any]) -> None:
    """Refuse generator functions, except a `run` that exposes its turns and can be gone on with.

    Raises:
        TypeError: Naming the one that cannot be used.
    """
    if has_turns(run):
        _require_resume(run)
    for name, function in (("run", run), ("propose", propose)):
        if isgeneratorfunction(function) or (name == "propose" and has_turns(function)):
            raise TypeError(
                f"{name} is a generator function, of which the run could use only the generator; "
                "let it return its result, as `def` or `async def`"
            )


def _require_resume(run: Callable[..., Any]) -> None:
    try:
        signature(run).bind("rendered", "task", resume=None)
    except TypeError as error:
        raise TypeError(
            "run is an async generator and may be cut after a turn, so it must be callable as "
            f"run(rendered, task, resume=state), but: {error}; write "
            "`async def run(rendered, task, resume=None)`"
        ) from None


class Cut(Exception):
    """The rollout is to end after this turn, and to be gone on with later."""


@dataclass(frozen=True, slots=True)
class ResumeItem:
    """A rollout that was cut.

    Attributes:
        task_id: Its task.
        turn: How many turns it has made.
        conversation: The state that its last turn yielded, a JSON value.
        external_handle: Where else the rollout goes on meanwhile; None if nowhere.
        version_at_checkpoint: The version of the artifact that it was made with.
    """

    task_id: str
    turn: int
    conversation: Any
    external_handle: str | None
    version_at_checkpoint: int


class ResumeQueue:
    """Rollouts that were cut, first in, first out, and the rule when to cut one.

    Args:
        p90_multiplier: A rollout is overdue after so many times what nine in ten take at most.
    """

    def __init__(self, p90_multiplier: float = 2.0) -> None:
        if not p90_multiplier > 0.0:
            raise ValueError(f"p90_multiplier must be above 0, got {p90_multiplier!r}")
        self._p90_multiplier = p90_multiplier
        self._items: deque[ResumeItem] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def should_checkpoint(self, elapsed: float, p90: float) -> bool:
        """True if a rollout that has taken `elapsed` seconds is overdue."""
        return elapsed > self._p90_multiplier * p90

    def push(self, item: ResumeItem) -> None:
        """Add a rollout that was cut."""
        self._items.append(item)

    def pop(self, among: Container[str] | None = None) -> ResumeItem | None:
        """Take out the oldest, or the oldest whose task is `among` these; None if there is none."""
        for item in self._items:
            if among is None or item.task_id in among:
                self._items.remove(item)
                return item
        return None

    def dump(self) -> list[dict[str, Any]]:
        """What waits, as JSON values."""
        return [asdict(item) for item in self._items]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what `dump` gave."""
        self._items = deque(ResumeItem(**item) for item in saved)


class Course:
    """How far one rollout has come, turn by turn.

    Args:
        task_id: Its task.
        version: The version that it works with.
        resume: What it goes on with; None if it begins.
        is_overdue: Asked after each turn whether to cut it.
    """

    def __init__(
        self,
        task_id: str,
        version: int,
        resume: ResumeItem | None,
        is_overdue: Callable[[], bool],
    ) -> None:
        self._task_id = task_id
        self._version = version
        self._turn = 0 if resume is None else resume.turn
        self._state: str | None = None
        self._is_overdue = is_overdue
        self.options: dict[str, Any] = {} if resume is None else {"resume": resume.conversation}

    def note(self, turn: Turn) -> None:
        """Learn of a turn that is not the last.

        The state is copied: what goes on is free to change it.

        Raises:
            Cut: If the rollout is overdue.
            ContractError: If the state is no JSON value.
        """
        try:
            self._state = json.dumps(turn.state, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(
                f"the state that run yielded for task {self._task_id!r} is no JSON value: {error}; "
                "yield Turn(state) with dicts, lists, text and finite numbers alone"
            ) from None
        self._turn += 1
        if self._is_overdue():
            raise Cut

    def checkpoint(self) -> ResumeItem | None:
        """What to go on with later; None before the first turn."""
        if self._state is None:
            return None
        state = json.loads(self._state)
        return ResumeItem(self._task_id, self._turn, state, None, self._version)
