import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.parallel import DataParallel, WorkUnit, shard_round_robin, validate_plan
from agentdescent.policy.parallel import refuse_unsupported

TEN = [f"k{number}" for number in range(10)]


def plan(n_workers, round_index, ids=TEN):
    return [" ".join(unit.keys) for unit in DataParallel().plan(n_workers, round_index, ids)]


def test_shards_are_dealt_in_turn():
    assert shard_round_robin(range(7), 3) == [[0, 3, 6], [1, 4], [2, 5]]


def test_fewer_than_one_shard_is_one():
    assert shard_round_robin([1, 2, 3], 0) == [[1, 2, 3]]


def test_data_parallel_plans_move_on_by_one_worker_each_round():
    assert plan(3, 0) == ["k0 k3 k6 k9", "k1 k4 k7", "k2 k5 k8"]
    assert plan(3, 1) == ["k1 k4 k7", "k2 k5 k8", "k0 k3 k6 k9"]
    assert plan(3, 3) == plan(3, 0)


def test_data_parallel_units_have_neither_section_nor_stage():
    assert DataParallel().plan(1, 0, ["a"]) == [WorkUnit(0, ["a"], stage=0, section=None)]
    assert DataParallel().name == "DP"


def test_workers_beyond_the_number_of_tasks_take_part_in_the_first_shards():
    assert plan(5, 0, ["a", "b"]) == ["a", "b", "a", "b", "a"]
    assert plan(5, 1, ["a", "b"]) == ["b", "a", "b", "a", "b"]


def test_no_workers_no_units():
    assert plan(0, 0) == []


@given(st.lists(st.integers()), st.integers(-2, 9))
def test_shards_partition_the_items_evenly(items, n):
    shards = shard_round_robin(items, n)

    assert sorted(item for shard in shards for item in shard) == sorted(items)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert len(shards) == max(1, n)


@given(st.lists(st.text(), unique=True, min_size=1), st.integers(1, 6), st.integers(0, 20))
def test_data_parallel_deals_every_task_and_leaves_no_worker_out(ids, n_workers, round_index):
    units = validate_plan(DataParallel().plan(n_workers, round_index, ids), n_workers, ids)

    dealt = [key for unit in units for key in unit.keys]
    assert [unit.worker for unit in units] == list(range(n_workers))
    assert set(dealt) == set(ids)
    assert len(dealt) == max(len(ids), n_workers)


@given(st.lists(st.text(), unique=True, min_size=1), st.integers(1, 6))
def test_n_rounds_of_data_parallel_show_every_task_to_every_worker(ids, n_workers):
    seen = {worker: [] for worker in range(n_workers)}
    for round_index in range(n_workers):
        for unit in DataParallel().plan(n_workers, round_index, ids):
            seen[unit.worker] += unit.keys

    assert all(set(keys) == set(ids) for keys in seen.values())


def test_a_valid_plan_is_sorted_by_worker_and_has_no_empty_units():
    first, second, third = WorkUnit(1, ["a"]), WorkUnit(0, ["b"]), WorkUnit(1, ["c"], section=2)

    checked = validate_plan([first, WorkUnit(0, []), second, third], 2, {"a", "b", "c"})

    assert checked == (second, first, third)


def test_a_plan_may_be_any_iterable():
    assert validate_plan(iter([WorkUnit(0, ("a",))]), 1, ["a"]) == (WorkUnit(0, ("a",)),)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([WorkUnit(1, ["zzz"])], "worker 1 the task id 'zzz', which is no training task"),
        ([WorkUnit(2, ["a"])], "plan names worker 2; workers are numbered from 0 to 1"),
        ([WorkUnit(-1, [])], "plan names worker -1"),
        ([WorkUnit("w0", ["a"])], "plan names worker 'w0'"),
        ([(0, ["a"])], "plan must return WorkUnit objects, got tuple"),
        (None, "plan must return a list of WorkUnit, got NoneType None"),
    ],
)
def test_a_broken_plan_is_refused_by_what_is_wrong_with_it(units, message):
    with pytest.raises(ValueError, match=message):
        validate_plan(units, 2, {"a"})


class PipelineParallel:
    name = "stages"


class Staged:
    name = "PP"


@pytest.mark.parametrize("pipeline", [PipelineParallel(), Staged()])
def test_pipelines_are_refused_with_the_way_out(pipeline):
    with pytest.raises(ValueError, match=r"agentdescent\.parallel\.PipelineChain"):
        refuse_unsupported(pipeline)


@pytest.mark.parametrize("parallel", [DataParallel(), object(), None])
def test_everything_else_is_let_through(parallel):
    assert refuse_unsupported(parallel) is None
