"""Cancelled at whichever step of the event loop, a run ends, once, and its books are right."""

import asyncio

import anyio
import pytest

from agentdescent import AggregatorConfig
from agentdescent.core.events import RunEnded
from agentdescent.ledger import GitLedger
from agentdescent.testing import MemoryLedger
from support.toy import HiddenRules

pytestmark = pytest.mark.asyncio

PATIENT = AggregatorConfig(batch_trigger=1000, max_wait_rounds=1000)


class World(HiddenRules):
    """Knows how many of its calls are under way."""

    def __init__(self):
        super().__init__(rules=2, per_rule=5)
        self.under_way = 0

    async def run(self, rendered, task):
        self.under_way += 1
        try:
            return await super().run(rendered, task)
        finally:
            self.under_way -= 1


class Readable(MemoryLedger):
    """A ledger that can still be read when the run has closed it."""

    closed = 0

    async def close(self):
        self.closed += 1


class Attempt:
    """One run, and what was told of it."""

    def __init__(self, evolve, ledger, **options):
        self.world, self.told, self.steps = World(), [], 0
        self.ledger, self.result = ledger, None
        self._evolve, self._options = evolve, options

    async def _run(self):
        self.result = await self._evolve(
            self.world.tasks,
            self.world.reward,
            run=self.world.run,
            propose=self.world.propose,
            ledger=self.ledger,
            on_event=self._listen,
            on_round=self._pause,
            rounds=2,
            n_workers=2,
            **self._options,
        )

    async def _listen(self, event):
        self.told.append(event)
        await anyio.sleep(0)

    async def _pause(self, info):
        await anyio.sleep(0)

    async def cancelled_after(self, steps, how):
        """Cancel a scope around the run, or its bare task, after so many steps of the loop."""
        loop, scope = asyncio.get_running_loop(), anyio.CancelScope()

        async def scoped():
            with scope:
                await self._run()

        task = asyncio.ensure_future(scoped())
        cancel = scope.cancel if how == "scope" else task.cancel

        def tick():
            if task.done():
                return
            if self.steps == steps:
                cancel()
            self.steps += 1
            loop.call_soon(tick)

        loop.call_soon(tick)
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        return self

    async def check(self):
        """What holds of a run, whenever it was cancelled."""
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert self.world.under_way == 0
        results = [event.result for event in self.told if isinstance(event, RunEnded)]
        if not self.world.calls and not results:
            return  # it had not begun
        [result] = results
        assert self.result in (None, result)
        assert result.error is None
        if self.result is not None:
            assert result.stop_reason != "interrupted"
        assert result.actor_calls == len(self.world.calls)
        assert result.outcomes().get("committed", 0) == result.version - 1
        [stored] = (await self.ledger.read()).values()
        assert (stored.version, stored.state) == (result.version, result.state)


async def memory():
    ledger = Readable()
    await ledger.open()
    return ledger


@pytest.mark.parametrize("how", ["scope", "task"])
@pytest.mark.parametrize("options", [{}, {"agg_config": PATIENT}], ids=["merging", "flushing"])
async def test_in_memory_it_can_be_cancelled_after_any_number_of_steps(evolve_under, how, options):
    async def attempt(steps):
        made = Attempt(evolve_under, await memory(), **options)
        return await made.cancelled_after(steps, how)

    whole = await attempt(None)
    assert whole.result.version > 1
    for steps in range(1, whole.steps):
        made = await attempt(steps)
        await made.check()
        assert made.ledger.closed == 1


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_git_agrees_with_the_result_whenever_a_run_was_cancelled(
    evolve_under, how, tmp_path_factory
):
    async def attempt(steps):
        made = Attempt(evolve_under, GitLedger(tmp_path_factory.mktemp("run")))
        return await made.cancelled_after(steps, how)

    whole = await attempt(None)
    assert whole.result.version > 1
    for part in range(25):
        made = await attempt(part * whole.steps // 25)
        made.ledger = GitLedger(made.ledger.path)
        await made.ledger.open()
        await made.check()
        await made.ledger.close()
