"""A small world with known answers: hidden rules, each of which solves its own tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentdescent import Task


@dataclass
class HiddenRules:
    """Every task needs one rule; the rendered artifact solves it once it holds that rule.

    `propose` names the missing rule. All functions are coroutine functions; `run_s` is their
    latency in (virtual) seconds.
    """

    rules: int = 4
    per_rule: int = 6
    run_s: float = 0.0
    calls: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[Task]:
        """Interleaved, so that training and held-out tasks need the same rules."""
        return [
            Task(f"t{copy}-{rule}", f"needs rule{rule}", {"rule": f"rule{rule}"})
            for copy in range(self.per_rule)
            for rule in range(self.rules)
        ]

    @property
    def parts(self) -> dict[str, Any]:
        """Its tasks and functions, as `evolve` takes them."""
        return {
            "tasks": self.tasks,
            "reward": self.reward,
            "run": self.run,
            "propose": self.propose,
        }

    async def run(self, rendered: str, task: Task) -> str:
        self.calls.append(f"run {task.id}")
        await anyio.sleep(self.run_s)
        return rendered

    async def reward(self, task: Task, output: str) -> float:
        return float(f"- {task.meta['rule']}" in output)

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str | None:
        self.calls.append(f"propose {task.id}")
        return str(task.meta["rule"])

    def count(self, what: str) -> int:
        """How many calls of one kind were made."""
        return sum(call.startswith(what) for call in self.calls)


def final_rules(rendered: str) -> Sequence[str]:
    """The rules an `AppendRules` playbook holds."""
    return sorted(line[2:] for line in rendered.splitlines() if line.startswith("- "))
