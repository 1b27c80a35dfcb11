import pytest

from agentdescent.core.diff import Diff
from agentdescent.core.task import Task
from agentdescent.merge.acceptance import gate
from agentdescent.merge.blame import blame
from agentdescent.merge.fusion import tournament
from agentdescent.merge.union import Union, fitting
from agentdescent.policy.stats import commit_bar
from support.merging import make_bench


def world(*solved, **keys):
    """Key -> (tasks it solves, tasks it breaks); `solved` are solved by the head."""

    def reward(state, task):
        set_keys = [keys.get(key, ((), ())) for key in state]
        if any(task in breaks for _, breaks in set_keys):
            return 0.0
        return float(task in solved or any(task in wins for wins, _ in set_keys))

    return reward


def diffs(*names):
    return [Diff(f"w:{name}", "skill", {name: "on"}, author="w") for name in names]


def keys(union):
    return list(union.diff.ops)


def refused(merge):
    return [sorted(diff.ops) for diff in merge.refused]


def gated(at):
    return [sorted(state) for state, _, _ in at.verifier.gated]


def bars(at):
    return [bar for _, bar, _ in at.verifier.gated]


def bar(k):
    return round(commit_bar(1, base_delta=0.5, half_life=64, k=k), 6)


@pytest.mark.asyncio
async def test_one_diff_is_handed_on_unmeasured():
    at = make_bench()

    union = await tournament(at.merge(), diffs("a"))

    assert (keys(union), union.fused) == (["a"], False)
    assert at.verifier.scored == []


@pytest.mark.asyncio
async def test_a_union_that_loses_nothing_takes_one_gate():
    at = make_bench(world(7, a=([0], []), b=([1], []), c=([], [])))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b", "c"))

    assert (keys(union), union.fused, merge.blamed) == (["a", "b", "c"], True, 0)
    assert gated(at) == [["a", "b", "c"]]
    assert refused(merge) == []


@pytest.mark.asyncio
async def test_of_a_union_without_a_win_every_member_is_refused():
    at = make_bench(world(7))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b"))

    assert not (await gate(merge, union.artifact)).accepted
    assert (gated(at), refused(merge)) == ([["a", "b"]], [["a", "b"]])


@pytest.mark.asyncio
async def test_the_member_that_lost_a_task_is_taken_out():
    at = make_bench(world(6, 7, a=([0, 1], []), b=([2], []), bad=([], [6])))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "bad", "b"))

    assert (keys(union), merge.blamed) == (["a", "b"], 1)
    assert (await gate(merge, union.artifact)).accepted
    assert gated(at) == [["a", "b", "bad"], ["a", "b"]]
    assert bars(at) == [bar(1), bar(2)]


@pytest.mark.asyncio
async def test_the_blamed_who_added_losses_alone_are_refused_without_a_gate():
    at = make_bench(world(6, 7, a=([0, 1], []), bad=([0], [6]), worse=([], [7])))
    merge = at.merge()

    await tournament(merge, diffs("a", "bad", "worse"))

    assert refused(merge) == [["bad"], ["worse"]]
    assert len(at.verifier.gated) == 2


@pytest.mark.asyncio
async def test_only_the_lost_tasks_are_evaluated_to_find_whom_to_blame():
    at = make_bench(world(6, 7, a=([0], []), b=([1], []), c=([2], []), bad=([], [6])))
    merge = at.merge()

    union = Union.of(at.head, diffs("a", "bad", "b", "c"))

    found = await blame(merge, union, [Task("h6", "task 6")])

    assert [list(diff.ops) for diff in found] == [["bad"]]
    assert len(at.verifier.seconds) == 2  # the head and the union
    assert len(at.verifier.scored) == 2 + 2  # two halves, two members
    assert {task for _, task in at.verifier.scored} == {"h6"}


@pytest.mark.asyncio
async def test_every_member_that_lost_a_task_is_found():
    harmful = {f"bad{i}": ([], [i]) for i in (3, 5, 6)}
    at = make_bench(world(*range(8), **{f"n{i}": ([], []) for i in range(6)}, **harmful))
    names = ["n0", "bad5", "n1", "n2", "bad3", "bad6", "n3", "n4", "n5"]
    lost = [Task(f"h{i}", f"task {i}") for i in (3, 5, 6)]

    found = await blame(at.merge(), Union.of(at.head, diffs(*names)), lost)

    assert [list(diff.ops) for diff in found] == [["bad5"], ["bad3"], ["bad6"]]


