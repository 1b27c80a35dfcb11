"""Actors made of a completion: `LLMAgent` with both halves, `reflector` with the second."""

import copy
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from agentdescent.agents.blocks import (
    feedback_block,
    others_block,
    rejected_block,
    successes_block,
)
from agentdescent.agents.completion import Completion, Reply, asking
from agentdescent.agents.hygiene import bare, declines
from agentdescent.agents.templates import (
    PROPOSE_TEMPLATE,
    RULE_INSTRUCTIONS,
    SOLVE_TEMPLATE,
    Template,
    expected_block,
    shortened,
)
from agentdescent.core.diff import State
from agentdescent.core.identity import Identity, identity_of
from agentdescent.core.reflection import Reflection
from agentdescent.core.task import Task

ARTIFACT_CHARS = 200_000
TEXT_CHARS = 16_000
"""Of a task's prompt, and as many of an output, are shown to a reflector."""

PROPOSAL_CHARS = 200_000
"""Longer replies are not proposed."""

_SOLVE_FIELDS = frozenset({"artifact", "prompt"})
_PROPOSE_FIELDS = _SOLVE_FIELDS | {
    "output",
    "reward",
    "feedback",
    "expected",
    "others",
    "successes",
    "rejected",
    "instructions",
}

_EMPTY = (
    "the reflector got an empty completion ({count} so far), so there is nothing to propose; a "
    "reasoning model may have thought until its limit: raise max_tokens"
)
_CUT = (
    "the reflector got a reply that was cut off at its length limit ({count} so far); half an "
    "answer is not proposed: raise max_tokens"
)
_LONG = (
    "the reflector got a reply of more than {limit} characters ({count} so far), which is not "
    "proposed; ask for less in the template"
)


@dataclass(frozen=True, slots=True)
class _Format:
    """What proposals have to look like, for a reflector that sees a rendering and no state."""

    keys: Collection[str] = ()
    describe: Callable[[State], str] | None = None
    initial: State = field(default_factory=dict[str, Any])
    untouched: str = ""

    @classmethod
    def of(cls, strategy: Any) -> "_Format":
        declared: Callable[[], Iterable[str]] | None = getattr(strategy, "keys", None)
        keys = tuple(declared()) if declared else ()
        describe = getattr(strategy, "proposal_instructions", None)
        if describe is None:
            return cls(keys)
        initial: State = strategy.initial()
        return cls(keys, describe, initial, strategy.render(initial))

    def instructions(self, rendered: str) -> str:
        """Once the artifact is no longer the initial one, each key is taken to hold all of it."""
        if self.describe is None:
            return ""
        if rendered == self.untouched:
            return self.describe(self.initial)
        return self.describe(dict.fromkeys(self.keys or ("artifact",), rendered))


