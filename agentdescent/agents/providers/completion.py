"""The object that `claude` and `openai_compatible` make."""

import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from agentdescent.agents.providers import sdk
from agentdescent.agents.providers.call import Call, Line, Terms
from agentdescent.agents.providers.connections import Connections
from agentdescent.agents.providers.dialects import Dialect, Draft, Question
from agentdescent.agents.providers.endpoint import Access, Endpoint
from agentdescent.agents.providers.failures import HINTS, Failure
from agentdescent.blocking import run_blocking
from agentdescent.calls import current_run
from agentdescent.core.identity import canonical_json
from agentdescent.core.reply import Reply
from agentdescent.errors import ProviderError, ProviderUnreachable, RunningLoopError
from agentdescent.threads import in_thread, loop_is_running, on_loop

T = TypeVar("T")

_PROXIES = "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"

PROBE = (
    "A train leaves at 9:40 and arrives at 11:05. How many minutes does it take? Think it through "
    "step by step, and write the number alone on the last line."
)


@dataclass(frozen=True, slots=True)
class Check:
    """What one small real call found out; its text is one line for people.

    Attributes:
        model: As it was asked for.
        endpoint: The base URL, without credentials.
        reply: What the model said.
        problem: What will go wrong with it in a run, or "".
    """

    model: str
    endpoint: str
    reply: Reply
    problem: str

    @property
    def ok(self) -> bool:
        """True if nothing stands in the way."""
        return not self.problem

    def __str__(self) -> str:
        tokens = self.reply.tokens
        spent = (
            "without saying how many tokens that took"
            if tokens is None
            else f"{tokens.total} tokens"
        )
        found = self.problem or "key, model and endpoint work"
        return f"{self.model} at {self.endpoint}: {found} ({self.reply.seconds:.1f} s, {spent})"


