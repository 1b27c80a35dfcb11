"""How much of a budget of rollouts goes to tasks that teach something, for each `c`."""

import itertools
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from _bench import Row, run_benchmark

from agentdescent import DataParallel, DifficultyWeighted, RoundRobin

Sampler = RoundRobin | DifficultyWeighted

CLAIM = "share of rollouts on the 6 of 40 tasks that are sometimes solved, in percent"
TASKS, INFORMATIVE = 40, 6
COMMIT_EVERY = 24
SWEEP = (0.1, 0.2, 0.4, 0.7, 1.4)
DEFAULT = DifficultyWeighted().c
CLOSE = 0.9
"""The default is good where it has this share of what the best `c` of the sweep has."""


class World:
    """Six tasks are solved at every second trial on average; the others always or never.

    Where it moves, every commit lets one informative task be solved for good, and one that has
    never been solved become informative.
    """

    def __init__(self, seed: int, noise: float, *, moves: bool) -> None:
        self._random = Random(seed)
        self._noise = noise
        self.moves = moves
        self.names = [f"t{number}" for number in range(TASKS)]
        order = self._random.sample(self.names, TASKS)
        self.informative = set(order[:INFORMATIVE])
        self._never = order[INFORMATIVE : INFORMATIVE + (TASKS - INFORMATIVE) // 2]
        self._hopeless = set(self._never)

    def reward(self, name: str) -> float:
        solved = name not in self._hopeless
        if name in self.informative:
            solved = self._random.random() < 0.5
        return float(solved ^ (self._random.random() < self._noise))

    def commit(self) -> None:
        if self.moves and self._never:
            self.informative.remove(self._random.choice(sorted(self.informative)))
            found = self._never.pop()
            self._hopeless.discard(found)
            self.informative.add(found)


def share(sampler: Sampler, world: World, n_workers: int, n_rollouts: int) -> float:
    """Percent of rollouts on informative tasks; a round makes all its picks before it records."""
    hits = 0
    for turn, done in enumerate(range(0, n_rollouts, n_workers)):
        units = DataParallel().plan(n_workers, turn, world.names)
        picks = [sampler.pick(unit.keys, turn) for unit in units]
        hits += sum(name in world.informative for name in picks)
        for name in picks:
            sampler.record(name, world.reward(name))
        if world.moves and done % COMMIT_EVERY == 0:
            world.commit()
            if isinstance(sampler, DifficultyWeighted):
                sampler.note_commit()
    return 100 * hits / n_rollouts


def typical(
    build: Callable[[], Sampler], seeds: range, noise: float, moves: bool, budget: tuple[int, int]
) -> float:
    """The mean share over worlds that differ by their seeds; the budget is (workers, rollouts)."""
    worlds = [World(seed, noise, moves=moves) for seed in seeds]
    return statistics.fmean(share(build(), world, *budget) for world in worlds)


def measure(quick: bool) -> Iterable[Row]:
    seeds = range(2 if quick else 40)
    worlds = itertools.product((False, True), (1, 4), (0.0, 0.15), (120,) if quick else (120, 480))
    for moves, n_workers, noise, n_rollouts in worlds:
        world = (seeds, noise, moves, (n_workers, n_rollouts))
        found = {c: typical(partial(DifficultyWeighted, c=c), *world) for c in SWEEP}
        yield {
            "artifact": "moves" if moves else "stands",
            "workers": n_workers,
            "noise": f"{noise:.0%}",
            "rollouts": n_rollouts,
            "round robin": typical(RoundRobin, *world),
            **{f"c={c}": figure for c, figure in found.items()},
            "reached": found[DEFAULT] >= CLOSE * max(found.values()),
        }


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
