"""What 1,000 and 10,000 workers would do, and what they would wait for: the engine in virtual time.

The engine is the real one, on an event loop whose clock jumps to the next timer instead of waiting
for it. Backends take what a latency law draws and know no limit. What the engine itself takes is
measured as processor time, and compared with the time that passes in the simulation.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from random import Random

from _bench import Row, run_benchmark
from _virtual import run_virtually

from agentdescent import EvolutionResult, Task, async_evolve
from agentdescent.calls import Stage, current_stage
from agentdescent.engine.journal import Journal
from agentdescent.engine.merger import Merger
from agentdescent.ledger import MemoryLedger

CLAIM = (
    "the engine in virtual time, on backends without limits: throughput, lag, what saturates first"
)
RULES, PER_RULE = 200, 2
TARGET = 0.95
NAMES_IT = 0.7
SPOILS = "spoil "
DEFAULT_WIDTH = 32
SCHEDULES = ("rounds", "barrier-free")
GIVE_UP_ROUNDS, STEADY_ROUNDS = 200, 10
FULL, MOSTLY, HALF = 0.9, 0.75, 0.5


@dataclass(frozen=True)
class Law:
    """How long one call takes: lognormal, and now and then ten times as long.

    Args:
        p50: Median, in seconds.
        p90: 90th percentile, in seconds.
        tail: The share of calls that take ten times as long.
        source: Where the figures come from.
    """

    p50: float
    p90: float
    source: str
    tail: float = 0.0

    def draw(self, random: Random) -> float:
        sigma = math.log(self.p90 / self.p50) / 1.2816
        slow = 10.0 if random.random() < self.tail else 1.0
        return self.p50 * math.exp(sigma * random.gauss(0.0, 1.0)) * slow


LAWS = {
    "local model": Law(1.8, 4.3, "`agentdescent demo --local-model` on 2 cores, 36 calls"),
    "API": Law(4.0, 12.0, "an assumption: answers of some hundred tokens"),
    "API, heavy tail": Law(4.0, 12.0, "an assumption: one call in fifty stalls", tail=0.02),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One wait for a backend, of a worker or of an evaluator."""

    of: str
    began: float
    ended: float


