"""How much of a run's waiting is hidden: rounds next to their schedule, slots without barriers."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from random import Random

from _bench import Row, median, run_benchmark, spread

from agentdescent import EvolutionResult, RoundInfo, Task, async_evolve
from agentdescent.calls import Stage, current_stage
from agentdescent.ledger import MemoryLedger

CLAIM = "8 workers, rollouts and evaluations of 150 ms: rounds to their schedule, slots busy"
WORKERS, N_TRAIN, N_HELD_OUT = 8, 40, 16
SECONDS = 0.15
SIGMA = 0.5
TAIL, TAIL_EVERY = 10, 20
ROUNDS_BAR = 1.08
SEED, FIRST, LAST, OWN = range(4)

Law = Callable[[Random], float]

LAWS: dict[str, tuple[Law, float]] = {
    "uniform": (lambda draw: SECONDS * draw.uniform(0.5, 1.5), 0.92),
    "lognormal": (lambda draw: SECONDS * draw.lognormvariate(-(SIGMA**2) / 2, SIGMA), 0.90),
    "1 in 20 takes 10x": (
        lambda draw: SECONDS * (TAIL if draw.randrange(TAIL_EVERY) == 0 else 1),
        0.85,
    ),
}
"""Each with the share of the slots that must be busy without barriers."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `run`: by which task of the loop, of what, in which round, from when to when."""

    by: int
    stage: Stage
    rendered: str
    task: Task
    round: int
    began: float
    ended: float
    drawn: float


