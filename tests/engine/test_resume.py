"""A run goes on from what an earlier one has left in the ledger."""

import shutil

import anyio
import pytest

from agentdescent import DifficultyWeighted, EvolutionResult, Task, Usage, async_evolve
from agentdescent.core.events import RunStarted
from agentdescent.core.store import SearchSave
from agentdescent.errors import LedgerRefused, NotInLedger
from agentdescent.ledger import GitLedger, Step
from support.faults import Failing
from support.mortal import Pairs, saved_pairs, spend
from support.worlds import PATIENT, Silent, World

ROUNDS = {"asynchronous": False, "n_workers": 4, "max_concurrency": 4, "evaluation_key": "v1"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


@pytest.mark.alone
@pytest.mark.parametrize("share", [0.15, 0.5, 0.8])
@pytest.mark.timeout(60)
def test_a_killed_run_ends_as_if_it_had_lived(tmp_path, share):
    _, whole = spend(tmp_path / "whole", "rounds", 0, tmp_path / "whole.log")
    mortal, breath = tmp_path / "mortal", int(whole.breaths * share)

    killed, _ = spend(mortal, "rounds", breath, tmp_path / "first.log")
    shutil.copytree(mortal, tmp_path / "copy")
    saved = saved_pairs(tmp_path / "copy")
    _, second = spend(mortal, "rounds", 0, tmp_path / "second.log")

    recalled = EvolutionResult.from_ledger(tmp_path / "copy", strategy=Pairs())

    assert killed
    assert recalled.stop_reason == "interrupted"
    assert [round_.reasons for round_ in recalled.history] == [
        entry["reasons"] for entry in whole.result["history"][: len(recalled.history)]
    ]
    assert second.result == whole.result
    assert not second.measured_again(saved)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
class TestContinuing:
    async def test_a_finished_run_gives_its_result_again(self, path):
        world, again = World(), World()

        first = await async_evolve(**world.parts, **ROUNDS, rounds=3, repo_path=path)
        second = await async_evolve(
            **again.parts, **ROUNDS, rounds=3, repo_path=path, resume="continue"
        )

        assert not again.calls
        assert second.history == first.history
        assert second.final_reward == first.final_reward == 1.0
        assert second.stop_reason == "rounds"

    async def test_a_path_without_a_run_begins_one(self, path):
        result = await async_evolve(
            **World().parts, **ROUNDS, rounds=2, repo_path=path, resume="continue"
        )

        assert result.resumed_from is None
        assert len(result.history) == 2

    async def test_a_run_with_other_settings_is_refused_by_name(self, path):
        await async_evolve(**World().parts, **ROUNDS, rounds=2, repo_path=path)
        again = World()

        with pytest.raises(ValueError, match=r"rounds was 2, now 5; give the same arguments"):
            await async_evolve(**again.parts, **ROUNDS, rounds=5, repo_path=path, resume="continue")

        assert not again.calls

    async def test_budgets_that_were_spent_count(self, path):
        await async_evolve(**World().parts, **ROUNDS, rounds=2, repo_path=path)
        world = World()
        result = await async_evolve(**world.parts, **ROUNDS, rounds=2, repo_path=path)

        assert result.actor_calls == sum(
            call.startswith(("run", "propose")) for call in world.calls
        )

    async def test_it_needs_to_know_where(self):
        with pytest.raises(ValueError, match=r"resume='continue' is about the ledger in repo_path"):
            await async_evolve(**World().parts, resume="continue")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
class TestLearning:
    """The same path without `resume`: a new run that knows what the last one has learned."""

    async def test_measurements_are_not_paid_for_again(self, path):
        await async_evolve(**World().parts, **ROUNDS, rounds=3, repo_path=path)
        world = World()

        result = await async_evolve(**world.parts, **ROUNDS, rounds=1, repo_path=path)

        assert {task for _, task in world.seen}.isdisjoint(world.held_out)
        assert result.initial_reward == 1.0
        assert len(result.history) == 1
        assert result.resumed_from.evaluations > 0
        assert not result.resumed_from.whole

    async def test_a_sampler_goes_on(self, path):
        first, second = DifficultyWeighted(discount=1), DifficultyWeighted(discount=1)

        for sampler, rounds in ((first, 3), (second, 1)):
            await async_evolve(
                **World().parts, **ROUNDS, rounds=rounds, repo_path=path, task_sampler=sampler
            )

        trials = [sum(n for _, n in sampler.stats().values()) for sampler in (first, second)]
        assert trials == [12, 16]

    async def test_listeners_hear_what_was_restored(self, path):
        await async_evolve(**World().parts, **ROUNDS, rounds=3, repo_path=path)
        heard = []

        await async_evolve(
            **World().parts, **ROUNDS, rounds=1, repo_path=path, on_event=heard.append
        )

        (started,) = (event for event in heard if isinstance(event, RunStarted))
        assert started.resumed_from.startswith("starts from what was learned by run ")
        assert "version 2" in started.resumed_from

    async def test_without_a_word_of_the_user_measurements_are_not_trusted(self, path):
        unnamed = {**ROUNDS, "evaluation_key": ""}
        await async_evolve(**World().parts, **ROUNDS, rounds=3, repo_path=path)
        world = World()

        with pytest.warns(RuntimeWarning, match="saved measurements are not used"):
            await async_evolve(**world.parts, **unnamed, rounds=1, repo_path=path)

        assert {task for _, task in world.seen} >= world.held_out

    async def test_other_tasks_leave_the_artifact_alone_to_go_on_from(self, path):
        await async_evolve(**World().parts, **ROUNDS, rounds=3, repo_path=path)
        world = World()
        parts = world.parts
        parts["tasks"] = [Task(t.id, f"{t.prompt}!", t.meta) for t in parts["tasks"]]

        with pytest.warns(RuntimeWarning, match="tasks and held_out_tasks differ"):
            result = await async_evolve(**parts, **ROUNDS, rounds=1, repo_path=path)

        assert result.version == 2
        assert result.resumed_from is None

    async def test_evidence_that_waited_is_judged(self, path):
        with anyio.CancelScope() as scope:
            await async_evolve(
                **World().parts,
                **ROUNDS,
                rounds=9,
                repo_path=path,
                agg_config=PATIENT,
                on_round=lambda info: scope.cancel() if info.round else None,
            )

        result = await async_evolve(
            **Silent().parts, **ROUNDS, rounds=1, repo_path=path, agg_config=PATIENT
        )

        assert result.initial_reward == 0.0
        assert result.final_reward == 1.0
        assert result.outcomes() == {"committed": 1, "no-proposal": 4}


@pytest.mark.asyncio
async def test_a_run_that_its_ledger_ended_goes_on(path):
    world, again = World(), World()
    broken = GitLedger(path, faults=Failing(Step.BRANCH_LOCKED, 3))

    with pytest.warns(RuntimeWarning, match="the run stopped early"):
        first = await async_evolve(**world.parts, **ROUNDS, rounds=3, ledger=broken)
    second = await async_evolve(
        **again.parts, **ROUNDS, rounds=3, repo_path=path, resume="continue"
    )

    assert first.stop_reason == "error"
    assert second.resumed_from.whole
    assert second.final_reward == 1.0
    assert len(second.history) == 3


@pytest.mark.asyncio
async def test_a_state_of_a_newer_version_is_refused(path):
    await async_evolve(**World().parts, **ROUNDS, rounds=1, repo_path=path)
    await _rewrite(path, schema=7)

    with pytest.raises(LedgerRefused, match="has schema 7; this version reads up to 1"):
        await async_evolve(**World().parts, **ROUNDS, rounds=1, repo_path=path)


@pytest.mark.asyncio
async def test_a_live_run_keeps_its_search_to_itself(path):
    await async_evolve(**World().parts, **ROUNDS, rounds=2, repo_path=path)
    first, second = GitLedger(path), GitLedger(path)
    await first.open()
    await second.open()
    try:
        mine = await first.adopt("artifact")
        theirs = await second.adopt("artifact")
    finally:
        await second.close()
        await first.close()

    assert mine is not None
    assert theirs is None


@pytest.mark.asyncio
async def test_a_result_can_be_read_out_of_the_ledger(path):
    result = await async_evolve(**World().parts, **ROUNDS, rounds=2, repo_path=path)

    assert EvolutionResult.from_ledger(path) == result


@pytest.mark.asyncio
async def test_a_ledger_without_a_run_has_no_result(path):
    ledger = GitLedger(path)
    await ledger.open()
    await ledger.close()

    with pytest.raises(NotInLedger, match="no run for artifact 'artifact' was saved"):
        EvolutionResult.from_ledger(path)


@pytest.mark.asyncio
async def test_usage_counts_what_was_used_before(path):
    earlier, later = Usage(calls=2, usd=0.5), Usage(calls=3, provider_calls=1)

    later.absorb(earlier)

    assert later == Usage(calls=5, usd=0.5, provider_calls=1)


async def _rewrite(path, **changes):
    """Change what the newest search of a ledger says."""
    ledger = GitLedger(path)
    await ledger.open()
    try:
        saved = await ledger.adopt("artifact")
        await ledger.save(SearchSave({**saved.document, **changes}, saved.pages))
    finally:
        await ledger.close()
