"""How much of the ideal n_workers / latency is reached when every rollout waits for a backend."""

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from _bench import Row, median, ratio, rss_mb, run_benchmark, spread, status
from _floor import Floor

from agentdescent import Task, async_evolve
from agentdescent.engine.barrier_free import BarrierFree

CLAIM = "share of the ideal n_workers / latency, rollouts of 50 ms"
LATENCY_S = 0.05
N_HELD_OUT = 16
WORKLOADS = ("rollouts", "proposing", "heavy tail")
TAIL, TAIL_EVERY = 10, 20
SCHEDULES = ("rounds", "barrier-free")
MB_LIMIT = 12.0
THREADS = 3
"""The event loop's, and the ledger's two: for git, and for the scratch directory around it."""

BARS = {
    ("rollouts", "barrier-free"): {256: 0.90, 1024: 0.85},
    ("proposing", "barrier-free"): {64: 0.90, 256: 0.75},
    ("rollouts", "rounds"): {64: 0.90, 256: 0.75, 1024: 0.45},
}
"""Largest number of workers to the share of the ideal that must be reached."""

FLOOR_BARS = {
    ("heavy tail", "barrier-free"): 0.95,
    ("rollouts", "rounds"): 0.8,
    ("proposing", "barrier-free"): 0.5,
}
"""The share of the bare loop's throughput that must be reached; proposing: at 1,024 workers."""


@dataclass
class World:
    """Rollouts wait; held-out tasks are scored at once."""

    workload: str
    n_train: int
    initial: list[str] = field(default_factory=list)
    is_instant = True

    def __post_init__(self) -> None:
        self.tasks = [Task(f"t{i}", f"task {i}") for i in range(self.n_train + N_HELD_OUT)]
        self.train, self.held_out = self.tasks[: self.n_train], self.tasks[self.n_train :]
        self._held_out = {task.id for task in self.held_out}
        self.begun = self.proposals = 0
        self.seconds = 0.0
        self.threads = 0

    def render(self, parts: list[str]) -> str:
        return "\n".join(parts)

    async def run(self, rendered: str, task: Task) -> str:
        if task.id in self._held_out:
            return rendered
        self.begun += 1
        slow = self.workload == "heavy tail" and self.begun % TAIL_EVERY == 0
        seconds = LATENCY_S * (TAIL if slow else 1)
        self.seconds += seconds
        if self.begun % 100 == 0:
            self.threads = max(self.threads, int(status("Threads")))
        await asyncio.sleep(seconds)
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        return 0.5 if self.workload == "proposing" else 1.0

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        self.proposals += 1
        return f"proposal {self.proposals}"


@dataclass(frozen=True)
class Measurement:
    """One run.

    Attributes:
        share: Of the ideal throughput.
        cpu_ms: Processor time per rollout.
        threads: At most.
        rss_mb: High-water mark of the process.
        admit_share: Of the workers' time spent waiting in `admit`; 0 when it was not watched.
    """

    share: float
    cpu_ms: float
    threads: int
    rss_mb: float
    admit_share: float


def one_run(
    system: str, workload: str, schedule: str, n_workers: int, per_worker: int, watch: bool
) -> Measurement:
    """Run `system` ("ours" or "floor") once, in this process."""
    world = World(workload, max(24, 2 * n_workers))
    rollouts = n_workers * per_worker
    waited = [0.0]
    cpu, began = time.process_time(), time.perf_counter()
    with _watched_admission(waited) if watch else _unwatched():
        if system == "ours":
            asyncio.run(_ours(world, schedule, n_workers, per_worker))
        elif schedule == "rounds":
            asyncio.run(Floor(world).rounds(n_workers, per_worker))
        else:
            asyncio.run(Floor(world).barrier_free(n_workers, rollouts))
    seconds = time.perf_counter() - began
    cpu = time.process_time() - cpu
    assert world.begun == rollouts, (world.begun, rollouts)
    return Measurement(
        share=world.seconds / n_workers / seconds,
        cpu_ms=cpu * 1000 / rollouts,
        threads=world.threads,
        rss_mb=rss_mb(most=True),
        admit_share=waited[0] / (n_workers * seconds),
    )


