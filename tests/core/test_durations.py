"""How long rollouts take: lines through observations, who goes first, and who is overdue."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Task
from agentdescent.core.durations import Durations, longest_first
from agentdescent.scheduling import DurationEstimator, fifo_makespan, lpt_schedule

weights = st.lists(st.integers(0, 50), max_size=12)


def observed(*pairs, **options):
    estimator = DurationEstimator(**options)
    for size, seconds in pairs:
        estimator.observe(size, seconds)
    return estimator


class TestEstimator:
    def test_nothing_known_is_the_prior(self):
        assert DurationEstimator().params == (0.05, 0.0)
        assert DurationEstimator(prior=2.0).estimate(100) == 2.0

    def test_few_observations_are_their_mean(self):
        assert observed((1, 1.0), (9, 3.0)).estimate(100) == 2.0

    def test_equal_sizes_are_their_mean(self):
        assert observed((5, 1.0), (5, 2.0), (5, 6.0)).params == (3.0, 0.0)

    def test_a_line_is_found_exactly(self):
        estimator = observed(*((x, 1.0 + 2.0 * x) for x in range(1, 21)))

        assert estimator.params == pytest.approx((1.0, 2.0))
        assert estimator.estimate(100) == pytest.approx(201.0)

    def test_no_prediction_is_negative(self):
        assert observed((1, 9.0), (2, 5.0), (3, 1.0)).estimate(10) == 0.0

    def test_the_line_is_asked_for_after_so_many_samples(self):
        assert observed((0, 0.0), (1, 1.0), min_samples=2).estimate(5) == 5.0


class TestSchedule:
    def test_the_pinned_case(self):
        assignment, makespan = lpt_schedule([5, 4, 3, 2, 1], 2)

        assert makespan == 8
        assert assignment == [[0, 3, 4], [1, 2]]
        assert fifo_makespan([5, 4, 3, 2, 1], 2) == 9.0

    def test_of_equals_the_earlier_goes_first(self):
        assert longest_first([1, 3, 1, 3]) == [1, 3, 0, 2]

    def test_nothing_to_do_takes_no_time(self):
        assert lpt_schedule([], 2) == ([[], []], 0.0)
        assert fifo_makespan([], 2) == 0.0

    @pytest.mark.parametrize("share", [lpt_schedule, fifo_makespan])
    def test_somebody_has_to_do_the_work(self, share):
        with pytest.raises(ValueError, match="n must be at least 1, got 0"):
            share([1.0], 0)

    @given(weights, st.integers(1, 5))
    def test_every_item_is_done_once_within_the_bounds(self, weights, n):
        assignment, makespan = lpt_schedule(weights, n)

        assert sorted(place for places in assignment for place in places) == [*range(len(weights))]
        assert makespan == max(sum(weights[place] for place in places) for places in assignment)
        least = max([sum(weights) / n, *weights])
        assert sum(weights) / n <= makespan <= 2 * least

    @given(weights)
    def test_one_does_it_all(self, weights):
        assert lpt_schedule(weights, 1)[1] == fifo_makespan(weights, 1) == sum(weights)


class TestDurations:
    def seen(self, *seconds):
        durations = Durations()
        for number, taken in enumerate(seconds):
            durations.note(Task(str(number), "p"), taken)
        return durations

    def test_a_known_task_takes_as_long_as_last_time(self):
        durations = self.seen(3.0, 1.0)
        durations.note(Task("0", "p"), 5.0)

        assert durations.predict(Task("0", "p")) == 5.0

    def test_an_unknown_task_is_judged_by_its_size(self):
        durations = Durations()
        for length in (10, 20, 30):
            durations.note(Task(str(length), "x" * length), length / 10)

        assert durations.predict(Task("new", "x" * 40)) == pytest.approx(4.0)

    def test_nobody_is_overdue_before_ten_were_seen(self):
        assert not self.seen(*[1.0] * 9).is_overdue(Task("new", "p"), math.inf)

    def test_twice_what_nine_in_ten_take_is_overdue(self):
        durations = self.seen(*[1.0] * 9, 4.0)

        assert durations.is_overdue(Task("1", "p"), 8.1)
        assert not durations.is_overdue(Task("1", "p"), 8.0)

    def test_a_task_that_takes_long_is_not_overdue_for_that(self):
        durations = self.seen(*[1.0] * 30, 50.0)

        assert durations.is_overdue(Task("0", "p"), 60.0)
        assert not durations.is_overdue(Task("30", "p"), 60.0)

    def test_instants_are_never_overdue(self):
        durations = self.seen(*[0.0001] * 20)

        assert not durations.is_overdue(Task("0", "p"), 0.1)
        assert durations.is_overdue(Task("0", "p"), 0.11)

    def test_what_was_long_ago_is_forgotten(self):
        durations = self.seen(*[9.0] * 100, *[1.0] * 256)

        assert durations.is_overdue(Task("300", "p"), 2.1)
