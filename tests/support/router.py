"""A router that learns labels for keywords: deterministic, with a noisy reflector."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentdescent import Diff, Task
from agentdescent.core.diff import stable_hash

SUBJECTS = ("billing", "shipping", "returns", "accounts", "technical", "other")
FILLERS = ("please", "urgent", "hello", "ticket", "again")


@dataclass(frozen=True)
class RouterStrategy:
    """The artifact is a table from keywords to labels; a proposal changes a few of its rows."""

    max_ops: int = 4

    def initial(self) -> Mapping[str, str]:
        return {}

    def render(self, state: Mapping[str, str]) -> str:
        rows = [f"{key}: {state[key]}" for key in sorted(state)]
        return "\n".join(["# Routes", *(rows or ["(empty)"])])

    def to_diff(self, state, proposal, author, base_version, target):
        rows = dict(line.split(": ") for line in proposal.splitlines())
        changed = sorted(key for key, label in rows.items() if state.get(key) != label)
        ops = {key: rows[key] for key in changed[: self.max_ops]}
        if not ops:
            return None
        return Diff(f"{author}:{'-'.join(ops)}:{base_version}", target, ops, author=author)


@dataclass
class RouterWorld:
    """24 keywords in 288 texts; one task is a cluster of texts."""

    seed: int
    noise: float = 0.15
    run_s: float = 0.05
    propose_s: float = 0.05
    clusters: int = 6
    asked: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keywords = [f"kw{index:02d}" for index in range(24)]
        self.gold = {kw: SUBJECTS[i % len(SUBJECTS)] for i, kw in enumerate(keywords)}
        rng = random.Random(self.seed)
        texts = [
            (f"{rng.choice(FILLERS)}-{keyword}-{copy}", keyword)
            for keyword in keywords
            for copy in range(12)
        ]
        rng.shuffle(texts)
        cut = int(len(texts) * 0.6)
        self.train, self.held_out = texts[:cut], texts[cut:]

    @property
    def tasks(self) -> list[Task]:
        """Training clusters by keyword, then as many held-out clusters dealt in turn."""
        by_keyword = [
            [t for t in self.train if stable_hash(t[1]) % self.clusters == index]
            for index in range(self.clusters)
        ]
        dealt = [self.held_out[index :: self.clusters] for index in range(self.clusters)]
        return [
            *(self._task(f"c{i}", items) for i, items in enumerate(by_keyword) if items),
            *(self._task(f"h{i}", items) for i, items in enumerate(dealt)),
        ]

    @property
    def parts(self) -> dict[str, Any]:
        """Its tasks and functions, as `evolve` takes them."""
        return {
            "tasks": self.tasks,
            "reward": self.reward,
            "run": self.run,
            "propose": self.propose,
            "strategy": RouterStrategy(),
            "held_out_frac": self.held_out_frac,
        }

    @property
    def held_out_frac(self) -> float:
        tasks = self.tasks
        return sum(task.id.startswith("h") for task in tasks) / len(tasks)

    async def run(self, rendered: str, task: Task) -> str:
        await anyio.sleep(self.run_s)
        table = dict(line.split(": ") for line in rendered.splitlines() if ": " in line)
        return "\n".join(table.get(keyword, "unknown") for _, keyword in task.meta["items"])

    async def reward(self, task: Task, output: str) -> float:
        items: Sequence[tuple[str, str]] = task.meta["items"]
        right = [
            self.gold[kw] == label
            for (_, kw), label in zip(items, output.splitlines(), strict=True)
        ]
        return sum(right) / len(right)

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        await anyio.sleep(self.propose_s)
        turn = self.asked[task.id] = self.asked.get(task.id, 0) + 1
        rng = random.Random(f"{self.seed}/{task.id}/{turn}")
        wrong = {
            keyword
            for (_, keyword), label in zip(task.meta["items"], output.splitlines(), strict=True)
            if label != self.gold[keyword]
        }
        rows = []
        for keyword in sorted(wrong)[:4]:
            label = self.gold[keyword]
            if rng.random() < self.noise:
                label = rng.choice([other for other in SUBJECTS if other != label])
            rows.append(f"{keyword}: {label}")
        return "\n".join(rows)

    def _task(self, name: str, items: list[tuple[str, str]]) -> Task:
        return Task(name, "\n".join(text for text, _ in items), {"items": items})