@dataclass
class World:
    """Half of the tasks are solved from the start; the others gain a little with every line.

    So each proposal helps, and each gate has two waves that are awaited to their ends. Workers
    meet both kinds of tasks in turn.
    """

    law: Law
    seed: int
    calls: list[Call] = field(default_factory=list)
    round: int = 0
    proposals: int = 0

    def __post_init__(self) -> None:
        self.tasks = [
            Task(f"t{i}", "", {"solved": (i + i // WORKERS) % 2 == 0})
            for i in range(N_TRAIN + N_HELD_OUT)
        ]
        self.held_out = {task.id for task in self.tasks[N_TRAIN:]}
        self._draw = Random(self.seed)

    async def run(self, rendered: str, task: Task) -> int:
        this_round, drawn = self.round, self.law(self._draw)
        began = time.perf_counter()
        await asyncio.sleep(drawn)
        self.calls.append(
            Call(
                by=id(asyncio.current_task()),
                stage=current_stage(),
                rendered=rendered,
                task=task,
                round=this_round,
                began=began,
                ended=time.perf_counter(),
                drawn=drawn,
            )
        )
        return rendered.count("line")

    async def reward(self, task: Task, output: int) -> float:
        return 1.0 if task.meta["solved"] else min(0.9, 0.1 + output / 10_000)

    async def propose(self, rendered: str, task: Task, output: int, reward: float) -> str:
        self.proposals += 1
        return f"line {self.proposals}"

    def end_round(self, info: RoundInfo) -> None:
        self.round += 1

    def evaluations(self) -> list[Call]:
        """Of held-out tasks, and of the tasks that members of a union come from."""
        return [call for call in self.calls if call.stage is Stage.GATE]

    def rollouts(self) -> list[Call]:
        return [call for call in self.calls if call.stage is Stage.ROLLOUT]

    def wave(self, call: Call) -> int:
        """Which wave of the gate of its round an evaluation belongs to."""
        if call.task.id not in self.held_out:
            return OWN
        if call.rendered == self.calls[0].rendered:
            return SEED
        return LAST if call.task.meta["solved"] else FIRST


def evolved(world: World, **options: object) -> EvolutionResult:
    result = asyncio.run(
        async_evolve(
            world.tasks,
            world.reward,
            run=world.run,
            propose=world.propose,
            held_out_frac=N_HELD_OUT / len(world.tasks),
            n_workers=WORKERS,
            on_round=world.end_round,
            ledger=MemoryLedger(),
            **options,
        )
    )
    assert result.error is None
    assert not any(info.rejected for info in result.history)
    return result


@dataclass(frozen=True, slots=True)
class Waits:
    """What the waiting of a run of rounds amounts to, in seconds.

    Attributes:
        run: How long the run took.
        schedule: The evaluation of the seed, and of every round the longest chain of calls of one
            worker and then the two waves of held-out tasks.
        with_own: The same with the members of a union on the tasks that they come from: those are
            measured along with the last wave, and a merge waits for them, too.
    """

    run: float
    schedule: float
    with_own: float


def in_rounds(law: Law, seed: int, rounds: int) -> Waits:
    world = World(law, seed)
    result = evolved(world, asynchronous=False, rounds=rounds, max_concurrency=WORKERS)
    chains: defaultdict[int, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    held_out: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    all_waves: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for call in world.rollouts():
        chains[call.round][call.by] += call.drawn
    for call in world.evaluations():
        wave = world.wave(call)
        if wave != OWN:
            held_out[call.round, wave].append(call.drawn)
        all_waves[call.round, min(wave, LAST)].append(call.drawn)
    chained = sum(max(chain.values()) for chain in chains.values())
    return Waits(
        run=result.wallclock,
        schedule=chained + sum(list_scheduled(wave, N_HELD_OUT) for wave in held_out.values()),
        with_own=chained + sum(list_scheduled(wave, N_HELD_OUT) for wave in all_waves.values()),
    )


def list_scheduled(durations: Sequence[float], width: int) -> float:
    """How long tasks take that start in this order, each as soon as one of `width` is free."""
    free = [0.0] * width
    heapify(free)
    for duration in durations:
        heapreplace(free, free[0] + duration)
    return max(free)


@dataclass(frozen=True, slots=True)
class Busy:
    """Shares of the time from the first admission to the last.

    Attributes:
        slots: Of the workers' time, spent in rollouts.
        gates: Of the time, with an evaluation under way.
    """

    slots: float
    gates: float


def without_barriers(law: Law, seed: int, rollouts: int) -> Busy:
    world = World(law, seed)
    evolved(world, asynchronous=True, max_rollouts=rollouts, max_seconds=math.inf)
    rollouts_made = world.rollouts()
    starts = [call.began for call in rollouts_made]
    window = min(starts), max(starts)
    length = window[1] - window[0]
    slots = sum(ended - began for began, ended in _clipped(rollouts_made, window))
    return Busy(
        slots=slots / WORKERS / length,
        gates=covered(_clipped(world.evaluations(), window)) / length,
    )


def _clipped(calls: Iterable[Call], window: tuple[float, float]) -> list[tuple[float, float]]:
    first, last = window
    spans = [(max(call.began, first), min(call.ended, last)) for call in calls]
    return [(began, ended) for began, ended in spans if began < ended]


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of spans."""
    total, reached = 0.0, -math.inf
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return total


def measure(quick: bool) -> Iterable[Row]:
    rounds, rollouts, turns = (3, 80, 1) if quick else (15, 600, 5)
    for name, (law, _) in LAWS.items():
        found = [in_rounds(law, seed, rounds) for seed in range(turns)]
        ratios = [waits.run / waits.schedule for waits in found]
        yield {
            "rounds": name,
            "to the schedule": median(ratios),
            "spread": spread(ratios),
            "with own tasks": median([waits.run / waits.with_own for waits in found]),
            "bar": ROUNDS_BAR,
            "reached": median(ratios) <= ROUNDS_BAR,
        }
    for name, (law, bar) in LAWS.items():
        shares = [without_barriers(law, seed, rollouts) for seed in range(turns)]
        slots = [busy.slots for busy in shares]
        yield {
            "without barriers": name,
            "slots busy": median(slots),
            "spread": spread(slots),
            "gates under way": median([busy.gates for busy in shares]),
            "bar": bar,
            "reached": median(slots) >= bar,
        }


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