@pytest.mark.asyncio
async def test_nobody_is_blamed_for_what_members_lose_only_together():
    def reward(state, task):
        if task == 7:
            return float(not {"a", "b"} <= state.keys())
        return float((task < 2 and "a" in state) or (task in {2, 3} and "b" in state))

    at = make_bench(reward)
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b"))

    assert (keys(union), merge.blamed, refused(merge)) == (["a", "b"], 0, [])
    assert len(at.verifier.gated) == 1
    assert (await gate(merge, union.artifact)).accepted


@pytest.mark.asyncio
async def test_a_union_that_fails_by_what_members_lose_only_together_is_refused():
    def reward(state, task):
        both = {"a", "b"} <= state.keys()
        return float(task == 0 and "a" in state) if task < 5 else float(not both)

    at = make_bench(reward)
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b"))

    assert not (await gate(merge, union.artifact)).accepted
    assert refused(merge) == [["a", "b"]]


@pytest.mark.asyncio
async def test_a_blamed_member_that_wins_more_than_the_rest_is_chosen_alone():
    at = make_bench(world(6, 7, a=([0, 1], []), mixed=([2, 3, 4, 5], [6])))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "mixed"))

    assert (keys(union), union.fused) == (["mixed"], False)
    assert gated(at) == [["a", "mixed"], ["a"], ["mixed"]]
    assert bars(at) == [bar(1), bar(2), bar(3)]
    assert refused(merge) == []


@pytest.mark.asyncio
async def test_the_rest_is_chosen_when_a_blamed_member_wins_no_more_than_it():
    at = make_bench(world(6, 7, a=([0, 1, 2], []), mixed=([2, 3, 4, 5], [6])))

    union = await tournament(at.merge(), diffs("a", "mixed"))

    assert keys(union) == ["a"]
    assert gated(at)[-1] == ["mixed"]


@pytest.mark.asyncio
async def test_a_blamed_member_that_fails_alone_is_refused():
    at = make_bench(world(6, 7, a=([0, 1], []), poor=([2], [6, 7])))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "poor"))

    assert (keys(union), refused(merge)) == (["a"], [["poor"]])
    assert len(at.verifier.gated) == 3


@pytest.mark.asyncio
async def test_nobody_is_blamed_for_a_task_that_each_member_loses_alone():
    at = make_bench(world(6, 7, a=([0], [6]), b=([1], [6]), c=([2], [6, 7]), d=([3], [6])))
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b", "c", "d"))

    assert (keys(union), merge.blamed) == (["a", "b", "d"], 1)
    assert gated(at) == [["a", "b", "c", "d"], ["a", "b", "d"], ["c"]]


@pytest.mark.asyncio
async def test_when_all_are_blamed_each_is_gated_alone():
    at = make_bench(world(4, 5, 6, 7, bad=([], [4, 5, 6]), mixed=([0, 1, 2], [7])))
    merge = at.merge()

    union = await tournament(merge, diffs("bad", "mixed"))

    assert (keys(union), merge.blamed) == (["mixed"], 2)
    assert gated(at) == [["bad", "mixed"], ["bad"], ["mixed"]]
    assert refused(merge) == [["bad"]]


@pytest.mark.asyncio
async def test_a_union_of_blamed_members_stands_when_it_gains_most():
    at = make_bench(world(6, 7, one=([0, 1, 2], [6]), two=([3, 4, 5], [7])))
    merge = at.merge()

    union = await tournament(merge, diffs("one", "two"))

    assert (keys(union), union.fused) == (["one", "two"], True)
    assert len(at.verifier.gated) == 3


@pytest.mark.asyncio
async def test_of_equal_gains_the_smaller_commit_is_chosen():
    at = make_bench(world(6, 7, mixed=([0, 1, 2, 3], [6]), idle=([], [])))
    merge = at.merge()

    union = await tournament(merge, diffs("mixed", "idle"))

    assert keys(union) == ["mixed"]
    assert refused(merge) == [["idle"]]


