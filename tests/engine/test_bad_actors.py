"""What `run`, `propose`, `reward` and the listeners owe a run, and the tasks they are given."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from agentdescent import ProposalContractError, RewardContractError, Task
from agentdescent.core.events import RunEnded
from support.refusals import broken, refused
from support.toy import HiddenRules

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def world():
    return HiddenRules(rules=2, per_rule=4)


@pytest.fixture
def evolve_world(evolve_under, world):
    """A run of the world, with some arguments of one's own."""

    async def attempt(**options):
        tasks = options.pop("tasks", world.tasks)
        reward = options.pop("reward", world.reward)
        options = {"run": world.run, "propose": world.propose, "rounds": 3, **options}
        return await evolve_under(tasks, reward, **options)

    return attempt


@pytest.fixture
def refusal(evolve_world, world):
    """The text in which arguments are refused."""

    async def attempt(kind, **options):
        return await refused(kind, evolve_world(**options), world)

    return attempt


def held_out_ids(world):
    return {task.id for task in world.tasks[5:]}


async def two(rendered, task):
    raise AssertionError("nobody calls this")


async def three(a, b, c):
    raise AssertionError("nobody calls this")


def one(a):
    raise AssertionError("nobody calls this")


class Mute:
    """Callable with nothing at all."""

    async def __call__(self):
        raise AssertionError("nobody calls this")


@pytest.mark.asyncio
@pytest.mark.parametrize("wrong", [one, Mute(), lambda: None, three])
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("run", "run(rendered, task)"),
        ("propose", "propose(rendered, task, output, reward)"),
        ("reward", "reward(task, output)"),
    ],
)
async def test_an_actor_with_the_wrong_parameters_is_refused(refusal, name, form, wrong):
    text = await refusal(TypeError, **{name: wrong})

    assert text.startswith(f"{name} must be callable as {form}, but it is {name}(")


@pytest.mark.asyncio
@pytest.mark.parametrize("wrong", [two, lambda: None])
@pytest.mark.parametrize(
    ("name", "form"), [("on_round", "on_round(info)"), ("on_event", "on_event(event)")]
)
async def test_a_listener_with_the_wrong_parameters_is_refused(refusal, name, form, wrong):
    text = await refusal(TypeError, **{name: wrong})

    assert text.startswith(f"{name} must be callable as {form}, but it is {name}(")


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["run", "propose", "reward", "on_round", "on_event"])
@pytest.mark.parametrize("value", [7, {"text": "be brief"}])
async def test_what_cannot_be_called_is_refused(refusal, name, value):
    text = await refusal(TypeError, **{name: value})

    assert text.startswith(f"{name} must be a function of the form {name}(")
    assert text.endswith(f"got {type(value).__name__} {value!r}")


@pytest.mark.asyncio
async def test_one_bad_listener_among_good_ones_is_refused(refusal):
    text = await refusal(TypeError, on_event=[lambda event: None, 7])

    assert "got int 7" in text


@pytest.mark.asyncio
async def test_a_callable_that_cannot_be_looked_into_is_let_through(evolve_world):
    class Opaque:
        __signature__ = "unreadable"

        def __call__(self, task, output):
            return 1.0

    result = await evolve_world(reward=Opaque())

    assert result.final_reward == 1.0


class Half:
    """Solves and never reflects."""

    solve = staticmethod(two)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "there is no run: no agent is given"),
        ({"run": two}, "there is no propose: no agent is given"),
        ({"agent": Half()}, "there is no propose: agent=Half has no method propose"),
        ({"agent": object()}, "there is no run: agent=object has no method solve"),
    ],
)
async def test_a_missing_half_of_the_actor_is_named(refusal, options, what):
    text = await refusal(ValueError, **{"run": None, "propose": None, **options})

    assert text == (f"{what}; give agent= with solve and propose, or both run= and propose=")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("value", "tells"),
    [
        (47, ["47.0", "outside [0, 1]", "normalise"]),
        (-0.01, ["-0.01", "outside [0, 1]", "normalise"]),
        (1 + 1e-5, ["1.00001", "outside [0, 1]"]),
        (math.nan, ["nan", "outside [0, 1]"]),
        (math.inf, ["inf", "outside [0, 1]"]),
        (10**400, ["a number in [0, 1]", "int 1000", "return a float"]),
        ("excellent", ["a number in [0, 1]", "str 'excellent'", "return a float"]),
        (None, ["a number in [0, 1]", "NoneType None"]),
        ([1.0], ["a number in [0, 1]", "list [1.0]"]),
        (1j, ["a number in [0, 1]", "complex 1j"]),
    ],
)
async def test_a_reward_that_is_none_ends_the_run_at_the_first_one(
    evolve_world, world, value, tells
):
    error = await broken(RewardContractError, evolve_world(reward=lambda task, output: value))

    text = str(error)
    assert [word for word in tells if word not in text] == []
    assert any(repr(name) in text for name in held_out_ids(world))
    assert isinstance(error, ValueError)
    assert world.count("propose") == 0
    assert error.partial_result is None


@pytest.mark.asyncio
async def test_listeners_hear_how_a_run_with_a_broken_contract_ended(evolve_world):
    heard = []

    await broken(
        RewardContractError,
        evolve_world(reward=lambda task, output: 47, on_event=[heard.append, print]),
    )

    (ended,) = [event for event in heard if isinstance(event, RunEnded)]
    assert ended == heard[-1]
    assert ended.result.stop_reason == "error"
    assert ended.result.error.startswith("RewardContractError: reward returned 47.0 for task ")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("value", "means"),
    [
        (True, 1.0),
        (False, 0.0),
        (1, 1.0),
        (1 + 1e-9, 1.0),
        (-1e-9, 0.0),
        ("0.5", 0.5),
        (np.float32(0.5), 0.5),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
    ],
)
async def test_a_reward_is_whatever_reads_as_a_number_in_range(evolve_world, value, means):
    result = await evolve_world(reward=lambda task, output: value)

    assert (result.initial_reward, result.final_reward) == (means, means)


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [["add a rule"], 7, b"add a rule", {"rule": "x"}, 0, False])
async def test_a_proposal_that_is_no_text_ends_the_run(evolve_world, world, answer):
    async def propose(rendered, task, output, reward):
        return answer

    error = await broken(ProposalContractError, evolve_world(propose=propose))

    text = str(error)
    assert f"{type(answer).__name__} {answer!r}" in text
    assert "a string or None" in text
    assert any(repr(task.id) in text for task in world.tasks[:5])
    assert isinstance(error, TypeError)


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [None, "", "  \n"])
async def test_no_proposal_is_no_mistake(evolve_world, answer):
    async def propose(rendered, task, output, reward):
        return answer

    result = await evolve_world(propose=propose)

    assert result.error is None
    assert result.state == {}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "extra",
    [[1, 2], {"a", "b"}, {"deep": [{"er": None}]}, math.nan, object(), one, b"\xff", "\udcff"],
)
async def test_a_task_may_carry_anything(evolve_world, world, extra):
    tasks = [Task(task.id, task.prompt, {**task.meta, "extra": extra}) for task in world.tasks]

    result = await evolve_world(tasks=tasks)

    assert result.final_reward == 1.0


@pytest.mark.asyncio
async def test_tasks_that_differ_in_meta_alone_are_told_apart(evolve_world):
    class Shy(HiddenRules):
        @property
        def tasks(self):
            return [Task(task.id, "", task.meta) for task in super().tasks]

    world = Shy(rules=2, per_rule=4)

    result = await evolve_world(tasks=world.tasks)

    assert result.final_reward == 1.0
