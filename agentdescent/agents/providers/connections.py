"""Where a completion keeps its pooled clients and the limiters of its endpoints."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import current_token

from agentdescent.agents.providers.endpoint import Endpoint
from agentdescent.agents.providers.limiter import EndpointLimiter
from agentdescent.calls import RunCalls, current_run


class Connections:
    """One pooled client per event loop, and another in each run, which closes it.

    Args:
        given: A client to use everywhere instead; whoever made it closes it.
    """

    def __init__(self, given: Any = None) -> None:
        self._given = given
        self._loops: WeakKeyDictionary[object, _OnLoop] = WeakKeyDictionary()

    async def client(self) -> Any:
        """The client to be used here."""
        if self._given is not None:
            return self._given
        run = current_run()
        if run is not None:
            return run.once((self, "client"), partial(self._of_run, run))
        return await self._on_loop().client()

    def limiter(self, endpoint: Endpoint) -> EndpointLimiter:
        """The limiter of `endpoint`; in a run all completions that ask it share one."""
        run = current_run()
        if run is not None:
            return run.once(("endpoint", endpoint.digest), EndpointLimiter)
        return self._on_loop().limiters.setdefault(endpoint.digest, EndpointLimiter())

    async def aclose(self) -> None:
        """Close this event loop's client, unless a run owns it; the next call opens another."""
        await self._on_loop().aclose()

    def _of_run(self, run: RunCalls) -> Any:
        client = _new_client()
        run.on_close(client.aclose)
        return client

    def _on_loop(self) -> "_OnLoop":
        return self._loops.setdefault(current_token().native_token, _OnLoop())


class _OnLoop:
    """What belongs to one event loop outside of runs.

    The client is held by an asynchronous generator, because those are what an event loop ends when
    it ends itself.
    """

    def __init__(self) -> None:
        self.limiters: dict[str, EndpointLimiter] = {}
        self._holder: AsyncGenerator[Any] | None = None
        self._client: Any = None

    async def client(self) -> Any:
        if self._client is None:
            self._holder = self._hold()
            self._client = await anext(self._holder)
        return self._client

    async def aclose(self) -> None:
        if self._holder is not None:
            await self._holder.aclose()

    async def _hold(self) -> AsyncGenerator[Any]:
        client = _new_client()
        try:
            yield client
        finally:
            self._client = self._holder = None
            with anyio.CancelScope(shield=True):
                await client.aclose()


def _new_client() -> Any:
    from agentdescent.agents.providers import wire  # noqa: PLC0415 - loads httpx, at the first call

    return wire.new_client()
