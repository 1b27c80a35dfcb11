"""When a run ends, and how to tell why."""

import anyio
import pytest

from agentdescent import StopReason, async_evolve, evolve
from agentdescent.ledger import MemoryLedger
from support.pens import Plain, agent, reward, tasks

DOCUMENTED = ["target_reward", "patience", "rounds", "max_seconds", "max_iters", "error"]


@pytest.mark.parametrize("reason", DOCUMENTED)
def test_every_documented_reason_is_a_plain_word(reason):
    assert StopReason(reason) == reason
    assert f"{StopReason(reason)}" == reason


class TestConverged:
    def test_stop_paying_at_a_target(self):
        result = evolve(tasks, reward, agent=agent, rounds=50,
               target_reward=0.95,   # stop as soon as held-out reaches this
               patience=5)  # ...or after 5 rounds with no improvement # fmt: skip

        assert result.stop_reason == "target_reward"
        assert len(result.history) == 1

    def test_stop_paying_when_nothing_improves(self):
        result = evolve(tasks, lambda task, output: 0.9, agent=agent, rounds=50,
               target_reward=0.95,   # stop as soon as held-out reaches this
               patience=5)  # ...or after 5 rounds with no improvement # fmt: skip

        assert result.stop_reason == "patience"
        assert len(result.history) == 5

    def test_without_either_all_rounds_are_spent(self):
        converging, stopping = Plain(), Plain()

        every_round = evolve(tasks, converging.reward, agent=converging, rounds=20)
        result = evolve(tasks, stopping.reward, agent=stopping, rounds=20, patience=2)

        assert every_round.stop_reason == "rounds"
        assert result.rendered == every_round.rendered
        assert stopping.calls < converging.calls / 2

    @pytest.mark.parametrize("options", [{"target_reward": 0.95}, {"patience": 5}])
    def test_both_work_without_barriers_too(self, options):
        result = evolve(tasks, reward, agent=agent, asynchronous=True, max_seconds=30,
                        max_rollouts=10_000, **options)  # fmt: skip

        assert result.stop_reason in options
        assert result.final_reward == 1.0
        assert result.rollouts < 200


class TestTheReasonTellsConvergenceFromASpentBudget:
    """Both end with error=None and a history."""

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"target_reward": 1.0}, "target_reward"),
            ({"patience": 2}, "patience"),
            ({"rounds": 3}, "rounds"),
            ({"asynchronous": True, "max_seconds": 30}, "max_iters"),
            ({"asynchronous": True, "max_seconds": 30, "target_reward": 1.0}, "target_reward"),
        ],
    )
    def test_it_names_what_ended_the_run(self, options, reason):
        result = evolve(tasks, reward, agent=agent, **options)

        assert result.stop_reason == reason
        assert result.error is None
        assert result.history


async def slowly(rendered, task):
    await anyio.sleep(0.5)
    return rendered


async def nothing(rendered, task, output, reward):
    return None


async def zero(task, output):
    return 0.0


class TestTwentySeconds:
    def test_without_barriers_no_limit_means_twenty_seconds_and_says_so(self, virtual_time):
        with pytest.warns(RuntimeWarning, match=r"max_seconds=None becomes 20\.0 seconds"):
            result = evolve(tasks, zero, run=slowly, propose=nothing, asynchronous=True,
                            max_rollouts=10_000, ledger=MemoryLedger())  # fmt: skip

        assert result.stop_reason == "max_seconds"
        assert result.wallclock == pytest.approx(20.0)

    @pytest.mark.asyncio
    @pytest.mark.looptime(start=0)
    async def test_the_coroutine_has_the_same_limit_and_says_nothing(self, looptime):
        result = await async_evolve(tasks, zero, run=slowly, propose=nothing,
                                    ledger=MemoryLedger())  # fmt: skip

        assert result.stop_reason == "max_seconds"
        assert looptime == 20.0

    def test_in_rounds_it_means_no_limit(self, virtual_time):
        result = evolve(tasks, zero, run=slowly, propose=nothing, rounds=30,
                        ledger=MemoryLedger())  # fmt: skip

        assert result.stop_reason == "rounds"
        assert result.wallclock == pytest.approx(0.5 + 30 * 4 * 0.5)


class TestAbandonedStragglers:
    def straggler(self, seconds):
        wedged = []

        async def run(rendered, task):
            if task.id == "1" and not wedged:
                wedged.append(task)
                await anyio.sleep(seconds)
            await anyio.sleep(1)
            return rendered

        return run

    def test_a_round_waits_for_its_slowest_worker_as_long_as_that_takes(self, virtual_time):
        run = self.straggler(9_999)

        result = evolve(tasks, zero, run=run, propose=nothing, n_workers=4, max_concurrency=4,
                        rounds=2, ledger=MemoryLedger())  # fmt: skip

        assert result.wallclock == pytest.approx(1 + 10_000 + 1)
        assert result.abandoned == 0

    def test_the_barrier_can_be_bounded(self, virtual_time):
        run = self.straggler(9_999)

        result = evolve(tasks, zero, run=run, propose=nothing, n_workers=4, max_concurrency=4,
               round_timeout=300, rounds=2,          # give up on stragglers after 5 min
               ledger=MemoryLedger())  # fmt: skip

        assert result.wallclock == pytest.approx(1 + 300 + 1)
        assert result.abandoned == 1
        assert [info.rollouts for info in result.history] == [3, 7]
        assert result.error is None

    def test_a_backend_error_still_surfaces(self, virtual_time):
        async def dead(rendered, task):
            raise ConnectionError("no route to host")

        with pytest.warns(RuntimeWarning, match="stopped early"):
            result = evolve(tasks, zero, run=dead, propose=nothing, n_workers=4, max_concurrency=4,
                   round_timeout=300, ledger=MemoryLedger())  # fmt: skip

        assert result.error == "ConnectionError: no route to host"
