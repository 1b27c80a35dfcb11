"""The first example learns through its artifact, from training tasks alone, whatever is asked."""

import dataclasses
import importlib.util
from decimal import ROUND_HALF_UP
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "cents.py"


@pytest.fixture(scope="module")
def cents():
    spec = importlib.util.spec_from_file_location("cents", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_learns_the_convention_from_nothing(cents):
    result = cents.learn(cents.load())

    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert result.stop_reason == "target_reward"
    assert "whole cents" in result.rendered


def test_an_agent_that_ignores_the_artifact_gains_nothing(cents):
    result = cents.learn(cents.load(), run=lambda prompt, task: cents.solve("", task))

    assert (result.final_reward, dict(result.state)) == (0.0, {})
    assert set(result.outcomes()) == {"no-gain"}


def test_another_convention_is_learnt_as_well(cents):
    def in_mills(task):
        exact = cents.work_out(task.prompt) * 1000
        return dataclasses.replace(task, meta={"gold": str(exact.quantize(1, ROUND_HALF_UP))})

    result = cents.learn([in_mills(task) for task in cents.load()])

    assert result.final_reward == 1.0
    assert "whole mills" in result.rendered
    assert "Round to the nearest one" in result.rendered


def test_the_wrong_convention_scores_nothing(cents):
    dollars = {"unit": "Give amounts in whole dollars, the number alone."}

    result = cents.learn(cents.load(), propose=lambda *_: None, initial_state=dollars, rounds=1)

    assert result.final_reward == 0.0


def test_the_reflector_sees_training_tasks_only(cents):
    seen = []

    def watched(prompt, task, output, reward):
        seen.append(task.id)
        return cents.reflect(prompt, task, output, reward)

    cents.learn(cents.load(), propose=watched)

    assert seen
    assert set(seen) <= {task.id for task in cents.load()[:24]}
