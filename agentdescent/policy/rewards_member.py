"""One of the rewards that another one is made of: called now, awaited later if need be."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any

from agentdescent.core.contracts import SOLVED, check_callable, check_reward
from agentdescent.core.identity import Identity, identity_of
from agentdescent.core.protocols import Reward
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task

Begun = Scored | Awaitable[Any] | Callable[[], Awaitable[Any]]
"""What a member has said, or what there is to await or to start for it."""


@dataclass(frozen=True, slots=True)
class Member:
    """An inner reward.

    Attributes:
        name: What its value is called among the parts.
        reward: Itself.
    """

    name: str
    reward: Reward

    @property
    def is_pure(self) -> bool:
        """It computes and waits for nothing."""
        return getattr(self.reward, "is_pure", False) is True

    @property
    def identity(self) -> Identity:
        """What remembered rewards depend on."""
        return identity_of(self.reward)

    @property
    def solved_threshold(self) -> float:
        """From which value on it takes a task for solved."""
        return float(getattr(self.reward, "solved_threshold", SOLVED))

    def begin(self, task: Task, output: Any) -> Begun:
        """Score, or note how: a coroutine function is not called before it is awaited."""
        if _is_coroutine_function(self.reward):
            return partial(self.reward, task, output)
        value = self.reward(task, output)
        return value if isawaitable(value) else self._scored(task, value)

    async def end(self, task: Task, begun: Begun) -> Scored:
        """The value of what was begun."""
        if isinstance(begun, Scored):
            return begun
        return self._scored(task, await (begun() if callable(begun) else begun))

    def _scored(self, task: Task, value: object) -> Scored:
        number = check_reward(task, value)
        return replace(value, value=number) if isinstance(value, Scored) else Scored(number)


def members(rewards: Iterable[Reward]) -> list[Member]:
    """The rewards under names that tell them apart.

    Raises:
        TypeError: If one cannot be called with a task and an output.
    """
    found: dict[str, Member] = {}
    for reward in rewards:
        check_callable("scorer", reward, ("task", "output"))
        name = plain = _name(reward)
        count = 1
        while name in found:
            count += 1
            name = f"{plain}_{count}"
        found[name] = Member(name, reward)
    return list(found.values())


def drop(begun: Iterable[Begun]) -> None:
    """Close the coroutines that nobody will await."""
    for each in begun:
        if iscoroutine(each):
            each.close()


def _name(reward: Reward) -> str:
    for attribute in ("name", "__name__"):
        name = getattr(reward, attribute, None)
        if isinstance(name, str):
            return name
    return type(reward).__name__


def _is_coroutine_function(reward: object) -> bool:
    while isinstance(reward, partial):
        reward = reward.func
    called = getattr(type(reward), "__call__", None)  # noqa: B004 - asks what kind it is
    return iscoroutinefunction(reward) or iscoroutinefunction(called)
