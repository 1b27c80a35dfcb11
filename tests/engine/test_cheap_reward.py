"""A cheap reward ranks rivals, and the reward decides; judges and parts in whole runs."""

import json
import re
from collections import Counter
from random import Random

import anyio
import pytest

from agentdescent import (
    DifficultyWeighted,
    EvolutionResult,
    RewardContractError,
    Scored,
    SingleSlot,
    Task,
    async_evolve,
    evolve,
    llm_judge,
)
from agentdescent.calls import Role, current_role
from agentdescent.rewards import exact_match, length_penalty, weighted

TASKS = [Task(f"t{n}", f"say {n}", {"gold": str(n)}) for n in range(10)]
ANSWERS = {"start": 0.0, "good": 0.5, "better": 1.0, "bad": 0.0, "worse": 0.0}


class Rivals:
    """Workers who propose "good" and "better" by turns; the outputs are the artifact and the task.

    Attributes:
        runs: How often each artifact was run on each task.
        dear: What the reward scored, and `cheap` what the cheap one did.
    """

    def __init__(self, likes="better"):
        self.likes = likes
        self.runs = Counter()
        self.dear = Counter()
        self.cheap = Counter()
        self.roles = set()
        self.turn = 0

    async def run(self, rendered, task):
        self.runs[rendered, task.id] += 1
        await anyio.sleep(0)
        return f"{rendered} {task.id}"

    async def propose(self, rendered, task, output, reward):
        self.turn += 1
        return ("good", "better")[self.turn % 2] if rendered == "start" else None

    async def reward(self, task, output):
        self.dear[output] += 1
        return ANSWERS[output.split()[0]]

    async def cheaply(self, task, output):
        self.cheap[output] += 1
        self.roles.add(current_role())
        return 1.0 if output.split()[0] == self.likes else 0.2

    def evolve(self, **options):
        return async_evolve(
            TASKS,
            self.reward,
            run=self.run,
            propose=self.propose,
            strategy=SingleSlot(initial_value="start"),
            asynchronous=False,
            n_workers=4,
            max_concurrency=4,
            rounds=1,
            self_verify=False,
            **options,
        )


def first_gated(world):
    """Whose outputs the reward scored first, but for those of the artifact it began with."""
    return next(output.split()[0] for output in world.dear if not output.startswith("start"))


@pytest.mark.asyncio
async def test_rivals_are_ranked_by_the_cheap_reward_alone():
    world = Rivals(likes="good")

    await world.evolve(cheap_reward=world.cheaply)

    assert first_gated(world) == "good"
    assert Counter(output.split()[0] for output in world.cheap.elements()) == {
        "good": 4,
        "better": 4,
    }


@pytest.mark.asyncio
async def test_an_output_that_both_score_is_run_once():
    world = Rivals()

    result = await world.evolve(cheap_reward=world.cheaply)

    assert result.rendered == "better"
    assert {count for (rendered, _), count in world.runs.items() if rendered != "start"} == {1}
    assert result.actor_calls == sum(world.runs.values()) + world.turn


@pytest.mark.asyncio
async def test_only_the_cheap_tasks_are_ranked_on():
    world = Rivals()

    await world.evolve(cheap_reward=world.cheaply, cheap_eval_tasks=1)

    assert world.cheap.keys() == {"start t6", "good t6", "better t6"}


@pytest.mark.asyncio
async def test_a_cheap_reward_accepts_nothing():
    world = Rivals(likes="worse")

    async def propose(rendered, task, output, reward):
        world.turn += 1
        return ("bad", "worse")[world.turn % 2]

    world.propose = propose
    result = await world.evolve(cheap_reward=world.cheaply)

    assert first_gated(world) == "worse"
    assert (result.rendered, result.final_reward) == ("start", 0.0)
    assert result.outcomes()["below-threshold"] >= 1


@pytest.mark.asyncio
async def test_a_run_without_rivals_never_asks_it():
    world = Rivals()

    async def propose(rendered, task, output, reward):
        return "better"

    world.propose = propose
    result = await world.evolve(cheap_reward=world.cheaply)

    assert result.rendered == "better"
    assert not world.cheap


@pytest.mark.asyncio
async def test_it_is_called_as_a_judge_and_counts_as_no_actor():
    world = Rivals()

    result = await world.evolve(cheap_reward=world.cheaply)

    assert world.roles == {Role.JUDGE}
    assert result.actor_calls == sum(world.runs.values()) + world.turn


def test_a_cheap_reward_of_the_wrong_form_is_refused():
    with pytest.raises(
        TypeError, match=r"cheap_reward must be callable as cheap_reward\(task, out"
    ):
        evolve(TASKS, exact_match(), run=print, propose=print, cheap_reward=lambda output: 1.0)


def test_a_cheap_reward_is_checked_against_every_task():
    with pytest.raises(RewardContractError, match=r"'t0'.*meta\['form'\]"):
        evolve(
            TASKS,
            exact_match(),
            run=lambda rendered, task: "",
            propose=lambda *_: None,
            cheap_reward=exact_match("form"),
        )


def test_a_cheap_reward_out_of_range_is_a_contract_error():
    world = Rivals()

    async def wild(task, output):
        return 47

    with pytest.raises(RewardContractError, match="47"):
        anyio.run(lambda: world.evolve(cheap_reward=wild))


