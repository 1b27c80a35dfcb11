"""Actors made of a completion: `LLMAgent` with both halves, `reflector` with the second."""

import copy
import warnings
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from agentdescent.agents.completion import Completion, Reply, asking
from agentdescent.agents.hygiene import declines, visible
from agentdescent.agents.templates import (
    PROPOSE_TEMPLATE,
    RULE_INSTRUCTIONS,
    SOLVE_TEMPLATE,
    Template,
    expected_block,
)
from agentdescent.core.diff import State
from agentdescent.core.task import Task

_SOLVE_FIELDS = frozenset({"artifact", "prompt"})
_PROPOSE_FIELDS = _SOLVE_FIELDS | {"output", "reward", "expected", "instructions"}

_EMPTY = (
    "the reflector got an empty completion ({count} so far), so there is nothing to propose; a "
    "reasoning model may have thought until its limit: raise max_tokens"
)
_CUT = (
    "the reflector got a reply that was cut off at its length limit ({count} so far); half an "
    "answer is not proposed: raise max_tokens"
)


@dataclass(frozen=True, eq=False, slots=True)
class Reflector:
    """Asks a model what to change after a rollout; made by `reflector`."""

    _ask: Callable[[str], Awaitable[str]]
    _template: Template
    _meta_chars: int | None
    _instructions: Callable[[str], str]
    _empty: "_Complaint" = field(default_factory=lambda: _Complaint(_EMPTY))
    _cut: "_Complaint" = field(default_factory=lambda: _Complaint(_CUT))

    def bind_strategy(self, strategy: Any) -> "Reflector":
        """The same reflector, asking for proposals that `strategy` can read.

        Their format comes from the strategy's `proposal_instructions(state)`; one without that
        method is taken to read rules. A reflector does not see the state: once the artifact is no
        longer the initial one, it passes one in which each declared key holds the whole rendering.
        """
        return Reflector(self._ask, self._template, self._meta_chars, _instructions_of(strategy))

    async def __call__(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """Ask for a proposal; None if the model has none."""
        limit = self._meta_chars
        reply = await self._ask(
            self._template.fill(
                artifact=rendered,
                prompt=task.prompt,
                output=output,
                reward=float(reward),
                expected="" if limit is None else expected_block(task.meta, limit),
                instructions=self._instructions(rendered),
            )
        )
        if isinstance(reply, Reply) and reply.cut:
            self._cut.repeat()
            return None
        text = visible(reply)
        if not text:
            self._empty.repeat()
            return None
        return None if declines(text) else text


def _one_rule(_: str) -> str:
    return RULE_INSTRUCTIONS


def _instructions_of(strategy: Any) -> Callable[[str], str]:
    describe: Callable[[State], str] | None = getattr(strategy, "proposal_instructions", None)
    if describe is None:
        return _one_rule
    initial: State = strategy.initial()
    untouched: str = strategy.render(initial)
    declared: Callable[[], Iterable[str]] | None = getattr(strategy, "keys", None)
    keys = tuple(declared()) if declared else ("artifact",)

    def instructions(rendered: str) -> str:
        return describe(initial if rendered == untouched else dict.fromkeys(keys, rendered))

    return instructions


class _Complaint:
    """A warning on the 1st, 10th and 100th occasion."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._count = 0

    def repeat(self) -> None:
        self._count += 1
        if self._count in (1, 10, 100):
            warnings.warn(self._message.format(count=self._count), RuntimeWarning, stacklevel=3)


def reflector(
    complete: Completion,
    template: str = PROPOSE_TEMPLATE,
    show_meta: bool = True,  # noqa: FBT001, FBT002 - the documented form
    meta_chars: int = 600,
) -> Reflector:
    """Make `complete` the one who looks at a rollout and says what to change.

    The result is a `propose`: awaited with the rendered artifact, the task, the output and the
    reward, it gives the model's proposal. Thinking and a fence around the whole reply are taken
    off. A reply of nothing but NONE is no proposal, and neither is an empty one or one that was cut
    off; the latter two warn (`RuntimeWarning`) on the 1st, 10th and 100th occasion.

    In a run it asks for what the run's strategy can read: one rule, the complete new value, ...

    Args:
        complete: Any completion; a synchronous one is called in a daemon thread.
        template: The prompt. It may use the fields artifact, prompt, output, reward, expected and
            instructions; see `Template` for braces. What it does not use is not shown.
        show_meta: Show `Task.meta`, such as the gold answer.
        meta_chars: How much of it, in characters; at least 1.

    Raises:
        ValueError: If `meta_chars` is not positive.
    """
    if meta_chars < 1:
        raise ValueError(
            f"meta_chars must be at least 1, got {meta_chars}; show_meta=False hides the metadata"
        )
    filled = Template(template, _PROPOSE_FIELDS)
    return Reflector(asking(complete), filled, meta_chars if show_meta else None, _one_rule)


class LLMAgent:
    """An actor that solves tasks and reflects on them with one completion.

    Both halves are coroutine functions; cancelled, they cancel an asynchronous completion and
    abandon the thread of a synchronous one.

    Args:
        complete: Any completion.
        solve_template: The prompt of `solve`, with the fields artifact and prompt.
        propose_template: The prompt of `propose`; see `reflector`.
        show_meta: Show `Task.meta` when reflecting.
        meta_chars: How much of it, in characters; at least 1.
    """

    def __init__(
        self,
        complete: Completion,
        solve_template: str = SOLVE_TEMPLATE,
        propose_template: str = PROPOSE_TEMPLATE,
        show_meta: bool = True,  # noqa: FBT001, FBT002 - the documented form
        meta_chars: int = 600,
    ) -> None:
        self._ask = asking(complete)
        self._solve_template = Template(solve_template, _SOLVE_FIELDS)
        self._reflect = reflector(complete, propose_template, show_meta, meta_chars)

    def bind_strategy(self, strategy: Any) -> Self:
        """The same agent, proposing in the format that `strategy` reads."""
        bound = copy.copy(self)
        bound._reflect = self._reflect.bind_strategy(strategy)  # noqa: SLF001 - one of its own kind
        return bound

    async def solve(self, rendered: str, task: Task) -> str:
        """The model's reply to the task, stripped."""
        prompt = self._solve_template.fill(artifact=rendered, prompt=task.prompt)
        return (await self._ask(prompt)).strip()

    async def propose(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """What to change, or None; see `reflector`."""
        return await self._reflect(rendered, task, output, reward)
