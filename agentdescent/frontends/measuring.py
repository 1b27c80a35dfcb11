"""Rewards of several artifacts on tasks that no run has seen, measured side by side."""

import random
from collections.abc import Sequence
from contextlib import ExitStack

from agentdescent.agents.executor import Executor
from agentdescent.calls import Role, RunCalls
from agentdescent.core.protocols import Reward, Run
from agentdescent.core.spend import Spend
from agentdescent.core.task import Task
from agentdescent.core.turns import has_turns
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool, widths
from agentdescent.opening import opened_calls
from agentdescent.threads import DaemonThreads, is_async, seated
from agentdescent.usage import Usage


async def measured(
    rendered: Sequence[str],
    tasks: Sequence[Task],
    *,
    run: Run,
    reward: Reward,
    usage: Usage,
    repeats: int = 1,
    eval_concurrency: int | None = None,
    seed: int = 0,
) -> list[list[float]]:
    """The reward of each artifact on each task; equal artifacts are measured once.

    It is retried, counted and called as evaluations of a run are, but no budget holds here.

    Raises:
        EvaluationFailed: If a task could not be scored after its retries.
        ContractError: If a reward is no number in [0, 1].
    """
    threads = DaemonThreads()
    calls = RunCalls(Spend({}), usage)
    with ExitStack() as stack:
        stack.callback(threads.close)
        stack.enter_context(seated(threads))
        executor = Executor(threads, calls.spend, usage)
        pool = EvaluationPool(
            executor.door(run, counts=True, role=Role.SOLVE),
            executor.door(reward, counts=False, role=Role.JUDGE),
            Memo(run, reward, ""),
            width=widths(len(tasks), is_async(run) or has_turns(run), eval_concurrency),
            repeats=repeats,
            jitter=random.Random(seed),  # noqa: S311 - it spreads retries
        )
        async with opened_calls(calls), pool.open():
            return [await pool.values(text, tasks) for text in rendered]