@pytest.mark.asyncio
async def test_parts_of_the_final_artifact_are_kept_and_saved(tmp_path):
    world = Rivals()

    async def reward(task, output):
        value = ANSWERS[output.split()[0]]
        return Scored(value, "secret" + task.id, {"tone": value / 2, "n": float(task.id[1:])})

    world.reward = reward
    result = await world.evolve()

    assert result.rendered == "better"
    assert result.parts == {"n": 7.5, "tone": 0.5}
    result.save(tmp_path / "result.json")
    assert EvolutionResult.load(tmp_path / "result.json").parts == result.parts


@pytest.mark.asyncio
async def test_a_run_of_plain_rewards_has_no_parts():
    assert (await Rivals().evolve()).parts == {}


@pytest.mark.asyncio
async def test_feedback_on_held_out_tasks_reaches_no_reflector():
    world = Rivals()
    told = []

    class Listening:
        async def __call__(self, rendered, task, output, reward):
            raise AssertionError

        async def reflect(self, reflection):
            told.append(str(reflection))
            return "better" if reflection.rendered == "start" else "good"

    async def reward(task, output):
        return Scored(ANSWERS[output.split()[0]] * 0.9, f"remark on {task.id}")

    world.reward = reward
    world.propose = Listening()
    await world.evolve()

    remarks = set(re.findall(r"remark on t\d+", " ".join(told)))
    assert remarks
    assert remarks <= {f"remark on t{n}" for n in range(6)}


class JudgeModel:
    """Judges outputs by whether they end in the expected answer, and talks about it."""

    def __init__(self):
        self.prompts = []

    async def __call__(self, prompt):
        self.prompts.append(prompt)
        mark = re.search(r'"id": "(\w+)"', prompt)[1]
        expected, output = (
            re.search(rf"<{tag}-{mark}>\n(.*)\n</{tag}-{mark}>", prompt, re.DOTALL)[1]
            for tag in ("expected", "output")
        )
        right = 9 if output.endswith(f"= {expected}") else 2
        scores = {"correctness": right, "procedure": 9, "conciseness": 9}
        return "Well.\n" + json.dumps({"id": mark, "scores": scores, "reasons": "End in = n."})


def solve(rendered, task):
    return f"{task.prompt} = {task.meta['gold']}" if "= n" in rendered else task.prompt


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_judge_teaches_by_its_reasons_and_says_when_a_task_is_solved(asynchronous):
    asked = []

    class Listening:
        def __call__(self, rendered, task, output, reward):
            raise AssertionError

        def reflect(self, reflection):
            asked.append(reflection)
            return reflection.feedback

    model = JudgeModel()
    sampler = DifficultyWeighted()
    result = evolve(
        TASKS,
        llm_judge(model),
        run=solve,
        propose=Listening(),
        rounds=3,
        task_sampler=sampler,
        asynchronous=asynchronous,
        max_rollouts=12,
        max_seconds=15,
    )

    assert result.final_reward == pytest.approx(0.9)
    assert "End in = n." in result.rendered
    assert result.parts == {
        "conciseness": pytest.approx(0.9),
        "correctness": pytest.approx(0.9),
        "procedure": pytest.approx(0.9),
    }
    assert not [reflection for reflection in asked if "= n" in reflection.rendered]
    assert len(set(model.prompts)) == len(model.prompts)


def test_a_threshold_of_the_callers_own_wins_over_the_judges():
    asked = []

    def propose(rendered, task, output, reward):
        asked.append(reward)

    for threshold in (None, 0.95):
        asked.append(threshold)
        evolve(
            TASKS,
            llm_judge(JudgeModel()),
            run=lambda rendered, task: f"= {task.meta['gold']}",
            propose=propose,
            rounds=1,
            n_workers=1,
            solved_threshold=threshold,
        )

    assert asked == [None, 0.95, pytest.approx(0.9)]


def test_a_task_that_the_judge_cannot_judge_is_found_before_the_first_call():
    model = JudgeModel()

    with pytest.raises(RewardContractError, match="'t10'"):
        evolve(
            [*TASKS, Task("t10", "say 10")],
            weighted((length_penalty(llm_judge(model), free=10, zero_at=90), 1.0)),
            run=solve,
            propose=lambda *_: None,
        )

    assert model.prompts == []


def test_a_judge_without_a_verdict_is_a_failed_backend_and_no_reward():
    with pytest.warns(RuntimeWarning, match="stopped early"):
        result = evolve(
            TASKS,
            llm_judge(lambda prompt: "I cannot say."),
            run=solve,
            propose=lambda *_: None,
            rounds=2,
            n_workers=1,
            max_worker_errors=1,
        )

    assert result.error is not None
    assert result.error.startswith("JudgeError: the judge gave no verdict on task")
    assert result.initial_reward is None


def test_a_seeded_run_is_the_same_with_outputs_shared_as_with_none():
    def once(cheap):
        rng = Random(1)

        def propose(rendered, task, output, reward):
            return f"{rng.random():.3f}"

        return evolve(
            TASKS,
            lambda task, output: min(1.0, float(output)),
            run=lambda rendered, task: rendered,
            propose=propose,
            strategy=SingleSlot(initial_value="0.1"),
            rounds=4,
            cheap_reward=cheap,
        )

    plain, shared = once(None), once(lambda task, output: min(1.0, float(output)))

    assert plain.rendered == shared.rendered
    assert plain.outcomes() == shared.outcomes()
    assert plain.actor_calls == shared.actor_calls
