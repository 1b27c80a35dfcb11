"""What a run opens before it begins, and closes when it is over."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.from_thread import BlockingPortal

from agentdescent import ledger
from agentdescent.calls import RunCalls, calls_of
from agentdescent.core.artifact import TEXT_CONTRACT
from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Unit
from agentdescent.core.store import LedgerStore, Stored
from agentdescent.engine.plugins import first_state
from agentdescent.errors import ungrouped
from agentdescent.request import Request
from agentdescent.telemetry import recording


@asynccontextmanager
async def recorded(request: Request) -> AsyncGenerator[Request]:
    """The same request, whose events also go to its telemetry file, if it has one."""
    if request.telemetry is None:
        yield request
        return
    config = request.config
    about = {
        "artifact_id": config.artifact_id,
        "asynchronous": config.asynchronous,
        "n_workers": config.n_workers,
        "n_train": len(request.train),
        "n_held_out": len(request.held_out),
    }
    async with recording(request.telemetry, about, request.alerts.warn) as log:
        yield replace(request, listeners=[*request.listeners, log])


@asynccontextmanager
async def opened_calls(calls: RunCalls) -> AsyncGenerator[None]:
    """Let the completions called in the block belong to `calls`, and close what they opened."""
    with calls_of(calls), ungrouped():
        try:
            async with BlockingPortal() as calls.portal:
                try:
                    yield
                finally:
                    await calls.portal.stop(cancel_remaining=True)
        finally:
            await calls.aclose()


@asynccontextmanager
async def opened_ledger(request: Request) -> AsyncGenerator[LedgerStore]:
    """The ledger of a run: the one it was given, the one at its path, or one that nobody keeps."""
    store = request.ledger
    if store is None and request.repo_path is not None:
        config = request.config
        store = ledger.GitLedger(
            Path(request.repo_path), durability=config.durability, exclusive=config.exclusive
        )
    if store is None:
        async with ledger.scratch_ledger() as scratch:
            yield scratch
        return
    try:
        await store.open()
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


async def stored_artifact(request: Request, store: LedgerStore) -> Stored:
    """The artifact to go on from: what the ledger holds, else the strategy's first state."""
    config = request.config
    found = (await store.read()).get(config.artifact_id)
    if found is None:
        state = request.initial_state or first_state(request.strategy)
        radius = config.blast_radius
        return await store.register(Stored(config.artifact_id, state, 1, radius, TEXT_CONTRACT))
    if request.initial_state:
        request.alerts.warn(
            f"initial_state is ignored: {request.repo_path or 'the ledger'} holds version "
            f"{found.version} of {config.artifact_id!r} already; use a fresh repo_path to restart"
        )
    if found.blast_radius != config.blast_radius:
        request.alerts.warn(
            f"blast_radius={config.blast_radius} differs from the stored {found.blast_radius}; "
            "the stricter, larger one holds"
        )
    return found


def limits(request: Request) -> Mapping[Unit, tuple[float | None, StopReason]]:
    """The budgets of a run, and the word for each that is spent."""
    config = request.config
    rollouts = StopReason.MAX_ITERS if config.asynchronous else StopReason.MAX_ROLLOUTS
    return {
        Unit.ROLLOUT: (request.rollout_budget, rollouts),
        Unit.CALL: (config.max_calls, StopReason.MAX_CALLS),
        Unit.ATTEMPT: (config.max_attempts, StopReason.MAX_ATTEMPTS),
        Unit.TOKEN: (config.max_tokens, StopReason.MAX_TOKENS),
        Unit.USD: (config.max_cost, StopReason.MAX_COST),
    }