async def _ours(world: World, schedule: str, n_workers: int, per_worker: int) -> None:
    budget = (
        {"rounds": per_worker, "max_concurrency": n_workers}
        if schedule == "rounds"
        else {"max_rollouts": n_workers * per_worker, "max_seconds": math.inf}
    )
    result = await async_evolve(
        world.tasks,
        world.reward,
        run=world.run,
        propose=world.propose,
        n_workers=n_workers,
        held_out_frac=N_HELD_OUT / len(world.tasks),
        asynchronous=schedule != "rounds",
        self_verify=False,
        **budget,
    )
    assert result.error is None
    assert result.rollouts == n_workers * per_worker


@contextmanager
def _watched_admission(waited: list[float]):
    admit = BarrierFree.admit

    async def watched(self, worker):
        began = time.perf_counter()
        try:
            return await admit(self, worker)
        finally:
            waited[0] += time.perf_counter() - began

    BarrierFree.admit = watched
    try:
        yield
    finally:
        BarrierFree.admit = admit


@contextmanager
def _unwatched():
    yield


def in_a_process(*args: object) -> Measurement:
    """`one_run` in a fresh interpreter, so that memory and threads are its own."""
    out = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps(args)],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ,
    )
    return Measurement(**json.loads(out.stdout))


def measure(quick: bool) -> Iterable[Row]:
    crews = (16,) if quick else (1, 16, 64, 256, 1024)
    per_worker, turns = (10, 1) if quick else (100, 5)
    for workload in WORKLOADS[:2] if quick else WORKLOADS:
        for schedule in SCHEDULES:
            if (workload, schedule) == ("heavy tail", "rounds"):
                continue  # a round lasts as long as its slowest rollout, whoever runs it
            alone: Measurement | None = None
            for n_workers in crews:
                runs = _turns(workload, schedule, n_workers, per_worker, turns)
                alone = alone or runs["ours"][0]
                yield _row(workload, schedule, n_workers, runs, alone)
    if not quick:
        yield _admission(per_worker)


def _turns(
    workload: str, schedule: str, n_workers: int, per_worker: int, turns: int
) -> dict[str, list[Measurement]]:
    runs: dict[str, list[Measurement]] = {"ours": [], "floor": []}
    for _ in range(turns):
        for system, found in runs.items():
            found.append(in_a_process(system, workload, schedule, n_workers, per_worker, False))
    return runs


def _row(
    workload: str,
    schedule: str,
    n_workers: int,
    runs: dict[str, list[Measurement]],
    alone: Measurement,
) -> Row:
    ours = [run.share for run in runs["ours"]]
    floor = [run.share for run in runs["floor"]]
    bars = BARS.get((workload, schedule), {})
    bar = next((share for most, share in sorted(bars.items()) if n_workers <= most), 0.0)
    to_floor = ratio(ours, floor)
    least = FLOOR_BARS.get((workload, schedule), 0.0)
    if workload == "proposing" and n_workers < 1024:
        least = 0.0
    more_mb = median([run.rss_mb for run in runs["ours"]]) - alone.rss_mb
    threads = max(run.threads for run in runs["ours"])
    return {
        "workload": workload,
        "schedule": schedule,
        "workers": n_workers,
        "of ideal": median(ours),
        "spread": spread(ours),
        "floor": median(floor),
        "ours/floor": to_floor,
        "CPU ms": median([run.cpu_ms for run in runs["ours"]]),
        "floor CPU ms": median([run.cpu_ms for run in runs["floor"]]),
        "threads": threads,
        "more MB": more_mb,
        "bars": f">={bar:g} >={least:g}floor" if bar or least else "-",
        "reached": median(ours) >= bar
        and to_floor >= least
        and threads <= THREADS
        and more_mb <= MB_LIMIT,
    }


def _admission(per_worker: int) -> Row:
    run = in_a_process("ours", "proposing", "barrier-free", 1024, per_worker, True)
    return {
        "workers": 1024,
        "workload": "proposing",
        "schedule": "barrier-free",
        "of ideal": run.share,
        "waiting in admit": run.admit_share,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        system, workload, schedule, *size = json.loads(sys.argv[2])
        one_run(system, workload, schedule, 2, 2, watch=False)  # warm up
        print(json.dumps(asdict(one_run(system, workload, schedule, *size))))
    else:
        run_benchmark(measure, CLAIM)
