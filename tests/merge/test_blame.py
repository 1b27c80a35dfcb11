"""Which members a union is better off without, beyond the tasks that it lost."""

import pytest

from agentdescent.core.diff import Diff
from agentdescent.core.task import Task
from agentdescent.merge.blame import breakers
from agentdescent.merge.fusion import MAX_GATES, tournament
from support.merging import make_bench

OWN = [Task(f"t{i}", "a training task") for i in range(20, 26)]


def world(**keys):
    """Key -> (tasks it solves, tasks it breaks); the head solves none."""

    def reward(state, task):
        set_keys = [keys[key] for key in state]
        if any(task in breaks for _, breaks in set_keys):
            return 0.0
        return float(any(task in wins for wins, _ in set_keys))

    return reward


def merge_of(at, **own):
    """A merge of one verified card a key; key -> its own tasks."""
    cards = [
        at.card({key: "on"}, gain=1.0, tasks=[OWN[task - 20]])
        for key, tasks in own.items()
        for task in tasks
    ]
    merge = at.merge(*cards)
    return merge, [Diff(f"w:{key}", "skill", {key: "on"}) for key in own]


def keys(diffs):
    return [key for diff in diffs for key in diff.ops]


@pytest.mark.asyncio
async def test_members_that_still_help_on_their_own_tasks_cost_one_run_each():
    at = make_bench(world(a=([0, 20], []), b=([1, 21], []), c=([2, 22], [])))
    merge, members = merge_of(at, a=[20], b=[21], c=[22])

    assert await breakers(merge, members) == []
    assert len(at.verifier.scored) == 3
    assert {task for _, task in at.verifier.scored} == {"t20", "t21", "t22"}


@pytest.mark.asyncio
async def test_a_gate_hears_which_tasks_of_the_members_come_next():
    at = make_bench(world(a=([0, 20], []), lucky=([], []), c=([2, 22], [])))
    merge, members = merge_of(at, a=[20], lucky=[21], c=[22])

    await tournament(merge, members)

    assert at.verifier.along == [["t20", "t21", "t22"], ["t20", "t22"]]


@pytest.mark.asyncio
async def test_the_last_gate_of_a_merge_hears_of_none():
    at = make_bench(world(a=([0, 20], []), b=([1, 21], [])))
    merge, members = merge_of(at, a=[20], b=[21])
    merge.full_gates = MAX_GATES - 1

    await tournament(merge, members)

    assert at.verifier.along == [[]]


@pytest.mark.asyncio
async def test_a_member_whose_gain_does_not_show_again_is_refused_without_a_gate():
    at = make_bench(world(a=([0, 20], []), lucky=([], []), c=([2, 22], [])))
    merge, members = merge_of(at, a=[20], lucky=[21], c=[22])

    union = await tournament(merge, members)

    assert sorted(union.diff.ops) == ["a", "c"]
    assert keys(merge.refused) == ["lucky"]
    assert len(at.verifier.gated) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("place", range(4))
async def test_a_member_that_takes_the_gain_of_another_back_is_found(place):
    at = make_bench(world(a=([20], []), b=([21], []), c=([22], []), bad=([23], [20])), n_tasks=4)
    own = [("a", [20]), ("b", [21]), ("c", [22])]
    own.insert(place, ("bad", [23]))
    merge, members = merge_of(at, **dict(own))

    assert keys(await breakers(merge, members)) == ["bad"]


@pytest.mark.asyncio
async def test_only_measured_gains_are_promises():
    at = make_bench(world(a=([20], []), b=([], [20])))
    cards = [at.card(a="on", tasks=[OWN[0]]), at.card(b="on", gain=1.0)]
    members = [Diff("w:a", "skill", {"a": "on"}), Diff("w:b", "skill", {"b": "on"})]

    assert await breakers(at.merge(*cards), members) == []
    assert at.verifier.scored == []


@pytest.mark.asyncio
async def test_of_several_cards_with_one_edit_one_is_tried_again():
    at = make_bench(world(a=([20, 21], []), b=([22], [])))
    merge, members = merge_of(at, a=[20, 21], b=[22])

    assert await breakers(merge, members) == []
    assert len(at.verifier.scored) == 2


@pytest.mark.asyncio
async def test_harm_that_the_held_out_tasks_do_not_show_stays_out_of_a_commit():
    at = make_bench(world(a=([0, 20], []), b=([1, 21], []), bad=([], [0, 20])))
    merge, members = merge_of(at, a=[20], b=[21], bad=[22])

    union = await tournament(merge, members)

    assert sorted(union.diff.ops) == ["a", "b"]
    assert merge.blamed == 1
    assert keys(merge.refused) == ["bad"]


@pytest.mark.asyncio
async def test_a_union_that_does_not_pass_is_not_looked_into():
    at = make_bench(world(a=([20], []), b=([], [20])))
    merge, members = merge_of(at, a=[20], b=[21])

    await tournament(merge, members)

    assert not {task for _, task in at.verifier.scored} & {task.id for task in OWN}
