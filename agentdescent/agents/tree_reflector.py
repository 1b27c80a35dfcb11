"""A reflector for directories: it shows the files that matter as files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentdescent.agents.completion import Completion
from agentdescent.agents.llm import Reflector, reflector
from agentdescent.agents.templates import PROPOSE_TEMPLATE, data, shortened
from agentdescent.core.contracts import require_methods
from agentdescent.core.reflection import Reflection
from agentdescent.core.task import Task
from agentdescent.policy.filetree_paths import match_any
from agentdescent.policy.filetree_text import parse_tree
from agentdescent.policy.filetree_view import chosen, listing, ranked

_NEEDED = ("proposal_instructions", "writable")


@dataclass(frozen=True, eq=False, slots=True)
class TreeReflector:
    """Asks a model which files to edit, and how; made by `tree_reflector`."""

    _inner: Reflector
    _strategy: Any
    _context_files: tuple[str, ...]
    _max_context_chars: int
    _max_output_chars: int

    def bind_strategy(self, strategy: Any) -> "TreeReflector":
        """The same reflector for another strategy, which must be one for trees.

        Raises:
            TypeError: If it is not.
        """
        require_methods("the strategy of a tree_reflector", strategy, _NEEDED)
        return replace(self, _inner=self._inner.bind_strategy(strategy), _strategy=strategy)

    async def reflect(self, reflection: Reflection) -> str | None:
        """Ask for edits; None if the model has none."""
        shown = replace(
            reflection,
            rendered=self._view(reflection),
            output=shortened(reflection.output, self._max_output_chars),
            instructions=self._strategy.proposal_instructions(reflection.state),
        )
        return await self._inner.reflect(shown)

    async def __call__(self, rendered: str, task: Task, output: Any, reward: float) -> str | None:
        """As `reflect`, knowing of this rollout alone.

        Raises:
            TreeError: If `rendered` is no tree.
        """
        told = Reflection(rendered, parse_tree(rendered), 0, task, output, reward)
        return await self.reflect(told)

    def _view(self, reflection: Reflection) -> str:
        files = {path: str(text) for path, text in reflection.state.items()}
        order = ranked(filter(self._is_context, files), _said(reflection))
        shown = chosen(files, order, self._max_context_chars)
        parts = [f"{one.path}:\n{data('file', files[one.path], one.room)}" for one in shown]
        seen = {one.path for one in shown}
        unseen = [path for path in order if path not in seen]
        if unseen:
            parts.append(f"There was no room to show: {', '.join(unseen)}")
        return "\n\n".join([listing(files, self._strategy.writable), *parts])

    def _is_context(self, path: str) -> bool:
        return match_any(path, self._context_files) and self._strategy.writable(path)


def _said(reflection: Reflection) -> Iterator[str]:
    """Texts that may name the files that matter."""
    yield from (str(reflection.output), reflection.feedback, reflection.task.prompt)
    yield str(reflection.meta.get("trace", ""))
    for other in reflection.others:
        yield from (str(other.output), other.feedback, other.task.prompt)


def tree_reflector(
    complete: Completion,
    *,
    strategy: Any,
    context_files: Sequence[str] = ("**",),
    max_context_chars: int = 48_000,
    max_output_chars: int = 2_000,
    template: str = PROPOSE_TEMPLATE,
    show_meta: bool = True,
    meta_chars: int = 600,
) -> TreeReflector:
    """Make `complete` the one who looks at a rollout and edits the files of a `FileTree`.

    It is a `propose`, as `reflector` is, and treats replies as that does. It shows all files with
    their lengths, and those that may be edited whole: first those that the output, the feedback or
    the task name, or ``meta["trace"]``. Where there is no room for one, that is said.

    Args:
        complete: Any completion; a synchronous one is called in a daemon thread.
        strategy: The `FileTree` of the run.
        context_files: Globs of files to show.
        max_context_chars: Of files are shown at most.
        max_output_chars: Of the agent's output are shown about as many.
        template: The prompt, as for `reflector`; its field `artifact` is the files.
        show_meta: Show `Task.meta`, such as the gold answer.
        meta_chars: How much of it, in characters; at least 1.

    Raises:
        ValueError: If a number is not positive.
        TypeError: If `strategy` is none for trees.
    """
    for name, value in (
        ("max_context_chars", max_context_chars),
        ("max_output_chars", max_output_chars),
    ):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    inner = reflector(complete, template, show_meta, meta_chars)
    unbound = TreeReflector(inner, None, tuple(context_files), max_context_chars, max_output_chars)
    return unbound.bind_strategy(strategy)
