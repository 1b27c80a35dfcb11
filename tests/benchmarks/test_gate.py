"""The benchmark of the gate counts its waves and its evaluations rightly."""

import pytest


@pytest.fixture
def gate(benchmark_module, monkeypatch):
    module = benchmark_module("gate")
    monkeypatch.setattr(module, "LATENCY_S", 0.0)
    return module


def test_an_accepted_gate_waits_for_failed_and_for_solved_tasks(gate):
    assert gate.waves(True, 200) == [2] * 10
    assert gate.waves(True, 32) == [8, 7, 7, 7, 7, 7, 8, 8, 7, 7]


def test_a_gate_without_gain_waits_for_failed_tasks_only(gate):
    assert gate.waves(False, 200) == [1] * 10
    assert gate.waves(False, 32) == [4] * 10


def test_evaluations_are_counted_in_sets(gate):
    accepted, no_gain, repeated = gate.evaluations(quick=True)

    assert accepted["evaluations of the set per gate"] == pytest.approx(11 / 10)
    assert no_gain["evaluations of the set per gate"] == pytest.approx(0.5)
    assert repeated["evaluations of the set per gate"] == pytest.approx(11 / 10)
    assert [row["run twice"] for row in (accepted, no_gain, repeated)] == [0, 0, 0]


def test_every_gate_is_timed(gate):
    world = gate.World(helps=True)
    gate.evolved(world, gate.N_HELD_OUT)

    assert len(world.seconds) == gate.GATES
    assert min(world.seconds) > 0
