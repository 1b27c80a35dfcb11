"""Who works on the tasks and who reflects: `agent=`, or `run=` and `propose=`."""

import inspect

import pytest

from agentdescent import (
    LLMAgent,
    SingleSlot,
    Task,
    evolve,
    from_callable,
    reflector,
)
from support import pens
from support.pens import Model, claude, openai_compatible, reward, tasks


def test_tasks_reward_and_an_agent_are_all_it_takes():
    result = evolve(
        tasks,                                   # what to work on
        reward,                                  # how to score an output
        agent=LLMAgent(claude(model="claude-haiku-4-5")),
    )  # fmt: skip

    assert result.rendered == f"# Playbook\n- {pens.RULE}"
    assert result.final_reward == 1.0
    assert result.initial_reward == 0.0


def test_everything_else_is_optional_and_has_the_documented_default():
    parameters = inspect.signature(evolve).parameters
    documented = {
        "agent": None,
        "run": None,
        "propose": None,
        "strategy": None,
        "parallel": None,
        "task_sampler": None,
        "blast_radius": 0.2,
        "agg_config": None,
        "aggregator_factory": None,
        "staleness_policy": None,
        "refresh_interval": 1,
        "rounds": None,
        "n_workers": 4,
        "max_concurrency": 1,
        "round_timeout": None,
        "async_ratio": 3,
        "self_verify": True,
        "on_round": None,
        "target_reward": None,
        "patience": None,
        "max_worker_errors": 3,
        "oracle_budget": 200,
        "cheap_eval_tasks": None,
        "repo_path": None,
    }

    assert list(parameters)[:2] == ["tasks", "reward"]
    assert {name: parameters[name].default for name in documented} == documented


@pytest.mark.filterwarnings("ignore:asynchronous=True ignores max_concurrency")
@pytest.mark.filterwarnings("ignore:max_seconds=None becomes 20")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_of_your_own_takes_three_lines_and_one_switch(asynchronous):
    prompts = []

    def my_agent(system_prompt, question):  # whatever you already have
        prompts.append(system_prompt)
        return pens.answer(system_prompt, question)

    result = evolve(
        tasks, reward,
        run=lambda rendered, task: my_agent(rendered, task.prompt),   # adapt it
        propose=reflector(claude(model="claude-haiku-4-5")),          # who reflects
        strategy=SingleSlot(initial_value="Answer concisely."),       # what evolves
        n_workers=4, max_concurrency=4,        # ...in parallel
        asynchronous=asynchronous,             # ...or barrier-free
    )  # fmt: skip

    assert prompts[0] == "Answer concisely."
    assert result.rendered == pens.RULE
    assert result.final_reward == 1.0
    assert result.error is None


def test_the_reflector_may_be_another_model_than_the_agents():
    strong, cheap = Model(), Model()

    evolve(
        tasks,
        reward,
        run=lambda rendered, task: strong(f"{rendered}\n\nQ: {task.prompt}"),
        propose=reflector(cheap),
        rounds=2,
    )

    assert all("Q: What do" in prompt for prompt in strong.prompts)
    assert all("out of 1.0" in prompt for prompt in cheap.prompts)


class TestMeta:
    task = Task(id="7", prompt="What do 7 pens cost?", meta={"gold": "2800"})  # cents # fmt: skip

    async def shown(self, task=task, **options):
        model = Model()
        await reflector(model, **options)("Answer concisely.", task, "$28.00", 0.0)
        (prompt,) = model.prompts
        return prompt

    @pytest.mark.asyncio
    async def test_the_reflector_is_shown_it(self):
        prompt = await self.shown()

        assert "gold='2800'" in prompt
        assert all(text in prompt for text in ("What do 7 pens cost?", "$28.00", "0.00 out of 1.0"))

    @pytest.mark.asyncio
    async def test_it_is_told_to_speak_in_general_terms(self):
        prompt = await self.shown()

        assert "speak in general terms" in prompt
        assert "do NOT mention values, names or the answer of this task" in prompt

    @pytest.mark.asyncio
    async def test_a_whole_document_in_it_is_truncated(self):
        task = Task("7", "What do 7 pens cost?", {"gold": "2800", "page": "x" * 10_000})

        default, short = await self.shown(task), await self.shown(task, meta_chars=20)

        assert 500 < default.count("x") < 600
        assert "gold='2800'" in short
        assert short.count("x") < 20

    @pytest.mark.asyncio
    async def test_it_can_be_withheld(self):
        assert "2800" not in await self.shown(show_meta=False)

    def test_a_blind_reflector_finds_no_convention_that_it_cannot_guess(self):
        def learn(reflector):
            return evolve(
                tasks,
                reward,
                run=lambda rendered, task: pens.answer(rendered, task.prompt),
                propose=reflector,
                strategy=SingleSlot(initial_value="You are a helpful assistant."),
                rounds=8,
                target_reward=1.0,
            )

        blind = learn(reflector(Model(), show_meta=False))
        reading = learn(reflector(Model()))

        assert blind.final_reward == blind.initial_reward
        assert blind.outcomes() == {"no-gain": 8 * 4}
        assert reading.final_reward == 1.0
        assert len(reading.history) == 1


@pytest.mark.parametrize(
    "completion",
    [
        claude(model="claude-haiku-4-5"),  # Claude
        openai_compatible(model="glm-4.6"),  # GLM / OpenAI-style
        from_callable(pens.think),  # any prompt->text fn
    ],
)
def test_any_completion_makes_an_agent(completion):
    result = evolve(tasks, reward, agent=LLMAgent(completion), rounds=2)

    assert result.final_reward == 1.0


def test_two_plain_functions_do_without_any_model():
    def my_solver(rendered, task):
        return pens.answer(rendered, task.prompt)

    def my_lesson(task, out):
        return f"Not {out[0]}, but cents." if out.startswith("$") else None

    result = evolve(tasks, reward,
                    run=lambda rendered, task: my_solver(rendered, task),  # noqa: PLW0108
                    propose=lambda rendered, task, out, score: my_lesson(task, out))  # fmt: skip

    assert result.rendered == "# Playbook\n- Not $, but cents."
    assert result.final_reward == 1.0


def test_an_explicit_function_beats_the_agents():
    agent = LLMAgent(Model())
    proposed = []

    def propose(rendered, task, output, reward):
        proposed.append(task.id)
        return "Count in cents."

    result = evolve(tasks, reward, agent=agent, propose=propose, rounds=1)

    assert len(proposed) == 4
    assert result.rendered == "# Playbook\n- Count in cents."


def test_the_artifact_lands_only_where_you_put_it():
    model = Model()

    result = evolve(tasks, reward,
           run=lambda rendered, task: model(f"{rendered}\n\nQ: {task.prompt}"),
           #                                  ^^^^^^^^ you decide where it lands
           propose=reflector(model),
           strategy=SingleSlot(initial_value="You are a helpful assistant."))  # fmt: skip

    solving = [prompt for prompt in model.prompts if "out of 1.0" not in prompt]
    questions = {f"Q: {task.prompt}" for task in tasks}
    values = {"You are a helpful assistant.", pens.RULE}
    assert {tuple(prompt.split("\n\n")) for prompt in solving} <= {
        (value, question) for value in values for question in questions
    }
    assert result.rendered == pens.RULE


def test_a_run_that_ignores_the_artifact_cannot_improve():
    result = evolve(
        tasks,
        reward,
        run=lambda rendered, task: pens.answer("", task.prompt),
        propose=lambda rendered, task, out, score: pens.RULE,
        rounds=3,
    )

    assert result.final_reward == 0.0
    assert result.state == {}
