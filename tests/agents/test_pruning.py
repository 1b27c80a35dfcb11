import threading

import pytest

from agentdescent.agents.llm import LLMAgent, reflector
from agentdescent.agents.pruning import pruning
from agentdescent.core.reflection import Reflection, Rejection
from agentdescent.core.task import Task
from agentdescent.policy.strategies import AppendRules, SingleSlot
from agentdescent.testing import FakeCompletion

pytestmark = pytest.mark.asyncio

RULES = {"r1": "Be brief.", "r2": "Be kind.", "r3": "Answer in verse."}


def told(task="7", state=RULES, **more):
    return Reflection("# Playbook", state, 3, Task(task, "?"), "out", 0.0, **more)


async def plain(rendered, task, output, reward):
    return f"asked about {task.id}"


async def test_it_leaves_out_each_rule_about_every_so_often():
    answers = [await pruning(plain, every=4).reflect(told(f"t{n}")) for n in range(400)]

    removals = [answer for answer in answers if answer.startswith("REMOVE: ")]
    assert set(removals) == {f"REMOVE: {rule}" for rule in RULES.values()}
    assert 60 <= len(removals) <= 140


async def test_the_same_failure_leaves_out_the_same_rule():
    one, two = pruning(plain, 1), pruning(plain, 1)

    assert await one.reflect(told()) == await two.reflect(told())


async def test_a_removal_that_was_rejected_is_not_proposed_again():
    propose = pruning(plain, 1)
    removal = await propose.reflect(told())

    again = await propose.reflect(told(rejected=[Rejection(removal, "no-gain", 0.0)]))

    assert removal.startswith("REMOVE: ")
    assert again == "asked about 7"


async def test_without_rules_it_asks():
    assert await pruning(plain, 1).reflect(told(state={})) == "asked about 7"
    assert await pruning(plain, 1)("# Playbook", Task("7", "?"), "out", 0.0) == "asked about 7"


async def test_a_plain_function_is_asked_in_a_thread():
    def propose(rendered, task, output, reward):
        return threading.current_thread().name

    assert await pruning(propose).reflect(told(state={})) == "agentdescent"


async def test_one_who_can_be_told_is_told():
    model = FakeCompletion(["Answer in cents."])

    for propose in (reflector(model), LLMAgent(model).propose):
        await pruning(propose).reflect(told(state={}, feedback="Wrong unit."))
        assert "Wrong unit." in model.prompts[-1]


async def test_it_is_bound_to_a_strategy_with_the_one_it_asks():
    model = FakeCompletion(["Answer in cents."])
    bound = pruning(reflector(model)).bind_strategy(SingleSlot("start"))

    await bound("start", Task("7", "?"), "out", 0.0)

    assert "complete rewritten text" in model.prompts[0]
    assert pruning(plain).bind_strategy(AppendRules()) == pruning(plain)


async def test_it_must_be_now_and_then():
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        pruning(plain, 0)


async def test_what_it_asks_must_be_a_propose():
    with pytest.raises(TypeError, match="propose must be callable as"):
        pruning(lambda rendered: None)
