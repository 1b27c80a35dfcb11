"""The artifact in sections: who owns which, who works on which task, and what is refused."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import AppendRules, FewShot, KeyedRules, SingleSlot, TensorParallel, WorkUnit
from agentdescent.errors import PluginError
from agentdescent.parallel import assign_key_sections, validate_plan

TEN = [f"k{number}" for number in range(10)]
ABC = KeyedRules(categories=["a", "b", "c"])


def by_letter(task_id):
    return "abc"[int(task_id[1:]) % 3]


def fitted(strategy=ABC, ids=TEN, **options):
    warnings = []
    plan = TensorParallel(**options).fit(strategy, ids, warnings.append)
    return plan, warnings


def shown(units):
    return [(unit.section, " ".join(unit.keys)) for unit in units]


def test_keys_are_dealt_to_sections_in_order():
    sections = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0}
    assert assign_key_sections(["e", "a", "d", "a", "b", "c"], 2) == sections
    assert TensorParallel(2, keys=["c", "a", "b"]).section_map == {"a": 0, "b": 1, "c": 0}


def test_without_a_route_tasks_are_dealt_as_by_data_parallel():
    plan = TensorParallel(n_sections=2, keys=["c", "a", "b"])

    assert shown(plan.plan(3, 1, TEN)) == [
        (0, "k1 k4 k7"),
        (1, "k2 k5 k8"),
        (0, "k0 k3 k6 k9"),
    ]
    assert plan.plan(2, 0, []) == [WorkUnit(0, [], section=0), WorkUnit(1, [], section=1)]
    assert plan.name == "TP"


def test_a_worker_sees_the_tasks_that_are_routed_to_its_section():
    plan, warnings = fitted(n_sections=3, route=by_letter)

    assert shown(plan.plan(3, 0, TEN)) == [(0, "k0 k3 k6 k9"), (1, "k1 k4 k7"), (2, "k2 k5 k8")]
    assert shown(plan.plan(3, 5, TEN)) == shown(plan.plan(3, 0, TEN))
    assert warnings == []


def test_co_owners_share_the_tasks_of_their_section_out():
    plan, _ = fitted(n_sections=3, route=by_letter)

    assert shown(plan.plan(4, 0, TEN)) == [
        (0, "k0 k6"),
        (1, "k1 k4 k7"),
        (2, "k2 k5 k8"),
        (0, "k3 k9"),
    ]


def test_sections_go_round_where_workers_are_fewer():
    plan, _ = fitted(n_sections=3, route=by_letter)

    rounds = [[unit.section for unit in plan.plan(2, index, TEN)] for index in range(3)]

    assert rounds == [[0, 1], [2, 0], [1, 2]]


def test_a_section_without_tasks_has_no_owner():
    plan, _ = fitted(n_sections=3, ids=["k0", "k1"], route=by_letter)

    assert shown(plan.plan(2, 0, ["k0", "k1"])) == [(0, "k0"), (1, "k1")]
    assert plan.plan(2, 0, []) == []


def test_the_way_a_route_writes_its_keys_does_not_matter():
    strategy = KeyedRules(categories=["Route ", "Fmt"])
    plan, warnings = fitted(strategy, ["t"], n_sections=2, route=lambda _: " ROUTE")

    assert plan.section_of("t") == plan.section_map["route"] == 1
    assert warnings == []


def test_tasks_that_are_routed_nowhere_are_named_in_a_warning():
    def route(name):
        return {"k2": "zzz", "k5": None}.get(name, "a")

    plan, warnings = fitted(n_sections=1, route=route)

    (warning,) = warnings
    assert warning == (
        "2 of 10 training tasks are routed to none of the keys 'a', 'b', 'c': 'k2', 'k5'; they are "
        "left out of this run"
    )
    worked_on = {key for unit in plan.plan(2, 0, TEN) for key in unit.keys}
    assert worked_on == {*TEN} - {"k2", "k5"}


def test_a_route_that_leads_nowhere_at_all_is_refused():
    with pytest.raises(ValueError, match=r"10 of 10 .*'k4' and 5 more; let route\(task_id\)"):
        fitted(n_sections=1, route=lambda _: "zzz")


def test_a_route_that_fails_names_the_task():
    with pytest.raises(PluginError, match="route failed for task 'k0': KeyError: 'k0'"):
        fitted(n_sections=1, route={}.__getitem__)


def test_without_a_route_no_task_has_a_section():
    assert TensorParallel(1, keys=["a"]).section_of("k0") is None


def test_a_routed_plan_has_to_know_its_keys():
    with pytest.raises(ValueError, match="this plan knows none; give keys="):
        TensorParallel(1, route=by_letter).plan(1, 0, TEN)


def test_the_plan_of_the_caller_is_left_as_it_was():
    plan = TensorParallel(n_sections=3)

    assert plan.fit(ABC, TEN, print).section_map == {"a": 0, "b": 1, "c": 2}
    assert plan == TensorParallel(n_sections=3)


class OneValue:
    """A strategy of one's own, which declares nothing."""


