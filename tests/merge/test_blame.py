"""Which members a union is better off without, beyond the tasks that it lost."""

import pytest

from agentdescent.core.diff import Diff
from agentdescent.core.task import Task
from agentdescent.merge.blame import blame, breakers
from agentdescent.merge.fusion import MAX_GATES, tournament
from agentdescent.merge.own_tasks import OwnTasks
from agentdescent.merge.union import Union
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
    """A merge of verified cards, and their union; key -> its own tasks, a card for each."""
    cards = [
        at.card({key: "on"}, gain=1.0, tasks=[OWN[task - 20]])
        for key, tasks in own.items()
        for task in tasks
    ]
    return at.merge(*cards), [Diff(f"w:{key}", "skill", {key: "on"}) for key in own]


async def to_blame(merge, members):
    return await breakers(merge, OwnTasks(merge, Union.of(merge.artifact, members)))


def keys(diffs):
    return [key for diff in diffs for key in diff.ops]


@pytest.mark.asyncio
async def test_members_that_still_help_cost_a_run_in_company_and_one_of_the_company_alone():
    at = make_bench(world(a=([0, 20], []), b=([1, 21], []), c=([2, 22], [])))
    merge, members = merge_of(at, a=[20], b=[21], c=[22])

    assert await to_blame(merge, members) == []
    assert sorted(task for _, task in at.verifier.scored) == sorted(["t20", "t21", "t22"] * 2)
    assert at.verifier.seconds == []


@pytest.mark.asyncio
async def test_a_gate_hears_what_will_be_evaluated_next():
    at = make_bench(world(a=([0, 20], []), lucky=([], []), c=([2, 22, 24], [])))
    merge, members = merge_of(at, a=[20], lucky=[21], c=[22, 24])

    await tournament(merge, members)

    everybody, rest = ["a", "c", "lucky"], ["a", "c"]
    seen_once = [(["c", "lucky"], "t20"), (rest, "t21")]
    assert at.verifier.along == [
        [*((everybody, task) for task in ("t20", "t21", "t24")), *seen_once],
        [],
    ]


@pytest.mark.asyncio
async def test_members_that_have_helped_in_greater_company_are_not_tried_again():
    at = make_bench(world(a=([0, 20], []), lucky=([], []), c=([2, 22], [])))
    merge, members = merge_of(at, a=[20], lucky=[21], c=[22])

    union = await tournament(merge, members)

    assert sorted(union.diff.ops) == ["a", "c"]
    assert (["a", "c"], "t20") not in at.verifier.scored
    assert len(at.verifier.gated) == 2


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

    assert keys(await to_blame(merge, members)) == ["bad"]


@pytest.mark.asyncio
async def test_only_measured_gains_are_promises():
    at = make_bench(world(a=([20], []), b=([], [20])))
    cards = [at.card(a="on", tasks=[OWN[0]]), at.card(b="on", gain=1.0)]
    members = [Diff("w:a", "skill", {"a": "on"}), Diff("w:b", "skill", {"b": "on"})]

    assert await to_blame(at.merge(*cards), members) == []
    assert at.verifier.scored == []


@pytest.mark.asyncio
async def test_an_edit_that_two_rollouts_have_tried_is_tried_in_company_alone():
    at = make_bench(world(a=([20, 21], []), b=([22, 23], [])))
    merge, members = merge_of(at, a=[20, 21], b=[22, 23])

    assert await to_blame(merge, members) == []
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


@pytest.mark.asyncio
async def test_a_gain_that_shows_without_the_member_is_luck():
    truth = world(a=([0, 20], []), b=([1, 21], []), none=([], []))
    at = make_bench(lambda state, task: float(task == 22 or truth(state, task)), n_tasks=3)
    merge, members = merge_of(at, a=[20], none=[22], b=[21])

    assert keys(await to_blame(merge, members)) == ["none"]
    assert keys(merge.refused) == keys(merge.lucky) == ["none"]
    assert [task for _, task in at.verifier.seconds] == ["t22", "t22"]  # the head, and it alone


@pytest.mark.asyncio
async def test_of_two_members_that_solve_one_task_neither_is_luck():
    at = make_bench(world(a=([0, 20], []), b=([1, 20], [])), n_tasks=3)
    merge, members = merge_of(at, a=[20], b=[20])

    assert await to_blame(merge, members) == []
    assert merge.refused == []


@pytest.mark.asyncio
async def test_a_loss_that_does_not_show_again_is_nobodys():
    at = make_bench(world(a=([0, 6], []), b=([1, 6], [])))
    union = Union.of(
        at.head, [Diff("w:a", "skill", {"a": "on"}), Diff("w:b", "skill", {"b": "on"})]
    )

    assert await blame(at.merge(), union, [Task("h6", "lost by chance")]) == []
    assert at.verifier.scored == []


@pytest.mark.asyncio
async def test_a_single_edit_whose_gain_was_luck_is_not_committed():
    truth = world(lucky=([0, 1], []))
    at = make_bench(lambda state, task: float(task == 20 or truth(state, task)))

    card = at.card({"lucky": "on"}, gain=1.0, tasks=[OWN[0]])
    report = await at.run(at.aggregator(), card)

    assert (report.category, report.accepted) == ("below-threshold", None)
    assert report.reason == "its gain on its own task was luck"
    [refusal] = report.refused
    assert (refusal.gain, refusal.reason) == (None, "on its own task, its gain did not show again")


@pytest.mark.asyncio
async def test_a_single_edit_that_helps_is_committed_after_one_more_run_of_the_head():
    at = make_bench(world(good=([0, 1, 20], [])))

    card = at.card({"good": "on"}, gain=1.0, tasks=[OWN[0]])
    report = await at.run(at.aggregator(), card)

    assert report.category == "committed"
    assert [name for name, task in at.verifier.scored if task == "t20"] == ["[]"]
    assert at.verifier.along == [[([], "t20")]]
