"""How often a merge commits what does not help, and how seldom it refuses what does."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from _bench import Row, run_benchmark

from agentdescent import EvidenceCard, Task, async_evolve
from agentdescent.aggregator import Aggregator, AggregatorConfig, LedgerSnapshot
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool
from agentdescent.evaluate.verifier import Verifier
from agentdescent.ledger import MemoryLedger
from agentdescent.policy.governance import AuditScheduler
from agentdescent.policy.stats import accepted_risk

CLAIM = "false commits under the null, no-ops in unions, and power"
VERSIONS = (1, 64, 128, 256)
NAME = "artifact"

Draw = Callable[[bool, int, Random], float]
"""One reward: (of a candidate rather than the head, index of the held-out task, its noise)."""


class Slot:
    """The whole artifact is one value."""

    def initial(self):
        return {}

    def render(self, state):
        return state["value"]

    def to_diff(self, state, proposal, author, base_version, target):
        raise NotImplementedError


class Ledger:
    """One artifact at a given version; remembers whether anything was committed."""

    def __init__(self, version: int) -> None:
        self.head = EvolvingArtifact(NAME, {"value": "head"}, version, strategy=Slot())
        self.committed = False

    async def snapshot(self, branch: str = "dev") -> LedgerSnapshot:
        return LedgerSnapshot({NAME: self.head}, {NAME: self.head.version})

    async def commit(self, artifact, base_version, branch="dev", message=""):
        self.committed = True
        return "0000000", artifact.version

    async def promote_to_stable(self, artifact_id: str) -> None:
        return None

    def lag(self, card: EvidenceCard) -> int:
        return 0


async def commits(
    draw: Draw, seed: int, *, version: int, rivals: int, n_tasks: int, confirm: int = 0
) -> bool:
    """Whether one merge of `rivals` contradicting candidates commits one of them."""
    noise = Random(seed)
    tasks = [Task(f"t{i}", "", {"index": i}) for i in range(n_tasks)]

    async def run(rendered: str, task: Task, leash: object = None) -> str:
        return rendered

    async def reward(task: Task, output: str, leash: object = None) -> float:
        return min(1.0, max(0.0, draw(output != "head", task.meta["index"], noise)))

    pool = EvaluationPool(run, reward, Memo(run, reward), width=n_tasks, jitter=Random(0))
    ledger = Ledger(version)
    pool.follow_head(HeadText())
    verifier = Verifier(pool, tasks, confirm=confirm)
    aggregator = Aggregator(ledger, verifier, AuditScheduler(), AggregatorConfig())
    async with pool.open():
        for rival in range(rivals):
            diff = Diff(f"d{rival}", NAME, {"value": f"candidate {rival}"})
            await aggregator.ingest(EvidenceCard(diff, {NAME: version}, [NAME], order=(rival, 0)))
        await aggregator.step()
    return ledger.committed


class HeadText:
    rendered = "head"


def rate(kind: Callable[[Random], Draw], seeds: Sequence[int], **options: int) -> float:
    """The share of merges that commit, one merge in a world of its own for each of `seeds`."""

    async def decide() -> list[bool]:
        return [await commits(kind(Random(seed)), seed, **options) for seed in seeds]

    return sum(asyncio.run(decide())) / len(seeds)


def graded(sd: float, *, gain: float = 0.0, gained: float = 1.0) -> Callable[[Random], Draw]:
    """Rewards around a level of each task; candidates gain `gain` on a share of the tasks."""

    def world(truth: Random) -> Draw:
        levels = [truth.uniform(0.3, 0.5) for _ in range(64)]

        def draw(is_candidate: bool, index: int, noise: Random) -> float:
            better = gain if is_candidate and index % 20 < 20 * gained else 0.0
            return levels[index] + better + noise.gauss(0.0, sd)

        return draw

    return world


def binary(*, wins: float = 0.0, losses: float = 0.0) -> Callable[[Random], Draw]:
    """Rewards of 0 and 1 without noise: what failed is won, what was solved is lost, by chance."""

    def world(truth: Random) -> Draw:
        def draw(is_candidate: bool, index: int, noise: Random) -> float:
            solved = index % 2 == 0
            changes = is_candidate and noise.random() < (losses if solved else wins)
            return float(solved != changes)

        return draw

    return world


def coin(truth: Random) -> Draw:
    """Rewards of 0 and 1 that are nothing but noise."""
    return lambda is_candidate, index, noise: float(noise.random() < 0.5)


NULLS = {
    "none": graded(0.0),
    "sd .03": graded(0.03),
    "sd .1": graded(0.1),
    "sd .3": graded(0.3),
    "coins": coin,
}


def null(quick: bool) -> Iterable[Row]:
    seeds = 20 if quick else 200
    plans = [(1, 0), (4, 0), (8, 0), (8, 1)]
    for rivals, confirm in plans[::2] if quick else plans:
        for version in VERSIONS[:2] if quick else VERSIONS:
            yield _null_row(rivals, confirm, version, seeds)


def _null_row(rivals: int, confirm: int, version: int, seeds: int) -> Row:
    rates = {
        name: rate(
            kind,
            range(seeds * index, seeds * (index + 1)),
            version=version,
            rivals=rivals,
            n_tasks=20,
            confirm=confirm,
        )
        for index, (name, kind) in enumerate(NULLS.items())
    }
    noisy = [share for name, share in rates.items() if name != "none"]
    mean = sum(noisy) / len(noisy)
    delta = accepted_risk(version, base_delta=0.5, half_life=64)
    error = math.sqrt(delta * (1 - delta) / (seeds * len(noisy)))
    bar = delta + 2 * error if rivals == 1 else delta
    return {
        "candidates": rivals,
        "confirm": confirm,
        "version": version,
        "delta": delta,
        **{f"noise {name}": share for name, share in rates.items()},
        "mean": mean,
        "bar": bar,
        "reached": mean <= bar and not rates["none"],
    }


@dataclass(frozen=True)
class Case:
    name: str
    kind: Callable[[Random], Draw]
    least: Sequence[float]


POWER_VERSIONS = (1, 64, 256)
POWER = (
    Case("gain .05, noise .1", graded(0.1, gain=0.05), (0.99, 0.94, 0.63)),
    Case("gain .4 on 15 %, noise .03", graded(0.03, gain=0.4, gained=0.15), (1.0, 0.99, 0.75)),
    Case("0/1: .3 of failed won, .05 lost", binary(wins=0.3, losses=0.05), (0.98, 0.91, 0.45)),
)


def power(quick: bool) -> Iterable[Row]:
    seeds = 20 if quick else 400
    for case in POWER[:1] if quick else POWER:
        for version, least in zip(POWER_VERSIONS, case.least, strict=True):
            share = rate(case.kind, range(seeds), version=version, rivals=1, n_tasks=40)
            bar = least - 0.05
            yield {
                "true gain": case.name,
                "version": version,
                "power": share,
                "table": least,
                "bar": bar,
                "reached": share >= bar,
            }


class Notes:
    """Ten rules; each round one proposal names a missing rule and seventy are mere notes."""

    RULES, CROWD = 10, 71

    def __init__(self) -> None:
        self.tasks = [
            Task(f"t{i}", "", {"rule": f"rule {i % self.RULES}"}) for i in range(2 * self.CROWD)
        ]
        self.proposals = 0

    async def run(self, rendered: str, task: Task) -> str:
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        return float(f"- {task.meta['rule']}" in output.splitlines())

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        self.proposals += 1
        if self.proposals % self.CROWD == 1:
            return str(task.meta["rule"])
        return f"note {self.proposals}"


def riding_along(quick: bool) -> Iterable[Row]:
    for self_verify in (True, False):
        world = Notes()
        result = asyncio.run(
            async_evolve(
                world.tasks,
                world.reward,
                run=world.run,
                propose=world.propose,
                held_out_frac=0.5,
                n_workers=world.CROWD,
                max_concurrency=world.CROWD,
                asynchronous=False,
                rounds=4 if quick else 30,
                self_verify=self_verify,
                ledger=MemoryLedger(),
            )
        )
        good = sum(text.startswith("rule") for text in result.state.values())
        noise = len(result.state) - good
        yield {
            "self_verify": self_verify,
            "no-ops proposed": world.proposals - -(-world.proposals // world.CROWD),
            "good committed": good,
            "no-ops committed": noise,
            "reached": not noise if self_verify else True,
        }


def measure(quick: bool) -> Iterable[Row]:
    yield from riding_along(quick)
    yield from null(quick)
    yield from power(quick)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