def test_keys_of_a_strategy_that_declares_none_can_be_given():
    plan, _ = fitted(OneValue(), n_sections=1, keys=["v"])

    assert plan.section_map == {"v": 0}


def test_some_of_the_declared_keys_can_be_given():
    plan, _ = fitted(n_sections=2, keys=["a", "c"])

    assert plan.section_map == {"a": 0, "c": 1}


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        (AppendRules(), {"n_sections": 2}, "strategy=AppendRules declares none: there is no"),
        (AppendRules(), {"n_sections": 1, "keys": ["a"]}, "strategy=AppendRules declares none"),
        (FewShot(), {"n_sections": 1, "keys": ["a"]}, "strategy=FewShot declares none"),
        (OneValue(), {"n_sections": 1}, r"give explicit keys=\[...\] of a strategy that writes"),
        (ABC, {"n_sections": 1, "keys": ["a", "Z"]}, "can never write the keys 'Z'; its keys are"),
        (SingleSlot(), {"n_sections": 2}, r"has only 1 key\(s\); lower n_sections"),
    ],
)
def test_what_can_never_work_is_refused(strategy, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(strategy, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_sections": 0}, ValueError, "n_sections must be at least 1, got 0"),
        ({"n_sections": 2, "keys": ["a", "a"]}, ValueError, r"n_sections=2 .* only 1 key\(s\)"),
        ({"n_sections": 1, "keys": "abc"}, TypeError, r"got the text 'abc'; write keys=\['abc'\]"),
        ({"n_sections": 1, "route": "a"}, TypeError, r"of the form route\(task_id\), got 'a'"),
    ],
)
def test_senseless_settings_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        TensorParallel(**options)


sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 12))


@given(sizes, st.integers(0, 20))
def test_no_task_is_in_two_units_of_a_round(size, round_index):
    n_workers, n_sections, n_tasks = size
    ids = [f"k{number}" for number in range(n_tasks)]
    keys = "abcde"[:n_sections]
    routed = TensorParallel(n_sections, list(keys), lambda name: keys[hash(name) % n_sections])

    for plan in (TensorParallel(n_sections, list(keys)), routed):
        units = validate_plan(plan.plan(n_workers, round_index, ids), n_workers, ids)
        dealt = Counter(key for unit in units for key in unit.keys)
        assert set(dealt.values()) == {1}
        if plan.route is None or n_workers >= n_sections:
            assert dealt.keys() == {*ids}
        if plan.route is not None:
            assert all(plan.section_of(key) == unit.section for unit in units for key in unit.keys)


@given(sizes, st.randoms(use_true_random=False))
def test_a_sampler_in_turn_comes_to_every_task(size, random):
    n_workers, n_sections, n_tasks = size
    ids = [f"k{number}" for number in range(n_tasks)]
    keys = "abcde"[:n_sections]
    route = {name: random.choice(keys) for name in ids}
    plan = TensorParallel(n_sections, list(keys), route.get)

    n_live = len(set(route.values()))
    rounds = -(-n_live // n_workers) * n_tasks
    picked = {
        unit.keys[index % len(unit.keys)]
        for index in range(rounds)
        for unit in plan.plan(n_workers, index, ids)
        if unit.keys
    }

    assert picked == {*ids}


@given(sizes)
def test_without_a_route_every_section_that_goes_round_meets_every_task(size):
    n_workers, n_sections, n_tasks = size
    n_workers = min(n_workers, n_sections - 1, n_tasks) or 1
    ids = [f"k{number}" for number in range(n_tasks)]
    plan = TensorParallel(n_sections, list("abcde"[:n_sections]))

    met = {
        (unit.section, unit.keys[index % len(unit.keys)])
        for index in range(5 * n_workers * n_sections * n_tasks)
        for unit in plan.plan(n_workers, index, ids)
        if unit.keys
    }

    assert met == {(section, name) for section in range(n_sections) for name in ids}
