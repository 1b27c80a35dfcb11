"""Second looks: a good edit that the gate turned down by bad luck is not lost for ever."""

from collections import Counter
from dataclasses import replace

import pytest

from agentdescent import Task, async_evolve
from agentdescent.core.diff import Diff
from agentdescent.ledger import MemoryLedger
from agentdescent.merge.second_look import MOST_KNOWN, TurnedDown
from agentdescent.policy.bundle import AcceptDecision, Policies
from support.merging import make_bench

WON, LOST = {"h0", "h1"}, {"h2", "h3"}


class World:
    """The head solves all held-out tasks but two; the only edit solves these, and may lose others.

    `lost` says how often the edit loses h2 and h3, the first times that it is measured there.
    """

    def __init__(self, lost):
        self.calls = Counter()
        self.lost = lost
        self.tasks = [Task("train", ""), *(Task(f"h{i}", "") for i in range(6))]

    def run(self, rendered, task):
        self.calls[rendered, task.id] += 1
        return rendered

    def reward(self, task, output):
        edited = "better" in output
        if task.id in WON or task.id == "train":
            return float(edited)
        unlucky = edited and task.id in LOST and self.calls[output, task.id] <= self.lost
        return float(not unlucky)

    def held_out_calls(self, text):
        return sum(n for (out, name), n in self.calls.items() if name != "train" and text in out)

    async def evolve(self, rounds, **options):
        return await async_evolve(
            self.tasks,
            self.reward,
            run=self.run,
            propose=lambda rendered, task, output, reward: "better",
            held_out_frac=6 / 7,
            n_workers=1,
            asynchronous=False,
            rounds=rounds,
            ledger=MemoryLedger(),
            **options,
        )


@pytest.mark.asyncio
async def test_an_edit_that_was_unlucky_is_committed_when_it_is_proposed_again():
    result = await World(lost=1).evolve(rounds=2)

    assert [info.committed for info in result.history] == [0, 1]


@pytest.mark.asyncio
async def test_only_what_differed_is_measured_a_second_time_and_on_both_sides():
    world = World(lost=1)
    await world.evolve(rounds=2)

    assert world.held_out_calls("(empty)") == 6 + 4
    assert world.held_out_calls("better") == 6 + 4


@pytest.mark.asyncio
async def test_an_edit_that_loses_again_is_not_measured_a_third_time():
    world = World(lost=10)
    result = await world.evolve(rounds=5)

    assert not any(info.committed for info in result.history)
    assert world.held_out_calls("better") == 6 + 4


@pytest.mark.asyncio
async def test_a_policy_that_accepts_by_itself_is_not_overruled():
    class Never:
        def decide(self, context):
            return AcceptDecision(accept=False)

    world = World(lost=0)
    result = await world.evolve(rounds=3, policies=Policies(acceptance=Never()))

    assert not any(info.committed for info in result.history)
    assert world.held_out_calls("better") == 6


def refused(at, **ops):
    turned_down = TurnedDown()
    turned_down.note(at.merge(), Diff("w", "skill", ops))
    return turned_down


def test_what_was_turned_down_is_known_on_the_same_version_alone():
    at = make_bench(lambda state, task: 0.0)
    turned_down, diff = refused(at, a="on"), Diff("another", "skill", {"a": "on"})
    later = at.merge()
    later.artifact = replace(later.artifact, version=later.artifact.version + 1)

    assert turned_down.has(at.merge(), diff)
    assert not turned_down.has(at.merge(), Diff("w", "skill", {"a": "off"}))
    assert not turned_down.has(later, diff)


def test_only_the_newest_refusals_are_remembered():
    at = make_bench(lambda state, task: 0.0)
    turned_down = TurnedDown()
    diffs = [Diff("w", "skill", {"a": str(i)}) for i in range(MOST_KNOWN + 1)]
    for diff in diffs:
        turned_down.note(at.merge(), diff)

    assert [turned_down.has(at.merge(), diff) for diff in diffs[:2]] == [False, True]
    assert turned_down.has(at.merge(), diffs[-1])


def test_what_was_turned_down_outlives_the_process():
    at = make_bench(lambda state, task: 0.0)
    restored = TurnedDown()
    restored.restore(refused(at, a="on").dump())

    assert restored.has(at.merge(), Diff("w", "skill", {"a": "on"}))
