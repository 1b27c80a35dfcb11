"""One logical call: attempts, waits and second chances, until there is a reply or no hope."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio

from agentdescent.agents.providers.dialects import Dialect, Draft, Question
from agentdescent.agents.providers.endpoint import Endpoint
from agentdescent.agents.providers.failures import Failure
from agentdescent.agents.providers.limiter import EndpointLimiter
from agentdescent.calls import ModelCall, current_role, current_run, current_stage
from agentdescent.errors import BadRequest, EmptyReply, ProviderTimeout
from agentdescent.usage import Usage

LONGEST_WAIT_S = 30.0
"""No wait of our own choice is longer."""

JITTER = 0.25
"""A wait is longer by at most this share of it, or of a second; never shorter than asked for."""

UNAUTHORIZED = 401

NEWER_LIMIT_KEY = "max_completion_tokens"
"""How some servers call `max_tokens`, which they then refuse."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How patient a call is.

    Attributes:
        timeout: Seconds that one attempt may take.
        retries: Attempts that may fail, the first included; 1 means a single one whatever happens.
        deadline: Seconds for the whole call, all waits included.
        backoff: Seconds before the second attempt; each further wait is twice as long.
        rng: Draws the jitter.
        usage: Told of every attempt, or None.
    """

    timeout: float
    retries: int
    deadline: float
    backoff: float
    rng: Random = field(repr=False)
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Line:
    """A way to ask one endpoint.

    Attributes:
        dialect: How to speak to it.
        endpoint: Where it is.
        limiter: Gives turns.
        send: Sends one body; told what to call at the first piece of text.
    """

    dialect: Dialect
    endpoint: Endpoint
    limiter: EndpointLimiter
    send: Callable[[Mapping[str, Any], Callable[[], None]], Awaitable[Draft | Failure]]


@dataclass(slots=True)
class Outcome:
    """How a call ended.

    Attributes:
        result: The reply, or why there is none.
        attempts: Requests that were made.
        seconds: Of the last one.
        limit: What its reply was limited to; None for no limit of ours.
        limit_key: How the server calls that.
    """

    result: Draft | Failure
    attempts: int
    seconds: float
    limit: int | None
    limit_key: str


class Call:
    """Asks until there is a reply, nothing can help any more, or time is up."""

    def __init__(self, question: Question, line: Line, terms: Terms) -> None:
        self._question = question
        self._line = line
        self._terms = terms
        self._limit = question.limit
        self._limit_key = question.limit_key
        self._attempts = 0
        self._failed = 0
        self._throttled = 0
        self._queued = 0.0
        self._began = 0.0
        self._first_token: float | None = None
        self._seconds = 0.0
        self._last: Failure | None = None
        self._starved: Draft | None = None
        self._ends = float("inf")

    async def outcome(self) -> Outcome:
        """Ask.

        Raises:
            Exhausted: If the run around it may make no more requests.
        """
        self._ends = anyio.current_time() + self._terms.deadline
        with anyio.move_on_after(self._terms.deadline):
            return self._ended(await self._settle())
        return self._ended(self._last or self._out_of_time())

    async def _settle(self) -> Draft | Failure:
        while True:
            result = await self._attempt()
            wait = self._wait_after(result)
            if wait is None:
                return self._best(result)
            self._last = result if isinstance(result, Failure) else None
            await anyio.sleep(wait)

    def _wait_after(self, result: Draft | Failure) -> float | None:
        """Seconds until another attempt; None if there should be none."""
        if isinstance(result, Draft):
            return 0.0 if self._asks_for_room(result) else None
        if self._learns_the_name(result):
            return 0.0
        if not result.is_luck or self._terms.retries == 1:
            return None
        if result.is_throttling:
            wait = self._backoff(self._throttled)
            self._throttled += 1
        else:
            wait = self._backoff(self._failed)
            self._failed += 1
            if self._failed >= self._terms.retries:
                return None
        if result.retry_after:  # "0" says nothing that our own wait would not
            wait = result.retry_after
        if anyio.current_time() + wait >= self._ends:
            return None
        if result.is_throttling and result.retry_after:
            self._line.limiter.pause(wait)
        return wait + self._terms.rng.uniform(0, min(wait, 1.0) * JITTER)

    def _backoff(self, number: int) -> float:
        return min(self._terms.backoff * 2 ** min(number, 10), LONGEST_WAIT_S)

    def _asks_for_room(self, draft: Draft) -> bool:
        """A reply that is all thought may say something if it may be twice as long; ask once."""
        if self._starved or draft.text.strip() or not draft.is_cut or self._limit is None:
            return False
        self._starved = draft
        self._limit *= 2
        return True

    def _learns_the_name(self, failure: Failure) -> bool:
        is_refused = failure.status == 400 and NEWER_LIMIT_KEY in failure.problem
        if not is_refused or self._limit is None or self._limit_key == NEWER_LIMIT_KEY:
            return False
        self._limit_key = NEWER_LIMIT_KEY
        return True

    def _best(self, result: Draft | Failure) -> Draft | Failure:
        """A server that refuses twice the length has still answered before."""
        if self._starved and isinstance(result, Failure) and result.kind is BadRequest:
            return self._starved
        return result

    async def _attempt(self) -> Draft | Failure:
        line, question = self._line, self._question
        asked = anyio.current_time()
        async with line.limiter.turn(current_stage()):
            if line.limiter.refusal is not None:
                return line.limiter.refusal
            run = current_run()
            admitted = run and await run.admit(
                provider=line.dialect.provider,
                model=question.model,
                endpoint=line.endpoint.shown,
                max_tokens=self._limit,
            )
            with admitted or nullcontext():
                return await self._noted(anyio.current_time() - asked)

    async def _noted(self, queued: float) -> Draft | Failure:
        self._attempts += 1
        self._queued = queued
        self._began = anyio.current_time()
        self._first_token = None
        try:
            result = await self._sent()
        except BaseException as error:
            self._note(error)
            raise
        self._note(result)
        self._learn(result)
        return _unless_empty(result)

    def _learn(self, result: Draft | Failure) -> None:
        """A key that is refused before it was ever good is not sent again by the same run."""
        limiter = self._line.limiter
        if isinstance(result, Draft):
            limiter.has_served = True
            limiter.window.succeed(self._seconds)
        elif result.is_throttling:
            limiter.window.refuse(self._began, anyio.current_time())
        elif result.status == UNAUTHORIZED and not limiter.has_served and current_run() is not None:
            limiter.refusal = result

    def _heard(self) -> None:
        if self._first_token is None:
            self._first_token = anyio.current_time() - self._began

    async def _sent(self) -> Draft | Failure:
        body = self._line.dialect.body(self._asked())
        result: Draft | Failure = Failure(
            ProviderTimeout, f"no whole reply within {self._terms.timeout:g} s", is_luck=True
        )
        with anyio.move_on_after(self._terms.timeout):
            result = await self._line.send(body, self._heard)
        if isinstance(result, Failure):
            return result.cleaned(self._line.endpoint.redact)
        return result

    def _note(self, result: Draft | Failure | BaseException) -> None:
        self._seconds = anyio.current_time() - self._began
        call = ModelCall(
            provider=self._line.dialect.provider,
            model=self._question.model,
            endpoint=self._line.endpoint.shown,
            role=current_role(),
            attempt=self._attempts,
            queued=self._queued,
            seconds=self._seconds,
            first_token=self._first_token,
            **_came_to(result),
        )
        run, own = current_run(), self._terms.usage
        if run is not None:
            run.note(call)
        if own is not None and (run is None or run.usage is not own):
            own.note(call)

    def _ended(self, result: Draft | Failure) -> Outcome:
        return Outcome(result, self._attempts, self._seconds, self._limit, self._limit_key)

    def _out_of_time(self) -> Failure:
        waited = "no whole reply" if self._attempts else "no turn at the endpoint"
        return Failure(ProviderTimeout, f"{waited} within {self._terms.deadline:g} s")

    def _asked(self) -> Question:
        return replace(self._question, limit=self._limit, limit_key=self._limit_key)


def _unless_empty(result: Draft | Failure) -> Draft | Failure:
    """A model that ends of its own accord has something to say."""
    if isinstance(result, Failure) or not result.is_chosen or result.text.strip():
        return result
    reason = result.finish_reason or "not given"
    return Failure(EmptyReply, f"an empty reply (finish reason {reason})", is_luck=True, status=200)


def _came_to(result: Draft | Failure | BaseException) -> dict[str, Any]:
    match result:
        case Draft():
            reason = result.finish_reason
            return {"status": 200, "finish_reason": reason, "tokens": result.tokens}
        case Failure():
            return {"status": result.status, "error": result.problem}
        case Exception():
            return {"error": type(result).__name__}
        case _:
            return {"cancelled": True}
