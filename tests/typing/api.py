"""How callers use the package; checked for types and never run."""

from collections.abc import Mapping, Sequence
from typing import assert_type

from agentdescent import (
    AcceptDecision,
    AgentDescent,
    Aggregator,
    AggregatorConfig,
    AppendRules,
    Diff,
    EvidenceCard,
    EvolutionResult,
    Evolved,
    EvolvingArtifact,
    LLMAgent,
    MergeContext,
    MergeReport,
    Policies,
    RoundInfo,
    SingleSlot,
    Task,
    UnpairedBeta,
    WorkUnit,
    async_evolve,
    async_evolve_skill,
    cli_agent,
    evolve,
    evolve_skill,
    evolve_skill_dir,
    get_policy,
    reflector,
    tasks_from,
)
from agentdescent.aggregator import VerifierProtocol
from agentdescent.baselines import Budget, Comparison, Workload, compare, merge_of_n, serial
from agentdescent.reference import RoundStat, make_task_universe

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


class NoLoss:
    def decide(self, context: MergeContext) -> AcceptDecision:
        return AcceptDecision(accept=context.gain > 0)


class Newest:
    async def resolve(
        self,
        artifact: EvolvingArtifact,
        cards: Sequence[EvidenceCard],
        verifier: VerifierProtocol,
    ) -> list[EvidenceCard]:
        return [*cards[-1:]]


class First2:
    def choose(
        self, artifact: EvolvingArtifact, diffs: Sequence[Diff], verifier: VerifierProtocol
    ) -> Sequence[Diff]:
        return diffs[:2]


class Never:
    def after_step(self, reports: Sequence[MergeReport]) -> list[str]:
        return []

    async def at_end(self) -> tuple[str, ...]:
        return ()


POLICIES = Policies(
    acceptance=UnpairedBeta(),
    conflict=Newest(),
    fusion=First2(),
    promotion=Never(),
    staleness=get_policy("full"),
    task_sampler=First(),
)


def scripts() -> None:
    result = evolve(tasks, reward, run=run, propose=propose, strategy=SingleSlot("Be brief."))
    assert_type(result, EvolutionResult)
    assert_type(result.history, list[RoundInfo])
    assert_type(result.final_reward, float)
    assert_type(result.initial_reward, float | None)
    assert_type(result.outcomes(), dict[str, int])
    assert_type(EvolutionResult.load("result.json"), EvolutionResult)
    evolve(tasks, reward, run=run, propose=propose, policies=Policies(acceptance=NoLoss()))
    evolve(tasks, reward, run=run, propose=propose, policies=POLICIES)
    assert_type(AgentDescent("router", make_task_universe()).run(rounds=2), list[RoundStat])


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
    assert_type(await async_evolve_skill(tasks, async_model, max_calls=100), Evolved)


def front_ends() -> None:
    result = evolve_skill(tasks, model, score=reward, split=(0.5, 0.25, 0.25))
    assert_type(result, Evolved)
    assert_type(evolve_skill_dir("skill", tasks, agent=cli_agent(["my-agent"])), Evolved)
    if result.test is not None:
        assert_type(result.test.interval, tuple[float, float])


def actors(stream: str) -> dict[str, object]:
    return {"run": run, "propose": propose, "reward": reward, "strategy": AppendRules()}


async def controls() -> None:
    workload, budget = Workload(tasks, tasks, tasks, actors), Budget(calls=100)
    comparison = compare(
        await serial(workload, budget, seeds=range(3)),
        await merge_of_n(workload, budget, 4, seeds=range(3)),
        fixed="calls",
    )
    assert_type(comparison, Comparison)
