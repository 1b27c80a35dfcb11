"""How callers use the package; checked for types and never run."""

from collections.abc import Mapping, Sequence
from typing import assert_type

from agentdescent import (
    Aggregator,
    AggregatorConfig,
    AppendRules,
    Diff,
    EvolutionResult,
    LLMAgent,
    RoundInfo,
    SingleSlot,
    Task,
    WorkUnit,
    async_evolve,
    evolve,
    get_policy,
    reflector,
    tasks_from,
)

tasks = tasks_from([{"prompt": "2 + 2", "gold": "4"}])


def reward(task: Task, output: str) -> float:
    return float(output == task.meta["gold"])


async def graded(task: Task, output: str) -> float:
    return float(output == task.meta["gold"])


def run(rendered: str, task: Task) -> str:
    return f"{rendered}: {task.prompt}"


async def propose(rendered: str, task: Task, output: str, score: float) -> str | None:
    return None if score else f"{rendered}, not {output} for {task.id}"


def model(prompt: str) -> str:
    return prompt.upper()


async def async_model(prompt: str) -> str:
    return prompt.upper()


class OneValue:
    def initial(self) -> dict[str, str]:
        return {}

    def render(self, state: Mapping[str, str]) -> str:
        return state.get("v", "(none)")

    def to_diff(
        self, state: Mapping[str, str], proposal: str, author: str, base_version: int, target: str
    ) -> Diff | None:
        return Diff(f"{author}:{base_version}", target, {"v": proposal}, author=author)


class Blocks:
    name = "block"

    def plan(self, n_workers: int, round_index: int, keys: Sequence[str]) -> list[WorkUnit]:
        size = -(-len(keys) // n_workers)
        return [WorkUnit(i, keys[i * size : (i + 1) * size]) for i in range(n_workers)]


class First:
    def pick(self, keys: Sequence[str], round_index: int) -> str:
        return keys[0]

    def record(self, task_id: str, score: float) -> None:
        return None


def scripts() -> None:
    result = evolve(tasks, reward, run=run, propose=propose, strategy=SingleSlot("Be brief."))
    assert_type(result, EvolutionResult)
    assert_type(result.history, list[RoundInfo])
    assert_type(result.final_reward, float)
    assert_type(result.initial_reward, float | None)
    assert_type(result.outcomes(), dict[str, int])
    assert_type(EvolutionResult.load("result.json"), EvolutionResult)


async def applications() -> None:
    result = await async_evolve(
        tasks,
        graded,
        agent=LLMAgent(async_model),
        strategy=AppendRules(),
        parallel=Blocks(),
        task_sampler=First(),
        staleness_policy=get_policy("reflective"),
        agg_config=AggregatorConfig(base_delta=0.25),
        aggregator_factory=lambda ledger, verifier, audit, config, policy: Aggregator(
            ledger, verifier, audit, config, staleness_policy=policy
        ),
        on_round=lambda info: print(info.round, info.held_out_reward),
    )
    assert_type(result, EvolutionResult)
    await async_evolve(tasks, reward, run=run, propose=reflector(model), strategy=OneValue())
