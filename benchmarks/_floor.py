"""The least that a bare asyncio loop has to do for the same work: what to measure the engine by.

Not a product: no policies, no retries, no staleness, no time limits. One commit per accepted merge
through raw pygit2, without fsync; evaluations are remembered by (text, task) and run all at once;
the gate compares unpaired means under the normal law.
"""

import asyncio
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pygit2

from agentdescent import Task

ACCEPT = 0.505
SOLVED = 0.999


@dataclass(frozen=True)
class Floored:
    """What the floor came to."""

    final_reward: float
    rendered: str
    commits: int
    rollouts: int


class _Git:
    def __init__(self, path: str) -> None:
        self._repository = pygit2.init_repository(path)
        self._author = pygit2.Signature("floor", "floor@localhost", 1_700_000_000, 0)
        self._tip: list[Any] = []

    def commit(self, text: str) -> None:
        repository = self._repository
        tree = repository.TreeBuilder()
        tree.insert("artifact", repository.create_blob(text.encode()), pygit2.GIT_FILEMODE_BLOB)
        commit = repository.create_commit(
            "refs/heads/dev", self._author, self._author, "m", tree.write(), self._tip
        )
        self._tip = [commit]


class Floor:
    """One run of the bare loop in a world.

    Args:
        world: Has `train`, `held_out`, `render(parts)`, and the coroutine functions `run`,
            `reward` and `propose`.
        slot: Proposals replace each other; otherwise they add up.
        frugal: Try every proposal on its own task first, gate all of them as one, and halve on
            failure. Otherwise each is gated on its own and those that help are joined.
        target_reward: Stop at this held-out reward.
    """

    def __init__(
        self,
        world: Any,
        *,
        slot: bool = False,
        frugal: bool = False,
        target_reward: float = math.inf,
    ) -> None:
        self._world = world
        self._slot = slot
        self._frugal = frugal
        self._target = target_reward
        self._parts: list[str] = list(world.initial)
        self._memo: dict[tuple[str, str], float] = {}
        self._rollouts = self._commits = 0

    async def rounds(self, n_workers: int, rounds: int) -> Floored:
        """A barrier after every `n_workers` rollouts."""
        with _scratch() as git:
            await self._score(self._parts)
            for _ in range(rounds):
                rendered = self._world.render(self._parts)
                first, self._rollouts = self._rollouts, self._rollouts + n_workers
                found = await asyncio.gather(
                    *(self._roll_out(first + worker, rendered) for worker in range(n_workers))
                )
                if await self._merge(found, git) >= self._target:
                    break
            return await self._result()

    async def barrier_free(self, n_workers: int, rollouts: int) -> Floored:
        """Workers that never wait, and one merge after another of whatever is there."""
        with _scratch() as git:
            await self._score(self._parts)
            inbox: list[str] = []
            wake = asyncio.Event()

            async def work() -> None:
                while self._rollouts < rollouts:
                    self._rollouts += 1
                    rendered = self._world.render(self._parts)
                    proposal = await self._roll_out(self._rollouts - 1, rendered)
                    if proposal:
                        inbox.append(proposal)
                        wake.set()

            workers = asyncio.gather(*(work() for _ in range(n_workers)))
            workers.add_done_callback(lambda _: wake.set())
            while not workers.done() or inbox:
                await wake.wait()
                wake.clear()
                batch, inbox[:] = inbox[:], []
                if await self._merge(batch, git) >= self._target:
                    workers.cancel()
                    await asyncio.gather(workers, return_exceptions=True)
                    break
            return await self._result()

    async def _roll_out(self, number: int, rendered: str) -> str | None:
        world = self._world
        task = world.train[number % len(world.train)]
        output = await world.run(rendered, task)
        reward = await world.reward(task, output)
        if reward >= SOLVED:
            return None
        proposal = await world.propose(rendered, task, output, reward)
        if self._frugal and proposal:
            edited = world.render([*self._parts, proposal])
            if await world.reward(task, await world.run(edited, task)) <= reward:
                return None
        return proposal

    async def _merge(self, proposals: Sequence[str | None], git: _Git) -> float:
        """Gate what is new; the held-out reward after it."""
        fresh = [p for p in dict.fromkeys(proposals) if p and p not in self._parts]
        if fresh and self._frugal:
            await self._gate_together(fresh, git)
        elif fresh:
            await self._gate_each(fresh, git)
        return await self._score(self._parts)

    async def _gate_together(self, fresh: list[str], git: _Git) -> None:
        waiting = [fresh]
        while waiting:
            group = waiting.pop()
            if not await self._accept([*self._parts, *group], git) and len(group) > 1:
                waiting += [group[len(group) // 2 :], group[: len(group) // 2]]

    async def _gate_each(self, fresh: list[str], git: _Git) -> None:
        base = await self._score(self._parts)
        candidates = [[*self._parts, proposal] for proposal in fresh]
        scores = await asyncio.gather(*map(self._score, candidates))
        if self._slot or len(fresh) == 1:
            best = candidates[max(range(len(fresh)), key=scores.__getitem__)]
        else:
            helping = [p for p, score in zip(fresh, scores, strict=True) if score > base]
            best = [*self._parts, *helping]
        await self._accept(best, git)

    async def _accept(self, parts: list[str], git: _Git) -> bool:
        base, score = await self._score(self._parts), await self._score(parts)
        if score <= base or _probability(score, base, len(self._world.held_out)) <= ACCEPT:
            return False
        self._parts = parts
        git.commit(self._world.render(parts))
        self._commits += 1
        return True

    async def _score(self, parts: list[str]) -> float:
        rendered, held_out, memo = self._world.render(parts), self._world.held_out, self._memo
        missing = [task for task in held_out if (rendered, task.id) not in memo]
        if self._world.is_instant:
            for task in missing:
                await self._evaluate(rendered, task)
        elif missing:
            await asyncio.gather(*(self._evaluate(rendered, task) for task in missing))
        return sum(memo[rendered, task.id] for task in held_out) / len(held_out)

    async def _evaluate(self, rendered: str, task: Task) -> None:
        output = await self._world.run(rendered, task)
        self._memo[rendered, task.id] = await self._world.reward(task, output)

    async def _result(self) -> Floored:
        final = await self._score(self._parts)
        rendered = self._world.render(self._parts)
        return Floored(final, rendered, self._commits, self._rollouts)


class _scratch:  # noqa: N801 - used as a function
    def __enter__(self) -> _Git:
        self._path = tempfile.mkdtemp(prefix="floor")
        return _Git(self._path)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _probability(candidate: float, base: float, n: int) -> float:
    """That the candidate is better: two Beta posteriors, compared under the normal law."""
    mean_c, var_c = _beta(candidate * n + 1, (1 - candidate) * n + 1)
    mean_b, var_b = _beta(base * n + 1, (1 - base) * n + 1)
    return 0.5 * (1 + math.erf((mean_c - mean_b) / math.sqrt(2 * (var_c + var_b))))


def _beta(wins: float, losses: float) -> tuple[float, float]:
    total = wins + losses
    return wins / total, wins * losses / (total**2 * (total + 1))
