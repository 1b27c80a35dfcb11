"""How long a gate over 200 held-out tasks of 20 ms takes, and how many evaluations it buys."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from _bench import Row, median, ratio, run_benchmark, spread, take_turns

from agentdescent import EvolutionResult, RoundInfo, Task, async_evolve
from agentdescent.ledger import MemoryLedger

CLAIM = "gates over 200 held-out tasks of 20 ms: time, evaluations, and what is run twice"
LATENCY_S = 0.02
N_TRAIN, N_HELD_OUT = 8, 200
FAILED = N_HELD_OUT // 2
DEFAULT_WIDTH = 32
GATES = 10
"""Gates of one run; each that is accepted leaves fewer failed tasks to the next."""
WON = FAILED // (2 * GATES)
"""Failed tasks that one accepted proposal wins."""


@dataclass
class World:
    """Half of the held-out tasks fail; each proposal that helps wins five of them.

    Args:
        helps: Whether proposals help.
    """

    helps: bool
    proposed_at: float = math.nan
    seconds: list[float] = field(default_factory=list)
    """From each proposal to the end of its round."""

    def __post_init__(self) -> None:
        self.train = [Task(f"t{i}", "", {"needs": math.inf}) for i in range(N_TRAIN)]
        self.held_out = [Task(f"h{i}", "", {"needs": _needs(i)}) for i in range(N_HELD_OUT)]
        self.runs: Counter[tuple[str, str]] = Counter()
        self._proposals = 0

    async def run(self, rendered: str, task: Task) -> int:
        if task.id.startswith("h"):
            self.runs[rendered, task.id] += 1
            await asyncio.sleep(LATENCY_S)
        return rendered.count("a step")

    async def reward(self, task: Task, output: int) -> float:
        return float(output >= task.meta["needs"])

    async def propose(self, rendered: str, task: Task, output: int, reward: float) -> str:
        self._proposals += 1
        self.proposed_at = time.perf_counter()
        return f"{'a step' if self.helps else 'a note'}, number {self._proposals}"

    def end_round(self, info: RoundInfo) -> None:
        self.seconds.append(time.perf_counter() - self.proposed_at)


def _needs(index: int) -> int:
    """How many steps a held-out task needs; the tasks that fail alternate with the solved ones."""
    return 0 if index % 2 else index // 2 // WON + 1


def evolved(world: World, width: int | None, repeats: int = 1) -> EvolutionResult:
    result = asyncio.run(
        async_evolve(
            [*world.train, *world.held_out],
            world.reward,
            run=world.run,
            propose=world.propose,
            held_out_frac=N_HELD_OUT / (N_TRAIN + N_HELD_OUT),
            n_workers=1,
            asynchronous=False,
            rounds=GATES,
            self_verify=False,
            eval_concurrency=width,
            eval_repeats=repeats,
            ledger=MemoryLedger(),
            on_round=world.end_round,
        )
    )
    assert result.error is None
    assert len(world.seconds) == GATES
    assert result.outcomes() == {"committed" if world.helps else "below-threshold": GATES}
    return result


def waves(helps: bool, width: int) -> list[int]:
    """How often each gate of a run has to wait: first the failed tasks, then the solved ones."""
    failed = [FAILED - WON * gate * helps for gate in range(GATES)]
    solved = [(N_HELD_OUT - n) * helps for n in failed]
    return [
        math.ceil(a / width) + math.ceil(b / width) for a, b in zip(failed, solved, strict=True)
    ]


def ours(helps: bool, width: int) -> float:
    """Milliseconds of a gate: from the proposal to the end of its round, the commit included."""
    world = World(helps)
    evolved(world, width)
    return 1000 * median(world.seconds)


def bare(helps: bool, width: int) -> float:
    """The same waves with nothing around them."""

    async def gate() -> float:
        began = time.perf_counter()
        for _ in range(round(median(waves(helps, width)))):
            await asyncio.gather(*(asyncio.sleep(LATENCY_S) for _ in range(width)))
        return time.perf_counter() - began

    return 1000 * asyncio.run(gate())


def durations(quick: bool) -> Iterable[Row]:
    for width in (N_HELD_OUT, DEFAULT_WIDTH):
        for helps in (True, False):
            ideal = 1000 * LATENCY_S * median(waves(helps, width))
            bar = {(N_HELD_OUT, True): 60.0, (N_HELD_OUT, False): 30.0}.get(
                (width, helps), 1.15 * ideal
            )
            figures = take_turns(
                {"ours": partial(ours, helps, width), "bare": partial(bare, helps, width)},
                1 if quick else 7,
            )
            cost = median(figures["ours"])
            yield {
                "gate": "accepted" if helps else "no gain",
                "at once": width,
                "ms": cost,
                "spread": spread(figures["ours"]),
                "waves ms": ideal,
                "to bare waves": ratio(figures["ours"], figures["bare"]),
                "bar ms": bar,
                "reached": cost <= bar,
            }


def evaluations(quick: bool) -> Iterable[Row]:
    """Evaluations of the held-out set, the seed's included where there are commits to share it."""
    for helps, repeats in ((True, 1), (False, 1), (True, 2)):
        world = World(helps)
        result = evolved(world, N_HELD_OUT, repeats)
        commits = sum(info.committed for info in result.history)
        sets = world.runs.total() / N_HELD_OUT / repeats
        per_gate = sets / commits if commits else (sets - 1) / GATES
        bar = 1.2 if helps else FAILED / N_HELD_OUT + 0.05
        twice = sum(n > repeats for n in world.runs.values())
        yield {
            "gates": "accepted" if helps else "no gain",
            "repeats": repeats,
            "evaluations of the set per gate": per_gate,
            "bar": bar,
            "run twice": twice,
            "reached": per_gate <= bar and not twice,
        }


def measure(quick: bool) -> Iterable[Row]:
    yield from evaluations(quick)
    yield from durations(quick)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