class _Complaints:
    """Warnings, each on its 1st, 10th and 100th occasion."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def repeat(self, message: str) -> None:
        self._counts[message] += 1
        count = self._counts[message]
        if count in (1, 10, 100):
            text = message.format(count=count, limit=PROPOSAL_CHARS)
            warnings.warn(text, RuntimeWarning, stacklevel=4)


@dataclass(frozen=True, eq=False, slots=True)
class Reflector:
    """Asks a model what to change after a rollout; made by `reflector`."""

    _ask: Callable[[str], Awaitable[str]]
    _template: Template
    _meta_chars: int | None
    _format: _Format
    _complaints: _Complaints = field(default_factory=_Complaints)

    def bind_strategy(self, strategy: Any) -> "Reflector":
        """The same reflector, asking for proposals that `strategy` can read.

        Their format comes from the strategy's `proposal_instructions(state)`; one without that
        method is taken to read rules.
        """
        return replace(self, _format=_Format.of(strategy), _complaints=_Complaints())

    async def reflect(self, reflection: Reflection) -> str | None:
        """Ask for a proposal; None if the model has none."""
        return self._proposal(await self._ask(self._prompt(reflection)))

    async def __call__(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """As `reflect`, knowing of this rollout alone."""
        instructions = self._format.instructions(rendered)
        told = Reflection(rendered, {}, 0, task, output, reward, instructions=instructions)
        return await self.reflect(told)

    def _prompt(self, reflection: Reflection) -> str:
        limit = self._meta_chars
        return self._template.fill(
            artifact=shortened(reflection.rendered, ARTIFACT_CHARS),
            prompt=shortened(reflection.task.prompt, TEXT_CHARS),
            output=shortened(reflection.output, TEXT_CHARS),
            reward=float(reflection.reward),
            feedback=feedback_block(reflection.feedback),
            expected="" if limit is None else expected_block(reflection.meta, limit),
            others=others_block(reflection.others, limit),
            successes=successes_block(reflection.successes),
            rejected=rejected_block(reflection.rejected),
            instructions=reflection.instructions or RULE_INSTRUCTIONS,
        )

    def _proposal(self, reply: str) -> str | None:
        complaints = self._complaints
        if isinstance(reply, Reply) and reply.cut:
            return complaints.repeat(_CUT)
        text = bare(reply, self._format.keys)
        if not text:
            return complaints.repeat(_EMPTY)
        if len(text) > PROPOSAL_CHARS:
            return complaints.repeat(_LONG)
        return None if declines(text) else text


def reflector(
    complete: Completion,
    template: str = PROPOSE_TEMPLATE,
    show_meta: bool = True,  # noqa: FBT001, FBT002 - the documented form
    meta_chars: int = 600,
) -> Reflector:
    """Make `complete` the one who looks at a rollout and says what to change.

    The result is a `propose`: awaited with the rendered artifact, the task, the output and the
    reward, it gives the model's proposal. Thinking, a fence or quotes around the whole reply and a
    label such as "Rule:" are taken off. A reply of nothing but NONE is no proposal, and neither is
    an empty one, one that was cut off or one of more than 200,000 characters; these three warn
    (`RuntimeWarning`) on the 1st, 10th and 100th occasion.

    In a run it is asked through its `reflect`: with the scorer's feedback, with proposals that were
    rejected before, and for what the run's strategy can read (one rule, the complete new value,
    ...).

    What tasks, outputs, scorers and earlier proposals say stands between tags that do not occur in
    it. Of long texts the middle is left out, so that the prompt is bounded.

    Args:
        complete: Any completion; a synchronous one is called in a daemon thread.
        template: The prompt. It may use the fields artifact, prompt, output, reward, expected and
            instructions, and feedback, others, successes and rejected, which are empty where there
            is nothing to show; see `Template` for braces. What it does not use is not shown.
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
    return Reflector(asking(complete), filled, meta_chars if show_meta else None, _Format())


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
        self._complete = complete
        self._solve_template = Template(solve_template, _SOLVE_FIELDS)
        self._reflector = reflector(complete, propose_template, show_meta, meta_chars)

    def bind_strategy(self, strategy: Any) -> Self:
        """The same agent, proposing in the format that `strategy` reads."""
        bound = copy.copy(self)
        bound._reflector = self._reflector.bind_strategy(strategy)  # noqa: SLF001 - of its own kind
        return bound

    @property
    def identity(self) -> Identity:
        """What tells this agent from others when it solves: its completion and its template."""
        completion = identity_of(self._complete)
        name = f"LLMAgent({completion.name}, {self._solve_template.text!r})"
        return Identity(name, completion.explicit)

    async def solve(self, rendered: str, task: Task) -> str:
        """The model's reply to the task, stripped."""
        prompt = self._solve_template.fill(artifact=rendered, prompt=task.prompt)
        reply = await self._ask(prompt)
        return reply.stripped() if isinstance(reply, Reply) else reply.strip()

    async def propose(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """What to change, or None; see `reflector`."""
        return await self._reflector(rendered, task, output, reward)

    async def reflect(self, reflection: Reflection) -> str | None:
        """As `propose`, knowing all that a run can tell; a run asks this one."""
        return await self._reflector.reflect(reflection)
