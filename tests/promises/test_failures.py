"""Whose failure it is decides what it costs."""

import itertools
import math

import pytest

from agentdescent import (
    ContractError,
    ProposalContractError,
    RewardContractError,
    async_evolve,
    evolve,
)
from agentdescent.errors import GitError
from agentdescent.ledger import MemoryLedger
from support.pens import Plain, agent, reward, tasks


class RateLimited(Exception):
    """429"""


class Backend(Plain):
    """Fails the calls of `solve` that `refuses` says, counting from 1."""

    def __init__(self, refuses):
        super().__init__()
        self._refuses = refuses
        self.asked = 0
        self.rollouts = 0

    async def solve(self, rendered, task):
        self.asked += 1
        self.rollouts += int(task.id) <= 12
        if self._refuses(self.asked):
            raise RateLimited("429 slow down")
        return await super().solve(rendered, task)


def learn(backend, **options):
    return evolve(tasks, backend.reward, agent=backend, **options)


class TestAlwaysCheckTheError:
    def test_it_is_none_after_a_clean_run(self, capsys):
        result = evolve(tasks, reward, agent=agent, rounds=2)

        if result.error:
            print(f"incomplete: {result.error}")  # partial artifact still usable # fmt: skip

        assert result.error is None
        assert capsys.readouterr().out == ""

    def test_it_names_the_failure_that_ended_the_run(self, capsys):
        with pytest.warns(RuntimeWarning, match="stopped early after 0 round"):
            result = learn(Backend(lambda call: True))

        if result.error:
            print(f"incomplete: {result.error}")  # partial artifact still usable # fmt: skip

        assert capsys.readouterr().out == "incomplete: RateLimited: 429 slow down\n"
        assert result.stop_reason == "error"
        assert result.rendered == "# Playbook\n(empty)"

    def test_a_transient_that_was_retried_past_leaves_it_none(self):
        result = learn(Backend(lambda call: call % 9 == 5), rounds=6)

        assert result.error is None
        assert result.final_reward == 1.0


class TestCallerContract:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_a_reward_of_47_raises(self, asynchronous):
        with pytest.raises(RewardContractError, match="47") as caught:
            evolve(tasks, lambda task, output: 47, agent=agent, asynchronous=asynchronous,
                   max_seconds=30)  # fmt: skip

        assert isinstance(caught.value, ContractError)

    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_a_proposal_that_is_an_int_raises(self, asynchronous):
        with pytest.raises(ProposalContractError, match="int 7") as caught:
            evolve(tasks, reward, agent=agent, propose=lambda rendered, task, out, score: 7,
                   asynchronous=asynchronous, max_seconds=30)  # fmt: skip

        assert isinstance(caught.value, ContractError)

    def test_a_propose_without_its_reward_parameter_is_found_before_the_first_rollout(self):
        calls = []

        with pytest.raises(TypeError, match=r"propose\(rendered, task, output, reward\)"):
            evolve(
                tasks,
                reward,
                run=lambda rendered, task: calls.append(task),
                propose=lambda rendered, task, output: "a typo",
            )

        assert calls == []


class TestLedger:
    class Failing(MemoryLedger):
        """Fails every commit after the first, or only what says what there was."""

        def __init__(self, what):
            super().__init__()
            self._what = what
            self.commits = 0

        async def commit(self, entry, base, note):
            self.commits += 1
            if self._what == "commit" and self.commits > 1:
                raise GitError("cannot lock ref", operation="commit", repo_path="/runs/finer")
            return await super().commit(entry, base, note)

        async def log(self, branch="dev", limit=20):
            if self._what == "log":
                raise GitError("object not found", operation="log", repo_path="/runs/finer")
            return await super().log(branch, limit)

    def test_a_failing_one_ends_the_run_with_the_artifact_so_far(self):
        plain = Plain()

        with pytest.warns(RuntimeWarning, match="stopped early"):
            result = evolve(
                tasks, plain.reward, agent=plain, n_workers=1, ledger=self.Failing("commit")
            )

        assert result.error.startswith("GitError: commit failed in git repository /runs/finer")
        assert result.stop_reason == "error"
        assert list(result.state.values()) == ["integers"]
        assert result.final_reward > result.initial_reward

    def test_a_log_that_cannot_be_read_costs_the_log_alone(self):
        result = evolve(tasks, reward, agent=agent, rounds=2, ledger=self.Failing("log"))

        assert result.ledger_log == []
        assert result.error is None
        assert result.final_reward == 1.0