@dataclass
class World:
    """Each of 400 held-out tasks, and of two training tasks a worker, needs one of 200 rules.

    `propose` names the missing rule with probability 0.7, else a line that spoils another rule.

    Args:
        solved: Nothing is needed at all.
    """

    law: Law
    n_workers: int
    solved: bool
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(0)
        n_train, n_held_out = max(2 * self.n_workers, 2 * RULES), RULES * PER_RULE
        self.held_out_frac = n_held_out / (n_train + n_held_out)
        self.tasks = [
            Task(f"t{i}", "", {"rule": f"rule {i % RULES}"}) for i in range(n_train + n_held_out)
        ]
        self._text, self._lines = "", frozenset[str]()

    async def run(self, rendered: str, task: Task) -> str:
        await self._wait("evaluators" if current_stage() is Stage.GATE else "workers")
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        if self._text != output:
            self._text, self._lines = output, frozenset(output.splitlines())
        rule, lines = task.meta["rule"], self._lines
        is_solved = f"- {rule}" in lines and f"- {SPOILS}{rule}" not in lines
        return float(self.solved or is_solved)

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        await self._wait("workers")
        if self._random.random() < NAMES_IT:
            return str(task.meta["rule"])
        return f"{SPOILS}rule {self._random.randrange(RULES)}"

    async def _wait(self, of: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await asyncio.sleep(self.law.draw(self._random))
        finally:
            self.calls.append(Call(of, began, loop.time()))


@dataclass
class Watch:
    """What is seen of the engine while it runs.

    Attributes:
        merges: When the merger was at work.
        lags: Of every rollout, how many commits were made while it went on.
        cpu: Processor time so far, at the start of the first rollout and at the end.
    """

    merges: list[Call] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    sweep, run, note = Merger._sweep, Merger.run, Journal.note

    async def timed_sweep(self, batch):
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await sweep(self, batch)
        finally:
            watch.merges.append(Call("merger", began, loop.time()))

    async def timed_run(self, schedule, inbox):
        watch.cpu.append(time.process_time())
        try:
            await run(self, schedule, inbox)
        finally:
            watch.cpu.append(time.process_time())

    def counted_note(self, report):
        watch.lags.append(self._shared.head.snapshot.version - report.ticket.snapshot.version)
        note(self, report)

    Merger._sweep, Merger.run, Journal.note = timed_sweep, timed_run, counted_note
    try:
        yield
    finally:
        Merger._sweep, Merger.run, Journal.note = sweep, run, note


@dataclass(frozen=True)
class Plan:
    """One line of a table.

    Args:
        law: How long calls take.
        n_workers: Workers.
        schedule: "rounds" or "barrier-free".
        width: Held-out evaluations at once.
        solved: Nothing is left to learn, so that nothing is merged.
    """

    law: str
    n_workers: int
    schedule: str
    width: int = DEFAULT_WIDTH
    solved: bool = False


def simulated(plan: Plan, rounds: int) -> tuple[World, EvolutionResult, Watch]:
    """The run, which ends at the target unless it was there from the start."""
    world, watch = World(LAWS[plan.law], plan.n_workers, plan.solved), Watch()
    in_rounds = plan.schedule == "rounds"
    budget = (
        {"rounds": rounds, "max_concurrency": plan.n_workers}
        if in_rounds
        else {"max_rollouts": rounds * plan.n_workers, "max_seconds": math.inf}
    )
    with watched(watch):
        result = run_virtually(
            async_evolve(
                world.tasks,
                world.reward,
                run=world.run,
                propose=world.propose,
                held_out_frac=world.held_out_frac,
                n_workers=plan.n_workers,
                asynchronous=not in_rounds,
                eval_concurrency=plan.width,
                target_reward=None if plan.solved else TARGET,
                ledger=MemoryLedger(),
                **budget,
            )
        )
    assert result.error is None
    return world, result, watch


def row(plan: Plan, rounds: int) -> Row:
    world, result, watch = simulated(plan, rounds)
    workers = [call for call in world.calls if call.of == "workers"]
    began = min(call.began for call in workers)
    ended = max(call.began if plan.solved else call.ended for call in workers)
    ended = max([ended, *(call.ended for call in watch.merges)])
    seconds = ended - began
    shares = {
        "workers": _taken(workers, began, ended) / plan.n_workers / seconds,
        "merger": _taken(watch.merges, began, ended) / seconds,
        "evaluators": _taken(
            [call for call in world.calls if call.of == "evaluators"], began, ended
        )
        / plan.width
        / seconds,
        "event loop": (watch.cpu[1] - watch.cpu[0]) / seconds,
    }
    figures: Row = {
        "latency": plan.law,
        "workers": plan.n_workers,
        "schedule": plan.schedule,
    }
    if not plan.solved:
        figures["evaluations at once"] = plan.width
    figures["rollouts/s"] = result.rollouts / seconds
    figures |= {f"{name} busy": share for name, share in shares.items()}
    if plan.solved:
        return figures | {"loop full at workers": round(plan.n_workers / shares["event loop"], -3)}
    return figures | {
        "mean lag": sum(watch.lags) / len(watch.lags),
        "stale": result.stale_rate(),
        "calls to 0.95": result.actor_calls,
        "minutes to 0.95": result.wallclock / 60,
        "commits": sum(info.committed for info in result.history),
        "saturates first": saturated(shares),
        "final reward": result.final_reward,
    }


def saturated(shares: dict[str, float]) -> str:
    """What the others wait for most."""
    if shares["event loop"] >= FULL:
        return "event loop"
    if shares["workers"] >= FULL:
        return "workers"
    if shares["merger"] < HALF:
        return "barrier: the slowest rollout"
    if shares["evaluators"] >= MOSTLY * shares["merger"]:
        return "evaluators"
    return "merger: waves of one gate"


def _taken(calls: Iterable[Call], began: float, ended: float) -> float:
    return sum(max(0.0, min(c.ended, ended) - max(c.began, began)) for c in calls)


def measure(quick: bool) -> Iterable[Row]:
    crews = (100,) if quick else (100, 1_000, 10_000)
    for name, law in LAWS.items():
        yield {"law": name, "p50 s": law.p50, "p90 s": law.p90, "10x": law.tail, "from": law.source}
    laws = list(LAWS)[1:2] if quick else LAWS
    for law, n_workers, schedule in product(laws, crews, SCHEDULES):
        for width in (DEFAULT_WIDTH, RULES * PER_RULE):
            yield row(Plan(law, n_workers, schedule, width), GIVE_UP_ROUNDS)
    for n_workers, schedule in product(crews, SCHEDULES):
        yield row(Plan("API", n_workers, schedule, solved=True), STEADY_ROUNDS)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
