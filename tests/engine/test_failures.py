"""Whose failure it was decides what happens: the caller's, the backend's, or the ledger's."""

import time

import anyio
import pytest

from agentdescent import Aggregator, async_evolve
from agentdescent.errors import GitError, ProviderAuthError
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules, final_rules


class RateLimited(RuntimeError):
    """What a throttled endpoint raises."""


class Flaky(HiddenRules):
    """Fails the calls of `run` that `fails` says, counting from 1."""

    def __init__(self, fails, **options):
        super().__init__(**options)
        self.fails = fails

    async def run(self, rendered, task):
        fails = self.fails(1 + self.count("run"))
        output = await super().run(rendered, task)
        if fails:
            raise RateLimited("429 slow down")
        return output


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_one_429_costs_neither_a_round_nor_the_result(evolve_under):
    world = Flaky(lambda call: call == 15, run_s=0.1)

    result = await evolve_under(**world.parts, rounds=20)

    assert result.error is None
    assert result.final_reward == 1.0
    assert result.rollouts == 80


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_twenty_rounds_stay_twenty_when_a_call_fails():
    world = Flaky(lambda call: call == 5)

    result = await async_evolve(
        **world.parts,
        asynchronous=False,
        rounds=20,
        ledger=MemoryLedger(),
    )

    assert len(result.history) == 20
    assert (result.stop_reason, result.error) == ("rounds", None)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.filterwarnings("ignore:worker w. failed")
async def test_a_backend_that_fails_one_call_in_three_retires_nobody(evolve_under):
    world = Flaky(lambda call: call % 3 == 0, run_s=0.1)

    result = await evolve_under(**world.parts, rounds=30)

    assert result.error is None
    assert result.retired_workers == 0
    assert result.final_reward == 1.0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_dead_backend_ends_soon_and_its_first_error_is_reported(
    evolve_under, schedule, looptime
):
    world = Flaky(lambda call: True)

    with pytest.warns(RuntimeWarning, match="stopped early after 0 round"):
        result = await evolve_under(**world.parts, rounds=30)

    assert result.error == "RateLimited: 429 slow down"
    assert result.stop_reason == "error"
    assert result.history == []
    assert result.initial_reward is None
    assert looptime < (1 if schedule == "rounds" else 3)
    assert result.retired_workers == (0 if schedule == "rounds" else 4)


class Locked(HiddenRules):
    """Asks a provider that refuses the key."""

    async def run(self, rendered, task):
        await super().run(rendered, task)
        raise ProviderAuthError("no such key", endpoint="https://api.example", model="m")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_refused_key_is_not_tried_again(evolve_under, looptime):
    world = Locked()

    with pytest.warns(RuntimeWarning, match="stopped early after 0 round"):
        result = await evolve_under(**world.parts, rounds=30)

    assert result.error.startswith("ProviderAuthError")
    assert looptime == 0
    assert world.count("run") <= len(world.parts["tasks"])


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.filterwarnings("ignore:worker w. failed", "ignore:propose failed")
async def test_a_backend_that_dies_midway_keeps_the_artifact(evolve_under):
    world = Flaky(lambda call: call > 60, run_s=0.1)

    result = await evolve_under(
        **world.parts,
        rounds=10,
        max_seconds=60,
    )

    assert result.error is None
    assert final_rules(result.rendered) == ["rule0", "rule1", "rule2", "rule3"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.filterwarnings("ignore:worker w. failed", "ignore:the run stopped early")
async def test_a_reflector_that_never_answers_ends_the_run(evolve_under):
    world = HiddenRules()

    async def propose(rendered, task, output, reward):
        raise RateLimited("no credit")

    with pytest.warns(RuntimeWarning, match="propose failed 3 times in a row"):
        result = await evolve_under(
            world.tasks, world.reward, run=world.run, propose=propose, rounds=50
        )

    assert result.stop_reason == "error"
    assert result.error == "RateLimited: no credit"


class BreaksAfter(MemoryLedger):
    """Its commits fail for good after the first few."""

    def __init__(self, commits):
        super().__init__()
        self.left = commits

    async def commit(self, entry, base, note):
        if not self.left:
            raise GitError("No space left on device", operation="commit", repo_path="/ledger")
        self.left -= 1
        return await super().commit(entry, base, note)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_ledger_that_breaks_ends_the_run_with_the_artifact_in_hand(evolve_under):
    world = HiddenRules(run_s=0.1)

    with pytest.warns(RuntimeWarning, match="stopped early"):
        result = await evolve_under(
            **world.parts,
            n_workers=1,
            rounds=50,
            ledger=BreaksAfter(2),
        )

    assert result.stop_reason == "error"
    assert result.error.startswith("GitError: ")
    assert "git" in result.error
    assert len(final_rules(result.rendered)) == 2
    assert result.final_reward == 0.4


class Stumbles(Aggregator):
    """Its first step fails as if a model behind it had."""

    stumbled = False

    async def step(self):
        if not self.stumbled and self.pending():
            self.stumbled = True
            raise RuntimeError("503")
        return await super().step()


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_an_aggregator_that_fails_once_loses_nothing(evolve_under):
    world = HiddenRules(rules=4, run_s=0.1)

    result = await evolve_under(
        **world.parts,
        rounds=1,
        aggregator_factory=Stumbles,
    )

    assert result.error is None
    assert final_rules(result.rendered) == ["rule0", "rule1", "rule2", "rule3"]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_merge_that_keeps_failing_warns_once_and_the_run_goes_on(evolve_under):
    class Down(Aggregator):
        async def ingest(self, card):
            pass

        async def step(self):
            raise ConnectionError("merge model is down")

    world = HiddenRules(run_s=0.1)
    with pytest.warns(RuntimeWarning) as caught:
        result = await evolve_under(
            **world.parts,
            rounds=50,
            async_ratio=0,
            max_seconds=300,
            aggregator_factory=Down,
        )

    assert [str(w.message).split(",")[0] for w in caught] == ["merging failed 3 times in a row"]
    assert result.error is None


@pytest.mark.asyncio
async def test_a_dead_backend_ends_in_under_a_second_of_real_time():
    def run(rendered, task):
        raise RateLimited("401")

    world = HiddenRules()
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match="stopped early"):
        result = await async_evolve(
            world.tasks, world.reward, run=run, propose=world.propose, asynchronous=False
        )

    assert time.monotonic() - began < 1.0
    assert result.error == "RateLimited: 401"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_failed_held_out_score_costs_its_round_only_its_entry(evolve_under):
    """The head cannot be measured for a while; what was known stays known."""

    class Outage(HiddenRules):
        async def run(self, rendered, task):
            output = await super().run(rendered, task)
            if 5 < anyio.current_time() < 8 and task.id.startswith(("t4", "t5")):
                raise RateLimited("outage")
            return output

    world = Outage(run_s=1.0)

    result = await evolve_under(**world.parts, rounds=12, n_workers=2)

    assert result.error is None
    assert result.final_reward == 1.0