class TestBackendInRounds:
    def test_one_429_on_call_5_leaves_twenty_rounds(self):
        result = learn(Backend(lambda call: call == 5), rounds=20)

        assert len(result.history) == 20
        assert result.error is None

    def test_a_worker_that_fails_costs_its_own_evidence_and_nothing_more(self):
        failing = Backend(lambda call: False)
        solve = failing.solve

        async def one_worker_fails(rendered, task):
            if task.id == "1" and failing.asked == 8:
                failing.asked += 1
                raise RateLimited("429 slow down")
            return await solve(rendered, task)

        result = learn(failing, run=one_worker_fails, rounds=1)

        (info,) = result.history
        assert info.rollouts == 3
        assert info.considered == 3
        assert info.committed == 1

    @pytest.mark.filterwarnings("ignore:worker w")
    def test_one_call_in_three_refused_ends_nothing_and_retires_nobody(self):
        result = learn(Backend(lambda call: call % 3 == 0), rounds=20)

        assert len(result.history) == 20
        assert (result.error, result.retired_workers) == (None, 0)
        assert result.final_reward == 1.0

    def test_a_dead_one_ends_the_run_at_once(self):
        dead = Backend(lambda call: True)

        with pytest.warns(RuntimeWarning, match="RateLimited: 429 slow down"):
            result = learn(dead)

        assert result.history == []
        assert result.stop_reason == "error"
        assert result.wallclock < 1.5
        assert dead.asked < 50

    def test_one_that_dies_midway_keeps_what_there_was(self):
        with pytest.warns(RuntimeWarning, match="since the backend has worked before"):
            result = learn(Backend(lambda call: call > 40), rounds=10)

        assert result.error is None
        assert result.final_reward > result.initial_reward
        assert result.rollouts < 40


class TestEvaluations:
    def test_a_blip_while_the_artifact_is_scored_costs_neither_round_nor_result(self):
        blip = Backend(lambda call: 1 <= call <= 2)

        result = learn(blip, rounds=2)

        assert result.initial_reward == 0.0
        assert len(result.history) == 2
        assert result.error is None

    @pytest.mark.asyncio
    @pytest.mark.looptime(start=0)
    async def test_a_retry_re_runs_only_the_task_that_failed(self, looptime):
        backend = Backend(lambda call: call == 3)

        result = await async_evolve(tasks, backend.reward, agent=backend,
                                    target_reward=0.0, ledger=MemoryLedger())  # fmt: skip

        assert backend.asked == 8 + 1
        assert result.initial_reward == 0.0
        assert 0.18 <= looptime <= 0.22


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
class TestBackendWithoutBarriers:
    async def learn(self, backend, **options):
        options = {"max_seconds": 600.0, **options}
        return await async_evolve(
            tasks, backend.reward, agent=backend, ledger=MemoryLedger(), **options
        )

    async def test_while_nothing_has_ever_succeeded_workers_give_up(self, looptime):
        dead = Backend(lambda call: True)

        with pytest.warns(RuntimeWarning, match="stopped early"):
            result = await self.learn(dead, n_workers=3, max_worker_errors=3)

        assert result.retired_workers == 3
        assert result.error == "RateLimited: 429 slow down"
        assert dead.rollouts == 3 * 3
        assert looptime < 3

    async def test_they_tolerate_as_much_as_they_are_told_to(self):
        dead = Backend(lambda call: True)

        with pytest.warns(RuntimeWarning, match="stopped early"):
            await self.learn(dead, n_workers=3, max_worker_errors=5)

        assert dead.rollouts == 3 * 5

    async def test_once_something_has_succeeded_nobody_gives_up(self):
        dying = Backend(lambda call: call > 100)

        with pytest.warns(RuntimeWarning, match=r"worker w\d failed 3 times in a row"):
            result = await self.learn(dying, max_iters=500)

        assert result.retired_workers == 0
        assert result.error is None
        assert result.stop_reason == "max_seconds"

    async def test_they_back_off_exponentially_up_to_five_seconds(self, looptime):
        moments = []

        class Timed(Backend):
            async def solve(self, rendered, task):
                moments.append(float(looptime))
                return await super().solve(rendered, task)

        with pytest.warns(RuntimeWarning, match="backing off rather than retiring"):
            await self.learn(Timed(lambda call: call > 9), n_workers=1, max_seconds=30)

        pauses = [later - sooner for sooner, later in itertools.pairwise(moments[9:])]
        assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0])

    @pytest.mark.filterwarnings("ignore:worker w")
    async def test_a_storm_that_refuses_two_calls_in_three_retires_nobody(self):
        result = await self.learn(
            Backend(lambda call: call > 8 and call % 3 != 0), max_seconds=math.inf, max_iters=60
        )

        assert result.retired_workers == 0
        assert result.error is None
        assert result.rollouts == 60

    async def test_a_merge_that_cannot_be_measured_is_tried_again(self):
        class Outage(Backend):
            async def solve(self, rendered, task):
                if "cents" in rendered and int(task.id) > 12 and self.asked < 60:
                    self.asked += 1
                    raise RateLimited("429 slow down")
                return await super().solve(rendered, task)

        result = await self.learn(Outage(lambda call: False), max_iters=300)

        assert result.error is None
        assert result.final_reward == 1.0
