"""Calls of models: the run that they belong to, admits them and pays for them."""

from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal
from anyio.lowlevel import EventLoopToken, current_token

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


_A_TOKEN_OF_EACH = Tokens(1, 1)


class Admission:
    """Leave to make one attempt, with what is held for it; a context manager.

    `RunCalls.note` settles it. An attempt that has not been noted when the block is left, because
    it raised or was cancelled, is noted then; it costs no tokens and no dollars.

    Attributes:
        tariff: The price of the model, or None.
        held: What is reserved until the attempt is settled.
    """

    __slots__ = ("_began", "_place", "_run", "held", "is_noted", "tariff")

    def __init__(
        self,
        run: "RunCalls",
        place: tuple[str, str, str] = ("", "", ""),
        tariff: Tariff | None = None,
        held: Mapping[Unit, float] = MappingProxyType({}),
    ) -> None:
        self.tariff: Tariff | None = tariff
        self.held: Mapping[Unit, float] = held
        self.is_noted: bool = False
        self._run = run
        self._place = place
        self._began = anyio.current_time()

    def belongs_to(self, run: "RunCalls") -> bool:
        """True if `run` pays."""
        return self._run is run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_noted:
            return
        failed = kind is not None and issubclass(kind, Exception)
        self._run.note(
            ModelCall(
                *self._place,
                role=current_role(),
                seconds=anyio.current_time() - self._began,
                error=kind.__name__ if kind is not None and failed else "",
                cancelled=not failed,
            ),
            self,
        )


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
        loop: The run's event loop; None before `calls_of` is entered on one.
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
        self.loop: EventLoopToken | None = None
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
        admission = Admission(self, (provider, model, endpoint), tariff, held)
        _admission.set(admission)
        return admission

    def note(self, call: ModelCall, admission: Admission | None = None) -> None:
        """Enter an attempt that came to an end, and settle what was held for it.

        It is priced here unless its `usd` is given. A reply whose tokens are not known spends what
        was held for it; what failed or was cancelled spends nothing more than it says.

        Args:
            call: The attempt.
            admission: Of that attempt; None for the last one granted in this context.
        """
        admission = admission or _admission.get()
        if admission is None or admission.is_noted or not admission.belongs_to(self):
            admission = Admission(self)
        admission.is_noted = True
        if call.usd is None:
            call = replace(call, usd=self._price(call, admission.tariff))
        self.usage.note(call)
        self._settle(admission.held, call)
        for listener in self._listeners:
            listener(call)

    def _price(self, call: ModelCall, tariff: Tariff | None) -> float | None:
        if tariff is None:
            tariff = self.prices.find(call.provider, call.model, call.endpoint)
        if tariff is None:
            return None
        if call.tokens is None:
            return None if tariff.cost(_A_TOKEN_OF_EACH) else 0.0
        return tariff.cost(call.tokens)

    def _settle(self, held: Mapping[Unit, float], call: ModelCall) -> None:
        """Replace what was held by what was spent, and let others look whether that is enough."""
        unknown: Mapping[Unit, float] = {} if call.error or call.cancelled else held
        tokens = unknown.get(Unit.TOKEN, 0) if call.tokens is None else call.tokens.total
        usd = unknown.get(Unit.USD, 0) if call.usd is None else call.usd
        self.spend.settle(Unit.TOKEN, held.get(Unit.TOKEN, 0), tokens)
        self.spend.settle(Unit.USD, held.get(Unit.USD, 0), usd)
        if held:
            self._settled.set()
            self._settled = anyio.Event()

    def is_elsewhere(self) -> bool:
        """True on another event loop than the run's, such as one that a thread of it has opened."""
        return self.loop is not None and self.loop != _loop()

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


_run: ContextVar[RunCalls | None] = ContextVar("_run", default=None)
_role: ContextVar[Role] = ContextVar("_role", default=Role.OTHER)
_stage: ContextVar[Stage] = ContextVar("_stage", default=Stage.ROLLOUT)
_admission: ContextVar[Admission | None] = ContextVar("_admission", default=None)


def _loop() -> EventLoopToken | None:
    try:
        return current_token()
    except anyio.NoEventLoopError:
        return None


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
    run.loop = run.loop or _loop()
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


class _Within(Generic[T]):
    """A block in which a variable has a value; every call of user code enters one."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def working_as(role: Role) -> AbstractContextManager[None]:
    """Within the block, models are asked for `role`."""
    return _Within(_role, role)


def working_at(stage: Stage) -> AbstractContextManager[None]:
    """Within the block, requests wait in the queue of `stage`."""
    return _Within(_stage, stage)
