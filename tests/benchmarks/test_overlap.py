"""The benchmark of overlap knows what waiting amounts to."""

from collections import Counter

import pytest

from agentdescent.calls import Stage


@pytest.fixture
def overlap(benchmark_module):
    return benchmark_module("overlap")


@pytest.mark.parametrize(
    ("durations", "width", "seconds"),
    [([3.0, 1.0, 2.0], 3, 3.0), ([3.0, 1.0, 2.0], 2, 3.0), ([1.0, 1.0, 3.0], 2, 4.0), ([], 2, 0.0)],
)
def test_tasks_start_in_order_each_as_soon_as_there_is_room(overlap, durations, width, seconds):
    assert overlap.list_scheduled(durations, width) == seconds


def test_spans_are_counted_once_where_they_overlap(overlap):
    assert overlap.covered([(4.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.0, 1.5)]) == 5.0


def test_a_run_of_rounds_waits_for_chains_gates_and_own_tasks(overlap):
    waits = overlap.in_rounds(lambda draw: 0.01, 0, 2)

    seed, round_with_gate = 0.01, 0.02 + 0.02
    assert waits.schedule == pytest.approx(seed + 2 * round_with_gate)
    assert waits.with_own == pytest.approx(waits.schedule)  # they take no longer than their wave
    assert waits.run >= waits.schedule


def test_shares_of_slots_and_gates_are_shares(overlap):
    busy = overlap.without_barriers(lambda draw: 0.002, 0, 40)

    assert 0 < busy.slots <= 1
    assert 0 < busy.gates <= 1


def test_rollouts_and_evaluations_are_told_apart(overlap):
    world = overlap.World(lambda draw: 0.0, 0)
    overlap.evolved(world, asynchronous=False, rounds=1, max_concurrency=overlap.WORKERS)

    assert {call.stage for call in world.rollouts()} == {Stage.ROLLOUT}
    assert len(world.rollouts()) == 8 + 4
    waves = Counter(world.wave(call) for call in world.evaluations())
    assert waves == {overlap.SEED: 16, overlap.FIRST: 8, overlap.LAST: 8, overlap.OWN: 4 + 4}