@pytest.mark.asyncio
async def test_a_merge_takes_three_full_gates_at_most():
    lone = {f"m{i}": ([i], [i + 4]) for i in range(4)}
    at = make_bench(world(4, 5, 6, 7, **lone))
    merge = at.merge()

    union = await tournament(merge, diffs(*lone))

    assert (len(at.verifier.gated), merge.full_gates, merge.blamed) == (3, 3, 4)
    assert refused(merge) == [["m0"], ["m1"]]
    assert keys(union) == ["m1"]


@pytest.mark.asyncio
async def test_the_last_union_that_passed_is_chosen_when_losses_go_on():
    """Each union hides a loss of the next: what is taken out had won the task that it loses."""

    def reward(state, task):
        if task == 8:
            return float("x" not in state)
        if task == 9:
            return float("x" in state or "y" not in state)
        if task == 10:
            return float("x" in state or "y" in state or "z" not in state)
        return float(f"abcd{'xyz'}"[task % 7] in state) if task < 8 else 0.0

    at = make_bench(reward, n_tasks=11)
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b", "c", "d", "x", "y", "z"))

    assert gated(at) == [list("abcdxyz"), list("abcdyz"), list("abcdz")]
    assert (keys(union), merge.blamed) == (list("abcdz"), 2)


@pytest.mark.asyncio
async def test_an_undecided_union_refuses_nobody():
    at = make_bench(world(7, a=([0], []), b=([1], [])))
    at.verifier.broken = {"h0"}
    merge = at.merge()

    union = await tournament(merge, diffs("a", "b"))

    assert (await gate(merge, union.artifact)).undecided
    assert (refused(merge), len(at.verifier.gated)) == ([], 1)


def breaking_after(at, n_gates):
    """Let no task be scored once so many candidates have been gated."""
    judge = at.verifier.gate

    async def gate_then_break(head, candidate, bar, **options):
        if len(at.verifier.gated) == n_gates:
            at.verifier.broken = {"h0"}
        return await judge(head, candidate, bar, **options)

    at.verifier.gate = gate_then_break


@pytest.mark.asyncio
async def test_an_undecided_rest_does_not_let_the_blamed_in():
    at = make_bench(world(6, 7, a=([0, 1], []), bad=([], [6])))
    breaking_after(at, 1)
    merge = at.merge()

    union = await tournament(merge, diffs("a", "bad"))

    assert (keys(union), refused(merge), merge.blamed) == (["a"], [], 1)
    assert (await gate(merge, union.artifact)).undecided


@pytest.mark.asyncio
async def test_a_blamed_member_whose_own_gate_is_undecided_is_not_refused():
    at = make_bench(world(6, 7, a=([0, 1], []), mixed=([2, 3, 4, 5], [6])))
    breaking_after(at, 2)
    merge = at.merge()

    union = await tournament(merge, diffs("a", "mixed"))

    assert (keys(union), refused(merge)) == (["a"], [])


@pytest.mark.parametrize(
    ("max_ops", "fit"),
    [
        (None, ["ab", "c", "bd", "e"]),
        (3, ["ab", "c"]),
        (4, ["ab", "c", "bd"]),
        (1, ["ab"]),
        (5, ["ab", "c", "bd", "e"]),
    ],
)
def test_a_commit_holds_what_fits_in_the_order_of_promise(max_ops, fit):
    diffs = [Diff(n, "skill", dict.fromkeys(n, "on")) for n in ("ab", "c", "bd", "e")]

    found = fitting(make_bench().head, diffs, max_ops)

    assert [diff.diff_id for diff in found] == fit


def test_a_diff_too_large_for_the_room_left_does_not_stop_smaller_ones():
    wide = [Diff(n, "skill", dict.fromkeys(n, "on")) for n in ("a", "bcd", "e")]

    assert [diff.diff_id for diff in fitting(make_bench().head, wide, 2)] == ["a", "e"]


def test_of_contradicting_diffs_the_first_fits():
    rivals = [Diff("a", "skill", {"k": "1"}), Diff("b", "skill", {"k": "2"})]

    assert fitting(make_bench().head, rivals, None) == rivals[:1]
