"""A plain `step` that is given up runs on in its thread; nothing else is asked of it meanwhile."""

import threading

import pytest

from agentdescent.threads import in_thread
from support.toy import HiddenRules
from support.worlds import barrier_free

pytestmark = pytest.mark.asyncio


class Busy:
    """An optimizer whose first step lasts until the run has no patience any more."""

    def __init__(self):
        self.entered, self.log = threading.Event(), []

    def __call__(self, ledger, verifier, audit, config, staleness_policy):
        self.verifier, self.ledger = verifier, ledger
        return self

    def ingest(self, card):
        pass

    def step(self):
        self.log.append("step")
        self.entered.set()
        try:
            self.work()
        finally:
            self.log.append("end of step")
        return []

    def flush(self):
        self.log.append("flush")
        return []

    def finalize(self):
        self.log.append("finalize")


class Reticent(HiddenRules):
    """Its reflector has nothing to say from the second proposal on, when a merge is under way."""

    def __init__(self, merge):
        super().__init__(rules=2)
        self.merge = merge

    async def propose(self, *args):
        if self.count("propose"):
            await in_thread(self.merge.entered.wait)
            return None
        return await super().propose(*args)


async def test_a_step_that_notices_the_end_is_followed_by_the_last_merge():
    class Asking(Busy):
        def work(self):
            while True:
                self.verifier.cheap_eval(self.ledger.artifact)

    merge = Asking()

    result = await barrier_free(Reticent(merge), patience=1, aggregator_factory=merge)

    assert result.stop_reason == "patience"
    assert merge.log == ["step", "end of step", "flush", "finalize"]


@pytest.mark.leaves_thread
async def test_a_step_that_hangs_is_followed_by_nothing():
    class Hanging(Busy):
        def work(self):
            release.wait()

    merge, release = Hanging(), threading.Event()
    try:
        with pytest.warns(RuntimeWarning, match="Hanging is still at work in a thread"):
            result = await barrier_free(Reticent(merge), patience=1, aggregator_factory=merge)
    finally:
        release.set()

    assert result.stop_reason == "patience"
    assert merge.log[0] == "step"
    assert "flush" not in merge.log
    assert "finalize" not in merge.log
