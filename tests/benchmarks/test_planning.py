"""The simulation lets time pass where everybody waits, and sees what the engine did meanwhile."""

from random import Random

import pytest


@pytest.fixture
def planning(benchmark_module):
    return benchmark_module("planning")


def test_a_law_has_the_percentiles_it_names(planning):
    law = planning.Law(2.0, 6.0, "here")
    random = Random(0)

    drawn = sorted(law.draw(random) for _ in range(20_000))

    assert drawn[10_000] == pytest.approx(2.0, rel=0.05)
    assert drawn[18_000] == pytest.approx(6.0, rel=0.05)


def test_a_tail_is_ten_times_as_long(planning):
    usual, slow = planning.Law(2.0, 2.0, ""), planning.Law(2.0, 2.0, "", tail=1.0)

    assert (usual.draw(Random(0)), slow.draw(Random(0))) == (2.0, 20.0)


@pytest.mark.parametrize(
    ("shares", "first"),
    [
        ((0.95, 0.2, 0.1, 0.01), "workers"),
        ((0.95, 0.2, 0.1, 0.95), "event loop"),
        ((0.3, 0.4, 0.3, 0.01), "barrier: the slowest rollout"),
        ((0.3, 0.8, 0.7, 0.01), "evaluators"),
        ((0.3, 0.8, 0.1, 0.01), "merger: waves of one gate"),
    ],
)
def test_what_saturates_first(planning, shares, first):
    names = ("workers", "merger", "evaluators", "event loop")

    assert planning.saturated(dict(zip(names, shares, strict=True))) == first


@pytest.mark.parametrize("schedule", ["rounds", "barrier-free"])
def test_a_small_search_is_simulated_to_its_target(planning, schedule, monkeypatch):
    monkeypatch.setattr(planning, "RULES", 5)

    row = planning.row(planning.Plan("API", 4, schedule), 60)

    assert row["final reward"] >= planning.TARGET
    assert row["commits"] >= 1
    shares = [row[f"{name} busy"] for name in ("workers", "merger", "evaluators")]
    assert all(0 < share <= 1 for share in shares)


def test_workers_without_barriers_are_always_busy_when_all_is_solved(planning):
    row = planning.row(planning.Plan("API", 4, "barrier-free", solved=True), 20)

    assert row["workers busy"] == pytest.approx(1.0)
    assert row["merger busy"] == 0


def test_the_engine_is_left_as_it_was(planning):
    before = planning.Merger._sweep, planning.Merger.run, planning.Journal.note

    with planning.watched(planning.Watch()):
        assert planning.Merger._sweep is not before[0]

    assert (planning.Merger._sweep, planning.Merger.run, planning.Journal.note) == before
