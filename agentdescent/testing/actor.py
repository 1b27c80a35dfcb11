"""Fakes for what a run would ask a model."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import anyio

from agentdescent.core.task import Task

T = TypeVar("T")

Script = Mapping[str, Sequence[T | Exception]] | Callable[[str, Task], T]
"""Answers by task id, one a call, the last again and again; or a function of (rendered, task)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a `FakeActor`.

    Attributes:
        half: Which of its methods.
        rendered: The artifact it was given.
        task: The task it was given.
        output: What `propose` was shown; None for `solve`.
        reward: What `propose` was shown; None for `solve`.
    """

    half: Literal["solve", "propose"]
    rendered: str
    task: Task
    output: Any = None
    reward: float | None = None


class FakeActor:
    """An actor that earns scripted rewards and makes scripted proposals.

    Give it as `agent=` together with its own `reward`. `solve` takes what the rollout will earn
    from the script and returns it as the output, where `reward` finds it. An exception in a script
    is raised instead of returned.

    Args:
        rewards: What `solve` earns; 0.0 for a task without an entry.
        proposals: What `propose` answers; None for a task without an entry.
        latency: Seconds, by `anyio.sleep`, that each call takes. Cancellation ends it.

    Attributes:
        calls: Every call, in the order in which they began.
        running: How many are under way.
        peak: The most that were ever under way at once.
    """

    def __init__(
        self,
        rewards: Script[float] | None = None,
        proposals: Script[str | None] | None = None,
        *,
        latency: float = 0.0,
    ) -> None:
        self._rewards = _Reading[float](rewards or {}, default=0.0)
        self._proposals = _Reading[str | None](proposals or {}, default=None)
        self._latency = latency
        self.calls: list[Call] = []
        self.running: int = 0
        self.peak: int = 0

    async def solve(self, rendered: str, task: Task) -> float:
        """Earn the task's next reward."""
        return await self._answer(Call("solve", rendered, task), self._rewards)

    async def propose(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """Make the task's next proposal."""
        return await self._answer(Call("propose", rendered, task, output, reward), self._proposals)

    def reward(self, task: Task, output: float) -> float:  # noqa: ARG002 - the form of a reward
        """What `solve` has earned."""
        return output

    async def _answer(self, call: Call, script: "_Reading[T]") -> T:
        self.calls.append(call)
        answer = script.next(call.rendered, call.task)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await anyio.sleep(self._latency)
        finally:
            self.running -= 1
        return _given(answer)


class FakeCompletion:
    """A model that gives scripted replies.

    Args:
        replies: One a call, the last again and again; or a function of the prompt. An exception is
            raised instead of returned.
        latency: Seconds, by `anyio.sleep`, that each call takes. Cancellation ends it.

    Attributes:
        prompts: Every prompt, in the order in which the calls began.
    """

    def __init__(
        self,
        replies: Sequence[str | Exception] | Callable[[str], str],
        *,
        latency: float = 0.0,
    ) -> None:
        self._replies = replies
        self._latency = latency
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        """Give the next reply."""
        self.prompts.append(prompt)
        replies = self._replies
        reply = replies(prompt) if callable(replies) else _nth(replies, len(self.prompts))
        await anyio.sleep(self._latency)
        return _given(reply)


class _Reading(Generic[T]):
    """A script, and how far each task has come in it."""

    def __init__(self, script: Script[T], default: T) -> None:
        self._script = script
        self._default = default
        self._turns = Counter[str]()

    def next(self, rendered: str, task: Task) -> T | Exception:
        if callable(self._script):
            return self._script(rendered, task)
        self._turns[task.id] += 1
        return _nth(self._script.get(task.id, [self._default]), self._turns[task.id])


def _nth(answers: Sequence[T], turn: int) -> T:
    return answers[min(turn, len(answers)) - 1]


def _given(answer: T | Exception) -> T:
    if isinstance(answer, Exception):
        raise answer
    return answer
