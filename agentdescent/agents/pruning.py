"""Pruning: a reflector that now and then proposes to remove a rule."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any

from agentdescent.core.contracts import check_callable, reflect_of
from agentdescent.core.diff import stable_hash
from agentdescent.core.reflection import Reflection
from agentdescent.core.task import Task
from agentdescent.policy.strategies_text import REMOVE
from agentdescent.threads import in_thread, is_async


@dataclass(frozen=True, slots=True)
class Pruning:
    """Leaves one rule out instead of asking for another; made by `pruning`."""

    _propose: Callable[..., Any]
    _every: int

    def bind_strategy(self, strategy: Any) -> "Pruning":
        """The same, with `propose` asking for what `strategy` can read."""
        bind = getattr(self._propose, "bind_strategy", None)
        return self if bind is None else replace(self, _propose=bind(strategy))

    async def reflect(self, reflection: Reflection) -> str | None:
        """Propose to remove a rule, or ask `propose`."""
        removal = self._removal(reflection)
        if removal is not None:
            return removal
        reflect = reflect_of(self._propose)
        if reflect is not None:
            return await _asked(reflect, reflection)
        told = (reflection.rendered, reflection.task, reflection.output, reflection.reward)
        return await _asked(self._propose, *told)

    async def __call__(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """Ask `propose`; without a state there is no rule to remove."""
        return await _asked(self._propose, rendered, task, output, reward)

    def _removal(self, reflection: Reflection) -> str | None:
        turn, due = divmod(stable_hash((reflection.version, reflection.task.id)), self._every)
        rules = [reflection.state[key] for key in sorted(reflection.state)]
        if due or not rules:
            return None
        removal = f"{REMOVE} {rules[turn % len(rules)]}"
        is_known = any(one.proposal == removal for one in reflection.rejected)
        return None if is_known else removal


def pruning(propose: Callable[..., Any], every: int = 5) -> Pruning:
    """`propose`, which proposes to remove a rule instead about every `every`-th time.

    For ``AppendRules(prune=True)``. Which rule is left out on which failure follows from the
    version and the task alone; it costs no model call. The removal is judged as any other edit: it
    has to help the task that failed, and to pass the gate.

    Args:
        propose: A `propose` function or an object such as `reflector(model)`.
        every: At least 1; 1 asks `propose` only while there is nothing to remove.

    Raises:
        TypeError: If `propose` cannot be called with four arguments.
        ValueError: If `every` is not positive.
    """
    check_callable("propose", propose, ("rendered", "task", "output", "reward"))
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}; give 5 for one in five")
    return Pruning(propose, every)


async def _asked(function: Callable[..., Any], *args: object) -> Any:
    answer = function(*args) if is_async(function) else await in_thread(function, *args)
    return await answer if isawaitable(answer) else answer
