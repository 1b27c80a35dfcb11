import functools

import pytest

from agentdescent.core.contracts import reflect_of
from agentdescent.core.reflection import Reflection
from agentdescent.core.task import Task


class Told:
    async def propose(self, rendered, task, output, reward):
        return "asked"

    async def reflect(self, reflection):
        return "told"

    def other(self, rendered, task, output, reward):
        return "other"


class OwnPropose(Told):
    async def propose(self, rendered, task, output, reward):
        return "mine"


class Both(OwnPropose):
    async def reflect(self, reflection):
        return "mine too"


class Called:
    def __call__(self, rendered, task, output, reward):
        return "asked"

    def reflect(self, told):
        return "told"


class Helper(Told):
    def reflect(self, rendered, task):
        return "no business of a run"


def test_metadata_is_that_of_the_task():
    reflection = Reflection("text", {}, 3, Task("1", "?", {"gold": "42"}), "41", 0.0)

    assert reflection.meta == {"gold": "42"}
    assert (reflection.feedback, reflection.rejected, reflection.others) == ("", (), ())


@pytest.mark.parametrize("actor", [Told(), Both()])
def test_an_actor_that_offers_it_is_told(actor):
    assert reflect_of(actor.propose) == actor.reflect


def test_an_object_that_is_called_is_told_as_well():
    propose = Called()

    assert reflect_of(propose) == propose.reflect


def test_a_function_may_carry_it():
    def propose(rendered, task, output, reward):
        return None

    propose.reflect = lambda reflection: "told"

    assert reflect_of(propose) is propose.reflect


@pytest.mark.parametrize(
    "propose",
    [
        lambda rendered, task, output, reward: None,
        functools.partial(Told().propose),
        OwnPropose().propose,
        Told().other,
        Helper().propose,
        len,
    ],
)
def test_everything_else_is_asked(propose):
    assert reflect_of(propose) is None


def test_a_propose_set_on_the_object_is_asked():
    actor = Called()
    actor.propose = lambda rendered, task, output, reward: "set"

    assert reflect_of(actor.propose) is None


def test_one_whose_form_cannot_be_read_is_told():
    propose = Called()
    propose.reflect = min

    assert reflect_of(propose) is min
