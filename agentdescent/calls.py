"""Calls of models: what for, what each took, and the run that pays for them."""

from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

from agentdescent.core.reply import Tokens
from agentdescent.core.spend import Spend, Unit
from agentdescent.usage import Usage

T = TypeVar("T")


class Role(StrEnum):
    """What a model is asked for."""

    SOLVE = "solve"
    REFLECT = "reflect"
    JUDGE = "judge"
    MERGE = "merge"
    OTHER = "other"


class Stage(StrEnum):
    """In which queue a request waits for its turn; an endpoint serves the two alternately."""

    ROLLOUT = "rollout"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a provider, from the turn it waited for to the end of its reply.

    Attributes:
        provider: Whose API it spoke, e.g. "anthropic".
        model: As it was asked for.
        endpoint: The base URL, without credentials.
        role: What for.
        attempt: Which try of one logical call, from 1.
        queued: Seconds it waited for its turn at the endpoint.
        seconds: From the request to the end of the reply, or to the failure.
        first_token: Seconds to the first piece of text; None when it was not streamed.
        status: The HTTP status, or None if there was no reply.
        finish_reason: The provider's word for why the model stopped, or "".
        tokens: None when the provider did not say.
        usd: None when the price is not known.
        error: "" or what went wrong, without secrets.
    """

    provider: str
    model: str
    endpoint: str
    role: Role
    attempt: int = 1
    queued: float = 0.0
    seconds: float = 0.0
    first_token: float | None = None
    status: int | None = None
    finish_reason: str = ""
    tokens: Tokens | None = None
    usd: float | None = None
    error: str = ""


class RunCalls:
    """What a completion finds of the run it is called in; lives on the run's event loop.

    Attributes:
        spend: The budgets.
        usage: The run's account.
        portal: By which a thread has something done on the run's loop; None before the run opens.
    """

    def __init__(
        self,
        spend: Spend,
        usage: Usage,
        listeners: Sequence[Callable[[ModelCall], object]] = (),
    ) -> None:
        self.spend: Spend = spend
        self.usage: Usage = usage
        self.portal: BlockingPortal | None = None
        self._listeners = tuple(listeners)
        self._once: dict[Hashable, Any] = {}
        self._closers: list[Callable[[], Awaitable[object]]] = []

    def admit(self) -> None:
        """Pay for one attempt, before it is made.

        Raises:
            Exhausted: If the run may make no more.
        """
        self.spend.reserve(Unit.ATTEMPT)

    def note(self, call: ModelCall) -> None:
        """Enter an attempt that came to an end."""
        for listener in self._listeners:
            listener(call)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What all completions of the run share under `key`, made by the first that asks."""
        if key not in self._once:
            self._once[key] = make()
        return cast("T", self._once[key])

    def on_close(self, close: Callable[[], Awaitable[object]]) -> None:
        """Await `close()` when the run is over, whatever its end."""
        self._closers.append(close)

    async def aclose(self) -> None:
        """Close what was left to the run, last first; a cancellation waits until that is done."""
        with anyio.CancelScope(shield=True):
            while self._closers:
                await self._closers.pop()()


_run: ContextVar[RunCalls | None] = ContextVar("_run", default=None)
_role: ContextVar[Role] = ContextVar("_role", default=Role.OTHER)
_stage: ContextVar[Stage] = ContextVar("_stage", default=Stage.ROLLOUT)


def current_run() -> RunCalls | None:
    """The run that calls of models belong to here, in its tasks and in its threads; or None."""
    return _run.get()


def current_role() -> Role:
    """What models are asked for here."""
    return _role.get()


def current_stage() -> Stage:
    """Which queue requests wait in here: the rollouts', unless a gate asks."""
    return _stage.get()


@contextmanager
def calls_of(run: RunCalls) -> Generator[None]:
    """Within the block, and in tasks and threads started in it, calls of models belong to `run`."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


@contextmanager
def working_as(role: Role) -> Generator[None]:
    """Within the block, models are asked for `role`."""
    token = _role.set(role)
    try:
        yield
    finally:
        _role.reset(token)


@contextmanager
def working_at(stage: Stage) -> Generator[None]:
    """Within the block, requests wait in the queue of `stage`."""
    token = _stage.set(stage)
    try:
        yield
    finally:
        _stage.reset(token)
