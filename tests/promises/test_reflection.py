"""The stock reflector in whole runs: it asks for what the strategy reads, and loses nothing."""

import json
import re

import pytest

from agentdescent import (
    AppendRules,
    FewShot,
    KeyedRules,
    Scored,
    SingleSlot,
    evolve,
    reflector,
)
from agentdescent.agents.pruning import pruning
from support import pens
from support.pens import tasks

PROMPT = "You are a careful accountant. Never guess. Cite no sources."


def run(rendered, task):
    return pens.answer(rendered, task.prompt)


def reward(task, output):
    right = output == task.meta["gold"]
    return Scored(float(right), "" if right else "The unit is wrong.")


def shown(tag, prompt):
    return re.search(rf"<{tag}>\n(.*?)\n</{tag}>", prompt, re.DOTALL)[1]


def learn(think, strategy, **options):
    model = pens.Model(think)
    options = {"target_reward": 1.0, "max_rollouts": 24, "propose": reflector(model)} | options
    result = evolve(tasks, reward, run=run, strategy=strategy, **options)
    return result, model.prompts


def obedient(prompt):
    """A model that does as it is told: it rewrites, names a category, or gives one rule."""
    if "complete rewritten text" in prompt:
        return f"{shown('artifact', prompt)} {pens.RULE}"
    return pens.reflect(prompt)


@pytest.mark.parametrize("schedule", [{}, {"asynchronous": True, "max_seconds": 10.0}])
def test_a_prompt_of_your_own_survives_its_first_commit(schedule):
    result, _ = learn(obedient, SingleSlot(PROMPT), max_rollouts=40, **schedule)

    assert result.final_reward == 1.0
    assert result.rendered == f"{PROMPT} {pens.RULE}"


def test_rules_land_in_their_category():
    result, _ = learn(obedient, KeyedRules(["Fmt", "Routing"]))

    assert dict(result.state) == {"fmt": pens.RULE}


def test_few_shot_examples_are_picked():
    def example(prompt):
        assert "JSON object" in prompt
        question = shown("input", prompt)
        gold = re.search(r"gold='(\d+)'", prompt)[1]
        return "```json\n" + json.dumps({"input": question, "output": f"{gold} cents"}) + "\n```"

    result, _ = learn(example, FewShot(4))

    assert result.final_reward == 1.0
    assert "cents" in result.rendered


def test_a_sentence_that_begins_with_none_is_learnt():
    rule = f"Nonetheless, {pens.RULE}"

    result, _ = learn(lambda prompt: rule, AppendRules())

    assert result.rendered == f"# Playbook\n- {rule}"


@pytest.mark.parametrize(
    "reply", [f"Rule: {pens.RULE}", f'"{pens.RULE}"', f"```\n{pens.RULE}\n```"]
)
def test_packaging_is_not_learnt(reply):
    result, _ = learn(lambda prompt: reply, AppendRules())

    assert list(result.state.values()) == [pens.RULE]


def test_a_reflector_that_says_nothing_is_seen():
    with pytest.warns(RuntimeWarning, match="empty completion .*max_tokens"):
        result, prompts = learn(lambda prompt: "", AppendRules(), rounds=3)

    assert result.outcomes() == {"no-proposal": len(prompts)}
    assert result.final_reward == 0.0


def test_what_was_tried_and_what_the_scorer_said_are_shown():
    def think(prompt):
        return pens.RULE if "Answer politely." in prompt else "Answer politely."

    result, prompts = learn(think, AppendRules(), n_workers=1)

    assert result.final_reward == 1.0
    assert all("<feedback>\nThe unit is wrong.\n</feedback>" in prompt for prompt in prompts)
    assert "<rejected>" not in prompts[0]
    assert "on its own task by +0.000:\n<rejected>\nAnswer politely.\n</rejected>" in prompts[1]


def test_failures_are_shown_together():
    _, prompts = learn(lambda prompt: "NONE", AppendRules(), reflect_batch=3, n_workers=1, rounds=4)

    inputs = [set(re.findall(r"What do \d+ pens cost", prompt)) for prompt in prompts]
    assert [len(found) for found in inputs] == [1, 2, 3, 3]


@pytest.mark.parametrize("propose", [reflector, lambda model: pruning(reflector(model), every=1)])
def test_a_rule_that_does_harm_is_removed(propose):
    def think(prompt):
        return "REMOVE: Answer in verse." if "- Answer in verse." in prompt else pens.RULE

    def run(rendered, task):
        return "O pens!" if "verse" in rendered else pens.answer(rendered, task.prompt)

    strategy = AppendRules(prune=True)
    harmful = {
        key: rule
        for text in ("Answer in verse.", pens.RULE)
        for key, rule in strategy.to_diff({}, text, "me", 1, "artifact").ops.items()
    }
    result = evolve(
        tasks,
        reward,
        run=run,
        propose=propose(pens.Model(think)),
        strategy=strategy,
        initial_state=harmful,
        rounds=6,
        target_reward=1.0,
    )

    assert result.initial_reward == 0.0
    assert result.rendered == f"# Playbook\n- {pens.RULE}"
    assert result.final_reward == 1.0
