"""The acceptance statistics: golden numbers, laws, calibration."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.policy.stats import (
    PairedGate,
    accepted_risk,
    commit_bar,
    may_commit,
    probability_of_gain,
)


def binary(wins: int, losses: int, ties: int = 0) -> float:
    before = [0.0] * wins + [1.0] * losses + [1.0] * ties
    after = [1.0] * wins + [0.0] * losses + [1.0] * ties
    return probability_of_gain(before, after)


def by_enumeration(gains: list[float]) -> float:
    """P(sum > 0) + P(sum = 0) / 2 over every subset, straight from the definition."""
    won = 0.0
    for subset in range(2 ** len(gains)):
        total = math.fsum(gain for i, gain in enumerate(gains) if subset >> i & 1)
        won += 0.5 if abs(total) < 1e-9 else float(total > 0)
    return won / 2 ** len(gains)


def beta_above_half(wins: int, losses: int) -> Fraction:
    """P(Beta(1 + w, 1 + l) > 1/2), the integral of the density term by term."""
    density = Fraction(math.factorial(wins + losses + 1)) / (
        math.factorial(wins) * math.factorial(losses)
    )
    return density * sum(
        Fraction((-1) ** j * math.comb(losses, j), wins + j + 1)
        * (1 - Fraction(1, 2 ** (wins + j + 1)))
        for j in range(losses + 1)
    )


@pytest.mark.parametrize("wins", range(14))
def test_binary_rewards_give_the_paired_beta_probability(wins):
    for losses in range(14):
        assert binary(wins, losses, ties=3) == float(beta_above_half(wins, losses))


def test_no_difference_is_a_coin_flip():
    assert probability_of_gain([0.3, 0.3], [0.3, 0.3 + 9e-10]) == 0.5


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="shorter"):
        probability_of_gain([0.5, 0.5], [0.5])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-997, 997), max_size=9))
def test_few_graded_differences_are_exact(parts):
    gains = [part / 997 for part in parts]
    before = [max(0.0, -gain) for gain in gains]
    after = [old + gain for old, gain in zip(before, gains, strict=True)]
    assert probability_of_gain(before, after) == by_enumeration(
        [new - old for old, new in zip(before, after, strict=True)]
    )


def test_ties_of_thirds_are_ties():
    assert probability_of_gain([2 / 3, 0.0, 0.0], [0.0, 1 / 3, 1 / 3]) == by_enumeration(
        [-2.0, 1.0, 1.0]
    )


def test_many_differences_on_a_coarse_grid_are_exact():
    """40 steps of a third each way, against the same law in whole numbers."""
    rng = random.Random(3)
    steps = [rng.choice([-3, -2, -1, 1, 2, 3]) for _ in range(40)]
    law = {0: 1}
    for step in steps:
        law = {
            total: law.get(total, 0) + law.get(total - step, 0)
            for total in law.keys() | {total + step for total in law}
        }
    exact = sum(ways * (2 * (total > 0) + (total == 0)) for total, ways in law.items()) / 2**41
    before = [max(0, -step) / 3 for step in steps]
    after = [max(0, step) / 3 for step in steps]
    assert probability_of_gain(before, after) == pytest.approx(exact, abs=1e-12)


def graded(rng: random.Random, n: int, gain: float, sd: float) -> tuple[list[float], list[float]]:
    before = [rng.uniform(0.3, 0.7) for _ in range(n)]
    after = [min(1.0, max(0.0, old + rng.gauss(gain, sd))) for old in before]
    return before, after


def test_the_grid_is_close_to_the_exact_law():
    """Differences too many to enumerate, against the same set with one more decimal of grid."""
    rng = random.Random(5)
    for _ in range(20):
        before, after = graded(rng, 24, 0.02, 0.1)
        on_grid = probability_of_gain(before, after)
        exact = by_sampling_halves([new - old for old, new in zip(before, after, strict=True)])
        assert on_grid == pytest.approx(exact, abs=0.004)


def by_sampling_halves(gains: list[float]) -> float:
    """The exact law of 24 differences, met in the middle."""
    sums = []
    for half in (gains[:12], gains[12:]):
        found = [0.0]
        for gain in half:
            found += [total + gain for total in found]
        sums.append(sorted(found))
    left, right = sums
    count, low = 0, len(right)
    for total in left:
        while low and right[low - 1] > -total:
            low -= 1
        count += len(right) - low
    return count / 2**24


def test_beyond_five_hundred_differences_the_normal_law_is_close_to_the_grid():
    rng = random.Random(6)
    before, after = graded(rng, 501, 0.004, 0.1)
    normal = probability_of_gain(before, after)
    on_grid = probability_of_gain(before[:500], after[:500])
    assert normal == pytest.approx(on_grid, abs=0.02)


def test_beyond_five_hundred_equal_differences_the_law_is_still_exact():
    heads = sum(math.comb(602, j) for j in range(321))
    assert binary(320, 281) == heads / 2**602


units = st.integers(0, 8).map(lambda k: k / 8)


@settings(deadline=None)
@given(st.lists(st.tuples(units, units), min_size=1, max_size=20), st.data())
def test_probability_never_falls_when_a_reward_rises(pairs, data):
    before, after = [list(side) for side in zip(*pairs, strict=True)]
    index = data.draw(st.integers(0, len(after) - 1))
    higher = list(after)
    higher[index] = data.draw(st.floats(after[index], 1.0))
    assert probability_of_gain(before, higher) >= probability_of_gain(before, after)


@settings(deadline=None)
@given(st.lists(st.tuples(units, units), max_size=20))
def test_swapping_the_sides_gives_the_complement(pairs):
    before, after = [old for old, _ in pairs], [new for _, new in pairs]
    there, back = probability_of_gain(before, after), probability_of_gain(after, before)
    assert there + back == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("version", "threshold"),
    [
        (1, 0.5054),
        (2, 0.5107),
        (4, 0.5212),
        (8, 0.5415),
        (16, 0.5796),
        (32, 0.6464),
        (64, 0.7500),
        (96, 0.8232),
        (128, 0.8750),
        (256, 0.9688),
        (361, 0.9900),
        (362, 0.9900),
        (5000, 0.9900),
    ],
)
def test_bar_rises_with_the_version(version, threshold):
    assert round(commit_bar(version, base_delta=0.5, half_life=64), 4) == threshold


def test_accepted_risk_never_anneals_below_one_percent():
    assert accepted_risk(361, base_delta=0.5, half_life=64) > 0.01
    assert accepted_risk(362, base_delta=0.5, half_life=64) == 0.01


def test_bar_of_the_best_of_four_is_the_fourth_root():
    assert commit_bar(64, base_delta=0.5, half_life=64, k=4) == 0.75**0.25
    assert round(commit_bar(1, base_delta=0.5, half_life=64, k=4), 3) == 0.843


def test_gate_needs_more_than_its_bar_and_a_gain():
    assert may_commit(0.76, 0.75, 0.1)
    assert not may_commit(0.75, 0.75, 0.1)
    assert not may_commit(0.76, 0.75, 1e-9)


BARS = {version: commit_bar(version, base_delta=0.5, half_life=64) for version in (1, 64, 256)}


def accept_rates(draw, trials: int) -> list[float]:
    """Share of candidates accepted at versions 1, 64 and 256."""
    passed = dict.fromkeys(BARS, 0)
    for _ in range(trials):
        before, after = draw()
        probability = probability_of_gain(before, after)
        for version, bar in BARS.items():
            passed[version] += may_commit(probability, bar, sum(after) - sum(before))
    return [count / trials for count in passed.values()]


def test_graded_null_is_accepted_at_most_as_often_as_the_accepted_risk():
    rng = random.Random(0)
    trials = 600
    rates = accept_rates(lambda: graded(rng, 40, 0.0, 0.1), trials)
    for rate, risk in zip(rates, (0.4946, 0.25, 0.03125), strict=True):
        assert rate <= risk + 2 * math.sqrt(risk * (1 - risk) / trials)


def test_binary_null_is_accepted_at_most_as_often_as_the_accepted_risk():
    rng = random.Random(1)
    trials = 4000

    def draw():
        return [[float(rng.random() < 0.5) for _ in range(20)] for _ in range(2)]

    rates = accept_rates(draw, trials)
    for rate, risk in zip(rates, (0.4946, 0.25, 0.03125), strict=True):
        assert rate <= risk + 2 * math.sqrt(risk * (1 - risk) / trials)


def test_best_of_four_under_the_null_is_accepted_at_most_as_often_as_the_accepted_risk():
    rng = random.Random(2)
    trials = 2000
    bars = {v: commit_bar(v, base_delta=0.5, half_life=64, k=4) for v in (1, 64, 128)}
    passed = dict.fromkeys(bars, 0)
    for _ in range(trials):
        before = [float(rng.random() < 0.5) for _ in range(20)]
        rivals = [[float(rng.random() < 0.5) for _ in range(20)] for _ in range(4)]
        best = max(rivals, key=sum)
        probability = probability_of_gain(before, best)
        for version, bar in bars.items():
            passed[version] += may_commit(probability, bar, sum(best) - sum(before))
    for count, risk in zip(passed.values(), (0.4946, 0.25, 0.125), strict=True):
        assert count / trials <= risk


def test_power_on_a_small_graded_gain():
    rng = random.Random(4)
    rates = accept_rates(lambda: graded(rng, 40, 0.05, 0.1), 300)
    for rate, known in zip(rates, (0.99, 0.94, 0.63), strict=True):
        assert rate >= known - 0.05


def test_power_on_binary_wins_with_some_losses():
    rng = random.Random(7)

    def draw():
        before = [float(i % 2) for i in range(40)]
        after = [float(rng.random() < (0.95 if old else 0.3)) for old in before]
        return before, after

    rates = accept_rates(draw, 400)
    for rate, known in zip(rates, (0.98, 0.91, 0.45), strict=True):
        assert rate >= known - 0.05


# -- the same gate, task by task ------------------------------------------------------------------


def finish(head: list[float], candidate: list[float], bar: float) -> tuple[PairedGate, int]:
    """Score one by one, the most to win first; (the gate, tasks scored when it is lost or full)."""
    order = sorted(range(len(head)), key=lambda index: head[index])
    gate = PairedGate([head[index] for index in order], bar)
    for n, index in enumerate(order):
        if gate.is_lost():
            return gate, n
        gate.learn(n, candidate[index])
    return gate, len(order)


def test_finished_gate_knows_the_probability_and_the_gain():
    head, candidate = [0.0, 0.5, 1.0], [1.0, 0.25, 1.0]
    gate, finished = finish(head, candidate, 0.5)
    assert finished == 3
    assert gate.probability == probability_of_gain(head, candidate)
    assert gate.total_gain == 0.75
    assert not gate.is_lost()


def test_open_tasks_count_as_won_outright():
    gate = PairedGate([0.0, 0.5, 1.0], 0.5)
    gate.learn(1, 0.25)
    assert gate.probability == probability_of_gain([0.0, 0.5, 1.0], [1.0, 0.25, 1.0])
    assert gate.total_gain == 0.75


def test_candidate_without_a_win_is_lost_when_the_last_task_with_headroom_is_in():
    head = [0.0] * 5 + [1.0] * 11
    assert finish(head, head, 0.5054)[1] == 5


def test_head_without_headroom_cannot_be_beaten():
    assert PairedGate([1.0, 1.0], 0.0).is_lost()


def test_high_bar_is_out_of_reach_early():
    """Four wins without a loss give 0.969, five 0.984: one of five must not be missed."""
    head = [0.0] * 5 + [1.0] * 11
    assert finish(head, [0.0, 1.0, 1.0, 1.0, 1.0] + [1.0] * 11, 0.97)[1] == 1


def test_second_wave_stops_at_the_loss_that_decides():
    head = [0.0] * 5 + [1.0] * 100
    candidate = [1.0] * 5 + [1.0] * 10 + [0.0] + [1.0] * 89
    gate, finished = finish(head, candidate, 0.95)
    assert finished == 16
    assert gate.probability == binary(5, 1)


def test_without_a_total_gain_a_candidate_is_lost_however_low_the_bar():
    head = [0.9] * 9 + [1.0] * 2
    gate, finished = finish(head, [1.0] * 9 + [0.0, 1.0], 0.4)
    assert finished == 10
    assert gate.probability > 0.4


rewards = {
    "binary": st.sampled_from([0.0, 1.0]),
    "thirds": st.integers(0, 3).map(lambda k: k / 3),
    "graded": st.floats(0.0, 1.0),
    "mostly solved": st.one_of(st.just(1.0), st.floats(0.9, 1.0)),
}
kinds = st.sampled_from(sorted(rewards))


def assert_never_lost_but_accepted(head: list[float], candidate: list[float]) -> None:
    """The bar is the highest that the candidate passes."""
    full = PairedGate(head, 0.0)
    for index, value in enumerate(candidate):
        full.learn(index, value)
    bar = math.nextafter(full.probability, 0.0)
    if may_commit(full.probability, bar, full.total_gain):
        gate, finished = finish(head, candidate, bar)
        assert finished == len(head)
        assert gate.probability == pytest.approx(full.probability, abs=1e-15)


@settings(max_examples=150, deadline=None)
@given(kinds, kinds, st.integers(1, 60), st.data())
def test_accepted_candidate_is_never_called_lost(of_head, of_candidate, n, data):
    head = data.draw(st.lists(rewards[of_head], min_size=n, max_size=n))
    candidate = data.draw(st.lists(rewards[of_candidate], min_size=n, max_size=n))
    assert_never_lost_but_accepted(head, candidate)


@pytest.mark.parametrize("n", [40, 200, 501, 520])
@pytest.mark.parametrize("kind", ["binary", "tenths", "graded", "rare changes"])
def test_accepted_candidate_of_many_tasks_is_never_called_lost(n, kind):
    rng = random.Random(f"{n} {kind}")
    draw = {
        "binary": lambda: float(rng.random() < 0.6),
        "tenths": lambda: rng.randrange(11) / 10,
        "graded": rng.random,
        "rare changes": lambda: 1.0 if rng.random() < 0.9 else rng.random(),
    }[kind]
    for _ in range(6):
        head = [draw() for _ in range(n)]
        candidate = [
            old if rng.random() < 0.5 else max(old, draw()) if rng.random() < 0.7 else draw()
            for old in head
        ]
        assert_never_lost_but_accepted(head, candidate)


def test_rounding_in_the_full_gate_never_makes_the_curtailed_gate_the_stricter_one():
    """Gains of 1 / 256, which the full gate rounds up by a third, to 2 / 256 of 0.666."""
    head = [0.0] * 3 + [0.666] * 4 + [0.5] * 300 + [1.0] * 5
    candidate = [0.666] * 3 + [0.0] * 4 + [0.5 + 1 / 256] * 300 + [1.0] * 5
    assert_never_lost_but_accepted(head, candidate)


def test_gate_of_graded_rewards_stops_before_the_end_when_the_bar_is_out_of_reach():
    rng = random.Random(8)
    before, after = graded(rng, 200, 0.01, 0.1)
    assert 0.5 < probability_of_gain(before, after) < 0.9
    gate, finished = finish(before, after, 0.97)
    assert finished < 200
    assert gate.total_gain > 0
    assert gate.probability <= 0.97


def test_gate_of_six_hundred_tasks_stops_on_a_few_losses():
    head = [0.5] * 3 + [1.0] * 600
    candidate = [0.75, 0.75, 1.0] + [1.0] * 100 + [0.75] * 2 + [1.0] * 498
    assert finish(head, candidate, 0.95)[1] < 110
