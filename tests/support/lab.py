"""A laboratory: an actor whose rewards, latencies and failures are given, and its pool."""

from collections import Counter
from random import Random

import anyio

from agentdescent.core.task import Task
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool


def tasks_named(names):
    """One task per name, or per letter."""
    return [Task(name, f"prompt of {name}") for name in names]


class Lab:
    """Counts what it is asked, and never more at a time than its pool is wide.

    Attributes:
        rewards: (rendered, task id) to reward, or to a list used up draw by draw; else `default`.
        seconds: Task id to latency; else `latency`.
        errors: Task id to the errors that `run` raises first.
        calls: Task ids in the order in which `run` was called.
        ended: (task id, time) of each `run` that ended, however it did.
    """

    def __init__(self, *, latency=0.0, default=1.0):
        self.latency = latency
        self.default = default
        self.rewards = {}
        self.seconds = {}
        self.errors = {}
        self.calls = []
        self.ended = []
        self.running = 0
        self.most = 0

    async def run(self, rendered, task, leash=None):
        self.calls.append(task.id)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            seconds = self.seconds.get(task.id, self.latency)
            if seconds:
                await anyio.sleep(seconds)
            if self.errors.get(task.id):
                raise self.errors[task.id].pop(0)
            return rendered
        finally:
            self.running -= 1
            self.ended.append((task.id, anyio.current_time()))

    async def reward(self, task, output, leash=None):
        value = self.rewards.get((output, task.id), self.default)
        return value.pop(0) if isinstance(value, list) else value

    def pool(self, width=4, capacity=200_000, run=None, **options):
        memo = Memo(self.run, self.reward, capacity=capacity)
        return EvaluationPool(
            run or self.run, self.reward, memo, width=width, jitter=Random(0), **options
        )

    def count(self, task_id):
        return Counter(self.calls)[task_id]
