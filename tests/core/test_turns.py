"""Turns: what may be yielded, and what waits to be gone on with."""

import json
from functools import partial

import pytest

from agentdescent import Turn
from agentdescent.core.turns import Course, Cut, check_generators, has_turns
from agentdescent.errors import ContractError
from agentdescent.scheduling import ResumeItem, ResumeQueue


async def turns(rendered, task, resume=None):
    yield Turn(output=rendered)


async def once(rendered, task):
    return rendered


def item(task_id, turn=1):
    return ResumeItem(task_id, turn, {"said": [task_id]}, None, 3)


class Actor:
    async def solve(self, rendered, task, resume=None):
        yield Turn(output=rendered)

    async def __call__(self, rendered, task, resume=None):
        yield Turn(output=rendered)


@pytest.mark.parametrize("run", [turns, Actor(), Actor().solve, partial(turns, resume=None)])
def test_async_generators_expose_turns(run):
    assert has_turns(run)


@pytest.mark.parametrize("run", [once, lambda rendered, task: rendered, partial(once), Actor])
def test_everything_else_does_not(run):
    assert not has_turns(run)


def test_the_last_turn_is_the_one_with_the_output():
    assert not Turn({"said": []}).is_last
    assert not Turn(None).is_last
    assert Turn(output=None).is_last


def test_a_run_with_turns_and_plain_functions_are_let_through():
    check_generators(turns, once)
    check_generators(once, once)


class TestQueue:
    def test_first_in_first_out(self):
        queue = ResumeQueue()
        queue.push(item("a"))
        queue.push(item("b"))

        assert [queue.pop(), queue.pop(), queue.pop()] == [item("a"), item("b"), None]

    def test_the_oldest_of_some_tasks(self):
        queue = ResumeQueue()
        for name in "abc":
            queue.push(item(name))

        assert queue.pop({"c", "b"}) == item("b")
        assert queue.pop({"z"}) is None
        assert len(queue) == 2

    def test_twice_the_usual_is_too_long(self):
        assert ResumeQueue().should_checkpoint(2.1, 1.0)
        assert not ResumeQueue().should_checkpoint(2.0, 1.0)
        assert ResumeQueue(p90_multiplier=1.5).should_checkpoint(1.6, 1.0)

    def test_it_outlives_its_process(self):
        queue, again = ResumeQueue(), ResumeQueue()
        queue.push(item("a"))
        queue.push(item("b", turn=7))

        again.restore(json.loads(json.dumps(queue.dump())))

        assert [again.pop(), again.pop()] == [item("a"), item("b", turn=7)]

    def test_a_senseless_multiplier_is_refused(self):
        with pytest.raises(ValueError, match="p90_multiplier must be above 0, got 0"):
            ResumeQueue(p90_multiplier=0)


class TestCourse:
    def test_without_a_turn_there_is_nothing_to_go_on_with(self):
        assert Course("a", 1, None, lambda: False).checkpoint() is None
        assert Course("a", 1, item("a"), lambda: False).checkpoint() is None

    def test_turns_are_counted_over_cuts(self):
        course = Course("a", 9, item("a", turn=4), lambda: False)

        course.note(Turn("state"))

        assert course.options == {"resume": {"said": ["a"]}}
        assert course.checkpoint() == ResumeItem("a", 5, "state", None, 9)

    def test_what_happens_to_a_state_later_does_not_matter(self):
        course, said = Course("a", 1, None, lambda: False), ["hello"]

        course.note(Turn(said))
        said.append("half a turn")

        assert course.checkpoint().conversation == ["hello"]

    def test_one_that_is_overdue_is_cut_with_its_turn_kept(self):
        course = Course("a", 1, None, lambda: True)

        with pytest.raises(Cut):
            course.note(Turn(1))

        assert course.checkpoint().conversation == 1

    @pytest.mark.parametrize("state", [{1, 2}, float("nan"), object()])
    def test_a_state_that_is_no_json_is_refused(self, state):
        with pytest.raises(ContractError, match="the state that run yielded for task 'a' is no"):
            Course("a", 1, None, lambda: False).note(Turn(state))
