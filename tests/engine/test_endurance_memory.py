"""Long runs take no more memory than short ones, the history apart."""

import gc
import tracemalloc
from pathlib import Path

import pytest

import agentdescent
from agentdescent import async_evolve
from agentdescent.core.protocols import StaleAction
from support.worlds import World

HOME = str(Path(agentdescent.__file__).parent)
APART = [f"{HOME}/engine/recorder.py", f"{HOME}/core/samples.py"]
"""The history, and samples of which there are never more than some thousand."""

NUMBERS = 48
"""Bytes a round that the numbers in the history take, which others have counted."""

pytestmark = pytest.mark.asyncio


class Instant(World):
    """Nothing takes any time, and no rule helps, so that nobody stops proposing."""

    def __init__(self):
        super().__init__()
        self.run_s = 0

    async def run(self, rendered, task):
        return rendered

    async def reward(self, task, output):
        return 0.0

    async def propose(self, rendered, task, output, reward):
        return f"{task.meta['rule']} or so"


class Discarding:
    """Takes every card for stale."""

    name = "discarding"

    def decide(self, eta, alpha, contract_breaking, /):
        return StaleAction.DISCARD


class Memory:
    """What our modules hold, by file, after the n-th and after the last of some rounds."""

    def __init__(self, *moments):
        self._moments, self._held = moments, []

    def __call__(self, info):
        if info.round + 1 in self._moments:
            gc.collect()
            apart = [tracemalloc.Filter(inclusive=False, filename_pattern=name) for name in APART]
            ours = [tracemalloc.Filter(inclusive=True, filename_pattern=f"{HOME}/*"), *apart]
            found = tracemalloc.take_snapshot().filter_traces(ours).statistics("filename")
            self._held.append({stat.traceback[0].filename: stat.size for stat in found})

    @property
    def grown(self):
        before, after = self._held
        first, last = self._moments
        grown = {name: size - before.get(name, 0) for name, size in after.items()}
        return {name: size for name, size in grown.items() if size > NUMBERS * (last - first)}


@pytest.mark.parametrize("kept", [False, True])
async def test_rounds_leave_nothing_in_memory_but_the_history(tmp_path, kept):
    memory, world = Memory(150, 450), Instant()
    tracemalloc.start()
    try:
        result = await async_evolve(
            **world.parts,
            asynchronous=False,
            rounds=450,
            n_workers=8,
            max_concurrency=8,
            self_verify=False,
            staleness_policy=Discarding(),
            evaluation_key="v1",
            on_round=memory,
            repo_path=tmp_path / "ledger" if kept else None,
        )
    finally:
        tracemalloc.stop()

    assert result.stale_discarded == 450 * 8
    assert memory.grown == {}