class ApiCompletion:
    """A model behind an HTTP API, as a completion.

    ``await complete(prompt)`` gives the model's text as a `Reply`, which is a string;
    `sync` does so for scripts. It can be used from several event loops and threads: each loop has
    its own pool of connections, and in a run it uses the run's, its limits and its budgets. It is
    made by `claude` and `openai_compatible`.
    """

    def __init__(
        self,
        dialect: Dialect,
        access: Access,
        question: Question,
        terms: Terms,
        client: Any = None,
    ) -> None:
        self._dialect = dialect
        self._access = access
        self._question = question
        self._terms = terms
        self._connections = Connections(client)
        self._complaints = Counter[str]()

    @property
    def model(self) -> str:
        """As it is asked for."""
        return self._question.model

    @property
    def identity(self) -> str:
        """Who answers and how it is asked, without secrets; equal for equal behaviour."""
        question = self._question
        parameters = {
            "max_tokens": question.limit,
            "system": question.system,
            "temperature": question.temperature,
            "seed": question.seed,
            **question.body,
        }
        written, _ = canonical_json(parameters)
        return f"{self._dialect.provider} {question.model} at {self._access.shown()} {written}"

    def __repr__(self) -> str:
        return f"<{self._dialect.provider} {self.model} at {self._access.shown()}>"

    async def __call__(self, prompt: str) -> Reply:
        """The model's reply.

        A reply that was cut off at its length limit has `cut` set; one in which nothing was said
        before the limit is asked for once more, with twice the limit. Both warn (`RuntimeWarning`)
        on the 1st, 10th and 100th occasion.

        Cancelling it drops the connection.

        Raises:
            ProviderError: If there is no reply after all attempts that made sense; its class says
                what went wrong, its hint what to do.
            Exhausted: If the run around it has spent its budget.
        """
        return await self._at_home(partial(self._ask, prompt))

    def sync(self, prompt: str) -> Reply:
        """The same, for scripts and for synchronous functions in a run.

        In a run's thread the call is made on the run's event loop; elsewhere, on one of its own.

        Raises:
            RunningLoopError: If an event loop is running in this thread; await it there instead.
            ProviderError: As for the awaited form.
        """
        run = current_run()
        ask = partial(self._ask, prompt)
        if run is None or run.portal is None:
            return run_blocking(ask, caller="sync()", instead="await complete(prompt)")
        if loop_is_running():
            raise RunningLoopError(
                "sync() was called on a running event loop; use `await complete(prompt)`"
            )
        return on_loop(run.portal, ask)

    async def check(self) -> Check:
        """Make one small real call, and say what works.

        The question wants some thought, so that a model which thinks until its limit is found out.

        Raises:
            ProviderError: If there is no reply.
        """
        reply, _ = await self._at_home(partial(self._answer, PROBE))
        problem = ""
        if not reply.strip():
            problem = f"nothing but thought before the limit; raise max_tokens (now {self._limit})"
        elif reply.cut:
            problem = f"the reply was cut off; raise max_tokens (now {self._limit})"
        return Check(self.model, self._access.shown(), reply, problem)

    async def aclose(self) -> None:
        """Close the connections that were opened on this event loop outside of runs.

        It need not be called: they are closed with the event loop. A later call opens new ones.
        """
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def _limit(self) -> int | None:
        return self._question.limit

    async def _at_home(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask on the loop of the run around us, even from a loop that a thread of it has opened."""
        run = current_run()
        if run is not None and run.portal is not None and run.is_elsewhere():
            return await in_thread(on_loop, run.portal, ask)
        return await ask()

    async def _ask(self, prompt: str) -> Reply:
        reply, limit = await self._answer(prompt)
        if reply.cut:
            self._complain_of("half a" if reply else "an empty", limit)
        return reply

    async def _answer(self, prompt: str) -> tuple[Reply, int | None]:
        """The reply, and the limit that it had."""
        line = await self._line(self._access.endpoint())
        call = Call(replace(self._question, prompt=prompt), line, self._terms)
        outcome = await call.outcome()
        if isinstance(outcome.result, Failure):
            raise self._error(outcome.result, outcome.attempts)
        if outcome.limit_key != self._question.limit_key:
            self._question = replace(self._question, limit_key=outcome.limit_key)
        return _reply(outcome.result, outcome.seconds), outcome.limit

    async def _line(self, endpoint: Endpoint) -> Line:
        try:
            client = await self._connections.client()
        except ValueError as error:
            raise self._error(Failure(ProviderUnreachable, str(error), hint=_PROXIES), 0) from None
        send = self._through_sdk if sdk.is_sdk(client) else self._over_http
        limiter = self._connections.limiter(endpoint)
        return Line(self._dialect, endpoint, limiter, partial(send, client, endpoint))

    async def _over_http(
        self, client: Any, endpoint: Endpoint, body: Mapping[str, Any], heard: Callable[[], None]
    ) -> Draft | Failure:
        from agentdescent.agents.providers import wire  # noqa: PLC0415 - loads httpx

        headers = self._dialect.headers(endpoint.key)
        if endpoint.user:
            headers["authorization"] = endpoint.basic
        url = f"{endpoint.url}{self._dialect.path}"
        request = wire.Request(url, headers, body, heard, endpoint.redact)
        return await wire.post(client, self._dialect, request)

    async def _through_sdk(
        self, client: Any, _: Endpoint, body: Mapping[str, Any], __: Callable[[], None]
    ) -> Draft | Failure:
        return await sdk.create(client, self._dialect, body, self._terms.timeout)

    def _complain_of(self, what: str, limit: int | None) -> None:
        self._complaints[what] += 1
        count = self._complaints[what]
        if count in {1, 10, 100}:
            warnings.warn(
                f"{self.model} gave {what} reply, cut off at its length limit ({count} so far); "
                f"raise max_tokens (now {limit})",
                RuntimeWarning,
                stacklevel=3,
            )

    def _error(self, failure: Failure, attempts: int) -> ProviderError:
        terms, access = self._terms, self._access
        hint = failure.hint or HINTS[failure.kind].format(
            key_env=access.key_env,
            url_env=access.url_env,
            default_url=access.default_url,
            timeout=terms.timeout,
            deadline=terms.deadline,
            retries=terms.retries,
        )
        return failure.kind(
            failure.problem,
            endpoint=access.shown(),
            model=self.model,
            status=failure.status,
            attempts=attempts,
            hint=hint,
        )


def _reply(draft: Draft, seconds: float) -> Reply:
    return Reply(
        draft.text if draft.text.strip() else "",
        cut=draft.is_cut,
        finish_reason=draft.finish_reason,
        tokens=draft.tokens,
        seconds=seconds,
    )
