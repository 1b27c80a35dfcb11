"""What holds whatever the order in which tasks that are ready go on."""

import math

import anyio

from agentdescent import async_evolve
from agentdescent.core.events import Committed, RunEnded
from agentdescent.testing import MemoryLedger, run_trio
from support.toy import HiddenRules, final_rules

RULES = ["rule0", "rule1", "rule2", "rule3"]
AMID_THE_FIRST_COMMIT = 5.25  # seed, rollouts, their check, gate and check of the union: 1 s each


def evolved(world, **options):
    async def main():
        return await async_evolve(
            world.tasks, world.reward, run=world.run, propose=world.propose, **options
        )

    options.setdefault("ledger", MemoryLedger())
    return run_trio(main)


def without_ids(log):
    return [line.partition(" ")[2] for line in log]


def test_rounds_commit_the_same():
    result = evolved(HiddenRules(run_s=1.0), asynchronous=False, max_concurrency=4, rounds=3)

    assert [info.held_out_reward for info in result.history] == [1.0, 1.0, 1.0]
    assert without_ids(result.ledger_log)[0] == (
        "merge w0:1 + w1:1 + w2:1 + w3:1 into artifact (v1 -> v2): 0.000 -> 1.000"
    )


def test_without_barriers_every_rule_is_found_and_commits_are_linear():
    commits = []

    result = evolved(
        HiddenRules(run_s=1.0),
        ledger=MemoryLedger(delay=0.5),
        max_iters=60,
        max_seconds=math.inf,
        on_event=lambda event: commits.append(event) if isinstance(event, Committed) else None,
    )

    assert final_rules(result.rendered) == RULES
    assert result.final_reward == 1.0
    assert [commit.version for commit in commits] == list(range(2, result.version + 1))


def test_no_budget_of_calls_is_exceeded():
    for asynchronous in (False, True):
        world = HiddenRules(run_s=1.0)

        result = evolved(
            world, asynchronous=asynchronous, max_concurrency=1, max_calls=40, max_seconds=math.inf
        )

        assert result.stop_reason == "max_calls"
        assert len(world.calls) == result.actor_calls <= 40


def test_a_commit_under_way_is_finished_before_a_cancellation_goes_on():
    world, ledger, ended = HiddenRules(run_s=1.0), MemoryLedger(delay=0.5), []

    async def main():
        await ledger.open()
        with anyio.move_on_after(AMID_THE_FIRST_COMMIT) as scope:
            await async_evolve(
                world.tasks,
                world.reward,
                run=world.run,
                propose=world.propose,
                ledger=Unclosed(ledger),
                on_event=lambda event: ended.append(event) if isinstance(event, RunEnded) else None,
            )
        return scope.cancelled_caught, (await ledger.read())["artifact"].version

    assert run_trio(main) == (True, 2)
    assert [event.result.version for event in ended] == [2]


class Unclosed:
    """A ledger that can still be read when the run has closed it."""

    def __init__(self, ledger):
        self._ledger = ledger

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    async def close(self):
        pass
