"""The world of the demo can be learnt through the artifact alone; a wrong convention earns 0."""

from decimal import Decimal

import pytest

from agentdescent import KeyedRules, evolve
from agentdescent.cli.problems import (
    CATEGORIES,
    CONVENTIONS,
    PROMPT,
    convention_of,
    problems,
    reflect,
    reward,
    solve,
    work_out,
)

SEEDS = range(4)


def learn(seed, run=solve, tasks=None):
    return evolve(
        tasks or problems(convention_of(seed), seed),
        reward,
        run=run,
        propose=reflect,
        strategy=KeyedRules(CATEGORIES, PROMPT, allow_new=False),
        rounds=12,
        target_reward=1.0,
    )


def score(prompt, tasks):
    return sum(reward(task, solve(prompt, task)) for task in tasks) / len(tasks)


def test_four_seeds_in_a_row_draw_all_conventions():
    assert {convention_of(seed) for seed in range(7, 11)} == set(CONVENTIONS)


def test_the_first_convention_is_whole_cents():
    assert convention_of(0).unit == "whole cents"
    assert all(task.meta["gold"].isdigit() for task in problems(convention_of(0), 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_convention_is_learnt_from_nothing(seed):
    result = learn(seed)

    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert result.stop_reason == "target_reward"


@pytest.mark.parametrize("seed", SEEDS)
def test_another_convention_than_the_scorers_scores_nothing(seed):
    learnt = learn(seed).rendered
    others = [convention for convention in CONVENTIONS if convention is not convention_of(seed)]

    assert [score(learnt, problems(other, seed)) for other in others] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_agent_that_does_not_read_the_artifact_learns_nothing(seed):
    result = learn(seed, run=lambda _prompt, task: solve(PROMPT, task))

    assert (result.final_reward, dict(result.state)) == (0.0, {})


def test_wrong_guesses_are_turned_down_by_the_gate():
    outcomes = [learn(seed).outcomes() for seed in SEEDS]

    assert sum(tally.get("below-threshold", 0) for tally in outcomes) > 0


@pytest.mark.parametrize(
    ("problem", "dollars"),
    [
        ("4 friends share a bill of $10.00 equally. What does each pay?", "2.5"),
        ("A pack of 3 mugs costs $12.00. What does one cost?", "4"),
        ("A mug costs $20.00 and is 15% off. What is the price now?", "17"),
        ("A mug costs $20.00. What do 3 cost with a discount of 10%?", "54"),
        ("A meal costs $30.00. What is a tip of 20%?", "6"),
    ],
)
def test_problems_are_worked_out(problem, dollars):
    assert work_out(problem) == Decimal(dollars)


def test_a_task_that_no_known_convention_explains_gets_no_proposal():
    task = problems(convention_of(0), 0)[0]
    strange = type(task)(task.id, task.prompt, {"gold": "plenty"})

    assert reflect(PROMPT, strange, "", 0.0) is None


def test_rules_nobody_understands_are_ignored():
    task = problems(convention_of(0), 0)[0]

    assert solve("Give amounts in shells, the number alone.", task) == solve(PROMPT, task)
