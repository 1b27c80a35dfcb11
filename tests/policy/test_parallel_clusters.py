"""Clusters of tasks are leased where there is most to learn."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import ClusterParallel, WorkUnit
from agentdescent.parallel import TaskCluster, TaskScheduler, validate_plan

IDS = ["a0", "a1", "a2", "b0", "b1", "c0"]


def letter(task_id):
    return task_id[0]


def shown(units):
    return [(unit.worker, " ".join(unit.keys)) for unit in units]


def observe(plan, *rewards):
    for name, reward in rewards:
        plan.observe(WorkUnit(0, [name]), name, reward)


class TestScheduler:
    def test_untried_clusters_come_first_in_their_order(self):
        scheduler = TaskScheduler([TaskCluster(name, ()) for name in "abc"])
        scheduler.record("a", 1.0, passed=False)

        assert [cluster.id for cluster in scheduler.select_batch(2)] == ["b", "c"]
        assert scheduler.select().id == "b"

    def test_averages_move_by_a_fifth_and_a_tenth(self):
        scheduler = TaskScheduler([TaskCluster("a", ())])

        scheduler.record("a", 1.0, passed=True)

        (cluster,) = scheduler.clusters
        assert cluster.recent_value == pytest.approx(0.6)
        assert cluster.pass_rate == pytest.approx(0.55)
        assert cluster.n_evidence == 1.0

    def test_worth_is_value_times_signal_plus_a_bonus(self):
        rich = TaskCluster("rich", (), recent_value=0.9, n_evidence=10, pass_rate=0.5)
        rare = TaskCluster("rare", (), recent_value=0.0, n_evidence=1, pass_rate=0.5)
        tipping = 0.9 * 1.001 / (math.sqrt(math.log(11)) * (1 - math.sqrt(1 / 10)))

        assert TaskScheduler([rich, rare], c=tipping - 0.01).select() is rich
        assert TaskScheduler([rich, rare], c=tipping + 0.01).select() is rare

    def test_a_batch_goes_round_where_clusters_are_fewer(self):
        scheduler = TaskScheduler([TaskCluster(name, ()) for name in "ab"])

        assert [cluster.id for cluster in scheduler.select_batch(5)] == list("ababa")

    def test_a_lease_that_came_to_nothing_was_a_try(self):
        hangs, works = TaskCluster("hangs", (), n_leased=3), TaskCluster("works", ())

        assert TaskScheduler([hangs, works]).select() is works

    @pytest.mark.parametrize(
        ("clusters", "c", "message"),
        [
            ([], 1.4, "clusters must be some"),
            ([TaskCluster("a", ()), TaskCluster("a", ())], 1.4, r"got \['a', 'a'\]"),
            ([TaskCluster("a", ())], -1.0, "c must be at least 0, got -1.0"),
        ],
    )
    def test_nonsense_is_refused(self, clusters, c, message):
        with pytest.raises(ValueError, match=message):
            TaskScheduler(clusters, c)


def test_each_worker_is_given_a_cluster():
    plan = ClusterParallel(letter)

    assert shown(plan.plan(2, 0, IDS)) == [(0, "a0 a1 a2"), (1, "b0 b1")]
    assert plan.plan(2, 0, []) == []
    assert plan.name == "CP"


def test_a_cluster_that_teaches_is_leased_again():
    plan = ClusterParallel(letter, c=0.0)
    plan.plan(3, 0, IDS)
    observe(plan, ("a0", 1.0), ("b0", 0.0), ("c0", 1.0))

    assert shown(plan.plan(1, 1, IDS)) == [(0, "b0 b1")]


def test_workers_share_a_cluster_out_where_there_are_fewer():
    plan = ClusterParallel(lambda _: "all")

    assert shown(plan.plan(2, 0, IDS)) == [(0, "a0 a2 b1"), (1, "a1 b0 c0")]
    assert shown(plan.plan(9, 1, IDS))[-1][0] == 5


@pytest.mark.parametrize(("own", "inherited", "passed"), [(None, 0.5, True), (0.9, 0.5, False)])
def test_a_reward_passes_from_the_threshold_on(own, inherited, passed):
    plan = ClusterParallel(letter, pass_threshold=own)
    plan.inherit_threshold(inherited)
    plan.plan(1, 0, IDS)

    observe(plan, ("a0", 0.5))

    assert (plan.dump()["a"]["pass_rate"] > 0.5) is passed


def test_what_was_learned_lasts():
    plan, again = ClusterParallel(letter), ClusterParallel(letter)
    plan.plan(3, 0, IDS)
    observe(plan, ("a0", 0.0), ("b0", 1.0), ("c0", 0.4))

    again.restore(json.loads(json.dumps(plan.dump())))

    assert again.dump() == plan.dump()
    assert [shown(again.plan(2, r, IDS)) for r in (1, 2)] == [
        shown(plan.plan(2, r, IDS)) for r in (1, 2)
    ]


def test_other_tasks_of_known_clusters_profit():
    plan = ClusterParallel(letter, c=0.0)
    plan.plan(3, 0, IDS)
    observe(plan, ("a0", 1.0), ("b0", 0.0), ("c0", 1.0))

    assert shown(plan.plan(1, 1, ["a7", "b7"])) == [(0, "b7")]
    observe(plan, ("c0", 0.0))
    assert plan.dump()["c"]["n_evidence"] == 1.0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cluster_of": "a"}, TypeError),
        ({"cluster_of": letter, "c": -1}, ValueError),
        ({"cluster_of": letter, "pass_threshold": 0.0}, ValueError),
    ],
)
def test_senseless_settings_are_refused(options, error):
    with pytest.raises(error, match=r"(cluster_of|c|pass_threshold) must be"):
        ClusterParallel(**options)


@given(st.integers(1, 6), st.lists(st.booleans(), min_size=1, max_size=12))
def test_units_are_valid_and_share_no_task(n_workers, kinds):
    ids = [f"{'xy'[kind]}{number}" for number, kind in enumerate(kinds)]
    plan = ClusterParallel(letter)

    for index in range(4):
        units = validate_plan(plan.plan(n_workers, index, ids), n_workers, ids)
        dealt = [key for unit in units for key in unit.keys]
        assert len(set(dealt)) == len(dealt)


@given(st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=8))
def test_no_task_is_starved_even_if_no_rollout_ever_ends(n_workers, kinds):
    ids = [f"{'xy'[kind]}{number}" for number, kind in enumerate(kinds)]
    plan = ClusterParallel(letter)

    picked = {
        unit.keys[index % len(unit.keys)]
        for index in range(12 * len(ids))
        for unit in plan.plan(n_workers, index, ids)
    }

    assert picked == {*ids}
