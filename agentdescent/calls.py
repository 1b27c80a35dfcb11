"""Calls of models: the run that they belong to, admits them and pays for them."""

from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

from agentdescent.core.model_calls import ModelCall, Role
from agentdescent.core.reply import Tokens
from agentdescent.core.spend import Spend, Unit
from agentdescent.errors import UnpricedModelError
from agentdescent.pricing import Prices, Tariff
from agentdescent.usage import Usage

__all__ = [
    "Admission",
    "ModelCall",
    "Role",
    "RunCalls",
    "Stage",
    "calls_of",
    "current_role",
    "current_run",
    "current_stage",
    "working_as",
    "working_at",
]

T = TypeVar("T")


class Stage(StrEnum):
    """In which queue a request waits for its turn; an endpoint serves the two alternately."""

    ROLLOUT = "rollout"
    GATE = "gate"


FIRST_GUESS = 4096
"""Tokens that a call is expected to take while nothing is known about its kind."""


class Admission:
    """Leave to make one attempt, with what is held for it; a context manager.

    `RunCalls.note` settles it. Leaving the block gives back what has not been settled, so an
    attempt that fails or is cancelled before it is noted costs no tokens and no dollars.

    Attributes:
        run: Who pays.
        tariff: The price of the model, or None.
        held: What is reserved until the attempt is settled.
    """

    __slots__ = ("held", "run", "tariff")

    def __init__(self, run: "RunCalls", tariff: Tariff | None, held: Mapping[Unit, float]) -> None:
        self.run: RunCalls = run
        self.tariff: Tariff | None = tariff
        self.held: Mapping[Unit, float] = held

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.settle(self, {})


class RunCalls:
    """What a completion finds of the run it is called in; lives on the run's event loop.

    Before each attempt a completion asks to be admitted, and afterwards it notes what came of it::

        with await run.admit(provider="acme", model="m1", max_tokens=500):
            ...  # one request
            run.note(ModelCall(...))

    What is noted here is in `usage`: a completion whose own account is the same object does not
    record the call again.

    Attributes:
        spend: The budgets.
        usage: The run's account.
        prices: What models cost.
        portal: By which a thread has something done on the run's loop; None before the run opens.
    """

    def __init__(
        self,
        spend: Spend,
        usage: Usage,
        listeners: Sequence[Callable[[ModelCall], object]] = (),
        prices: Prices | None = None,
    ) -> None:
        self.spend: Spend = spend
        self.usage: Usage = usage
        self.prices: Prices = prices or Prices()
        self.portal: BlockingPortal | None = None
        self._listeners = list(listeners)
        self._once: dict[Hashable, Any] = {}
        self._closers: list[Callable[[], Awaitable[object]]] = []
        self._settled = anyio.Event()

    async def admit(
        self,
        *,
        provider: str = "",
        model: str = "",
        endpoint: str = "",
        max_tokens: int | None = None,
    ) -> Admission:
        """Pay for one attempt, before it is made.

        It waits while only what other attempts hold stands between this one and a budget.
        Cancelled, it has paid for nothing.

        Args:
            provider: As in `ModelCall`; it tells the price, like the next two.
            model: The model.
            endpoint: The base URL.
            max_tokens: The most that the reply may take; None for what calls in this role usually
                take.

        Raises:
            Exhausted: If the run may make no more.
            UnpricedModelError: If there is a budget of dollars and the price is not known.
        """
        tariff = self.prices.find(provider, model, endpoint) if self._counts(Unit.USD) else None
        held = self._estimates(model, tariff, max_tokens)
        while not self._reserve(held):
            await self._settled.wait()
        admission = Admission(self, tariff, held)
        _admission.set(admission)
        return admission

    def note(self, call: ModelCall) -> None:
        """Enter an attempt that came to an end, and settle what was held for it.

        It is priced here unless its `usd` is given. A reply whose tokens are not known spends what
        was held for it; a failure, nothing.
        """
        admission = _admission.get()
        if admission is None or admission.run is not self:
            admission = Admission(self, None, {})
        if call.usd is None and call.tokens is not None:
            where = (call.provider, call.model, call.endpoint)
            tariff = admission.tariff or self.prices.find(*where)
            call = replace(call, usd=None if tariff is None else tariff.cost(call.tokens))
        self.usage.note(call)
        self.settle(admission, _spent(call, admission.held))
        for listener in self._listeners:
            listener(call)

    def settle(self, admission: Admission, spent: Mapping[Unit, float]) -> None:
        """Replace what is held for an attempt by what it took; once that is done, add to it."""
        held, admission.held = admission.held, {}
        for unit in (Unit.TOKEN, Unit.USD):
            self.spend.settle(unit, held.get(unit, 0), spent.get(unit, 0))
        if held:
            self._settled.set()
            self._settled = anyio.Event()

    def listen(self, listener: Callable[[ModelCall], object]) -> None:
        """Tell `listener` of every attempt from now on."""
        self._listeners.append(listener)

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

    def _counts(self, unit: Unit) -> bool:
        return self.spend.is_limited(unit)

    def _estimates(
        self, model: str, tariff: Tariff | None, max_tokens: int | None
    ) -> Mapping[Unit, float]:
        if not (self._counts(Unit.TOKEN) or self._counts(Unit.USD)):
            return {}
        tokens = max_tokens or self._usual_tokens() or FIRST_GUESS
        held: dict[Unit, float] = {Unit.TOKEN: tokens}
        if self._counts(Unit.USD):
            usd = None if tariff is None else tariff.cost(Tokens(output=tokens))
            if usd is None:
                raise UnpricedModelError(model)
            held[Unit.USD] = usd
        return held

    def _usual_tokens(self) -> int:
        account = self.usage.roles.get(current_role())
        return 0 if account is None else int(account.call_tokens.percentile(95) or 0)

    def _reserve(self, held: Mapping[Unit, float]) -> bool:
        self.spend.reserve(Unit.ATTEMPT)
        is_held = False
        try:
            is_held = self.spend.hold(held)
        finally:
            if not is_held:
                self.spend.release(Unit.ATTEMPT)
        return is_held


def _spent(call: ModelCall, held: Mapping[Unit, float]) -> Mapping[Unit, float]:
    """What an attempt took: as it says, else nothing if it failed, else what was held for it."""
    unknown: Mapping[Unit, float] = {} if call.error else held
    tokens = unknown.get(Unit.TOKEN, 0) if call.tokens is None else call.tokens.total
    usd = unknown.get(Unit.USD, 0) if call.usd is None else call.usd
    return {Unit.TOKEN: tokens, Unit.USD: usd}


_run: ContextVar[RunCalls | None] = ContextVar("_run", default=None)
_role: ContextVar[Role] = ContextVar("_role", default=Role.OTHER)
_stage: ContextVar[Stage] = ContextVar("_stage", default=Stage.ROLLOUT)
_admission: ContextVar[Admission | None] = ContextVar("_admission", default=None)


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
