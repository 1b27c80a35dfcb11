"""The benchmark of scale compares the right rounds."""

import pytest

from agentdescent import AppendRules


@pytest.fixture
def scale(benchmark_module):
    return benchmark_module("scale")


def test_first_and_last_tenth_are_compared(scale, monkeypatch):
    clock = iter([*range(10), *(9 + 2 * i for i in range(1, 91))])
    memory = iter([1.0, 2.0, 5.0])
    monkeypatch.setattr(scale.time, "process_time", lambda: float(next(clock)))
    monkeypatch.setattr(scale, "rss_mb", lambda: next(memory))
    tenths = scale.Tenths(100)

    for _ in range(100):
        tenths.end_round()

    assert tenths.figures() == scale.Figures(1000.0, 2000.0, 2.0, 5.0)


def test_history_may_take_its_own_memory(scale):
    case = scale.Case(10_000, scale.stale)
    mb = 10_000 * 400 / 2**20
    row = scale._row("x", 10_000, case, [scale.Figures(1.0, 1.2, 50.0, 60.0 + mb)])

    assert (row["time grows"], row["memory grows"]) == (1.2, pytest.approx(1.2))
    apart = scale.Case(10_000, scale.stale, keeps_history=False)
    grown = scale._row("x", 10_000, apart, [scale.Figures(1.0, 1.2, 50.0, 60.0 + mb)])
    assert not grown["reached"]


@pytest.mark.parametrize("kind", ["Idle", "NoGain"])
def test_a_small_run_is_measured(scale, kind):
    figures = getattr(scale, kind)(AppendRules()).evolved(20)

    assert min(figures.first_ms, figures.last_ms) >= 0
    assert figures.first_mb > 1


def test_every_round_of_many_keys_commits(scale):
    assert scale.Chain(scale.Numbers()).evolved(20).last_ms > 0


def test_stale_cards_are_all_dropped(scale):
    assert scale.stale(20).last_ms > 0


def test_the_bare_commit_is_timed_for_trees_of_each_tenth(scale):
    assert all(ms > 0 for ms in scale.bare_commits(100, 1_000, turns=2))
