"""What lies in a workspace: the candidate's files, the task's fixtures, and the frozen ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentdescent.core.identity import Identity, canonical_json, digest, identity_of, utf8
from agentdescent.core.task import Task
from agentdescent.errors import TreeError
from agentdescent.policy.filetree_text import check_paths
from agentdescent.runners.calling import answer_of
from agentdescent.trees import Tree, match_any, materialize, parse_tree, safe_relpath
from agentdescent.trees.writing import directory, put

LAYOUTS: Mapping[str, str] = {
    "claude_skill": ".claude/skills/{name}",
    "claude_agent": ".claude/agents",
    "skill_library": ".claude/skills",
    "root": "",
}
"""Where the files of a tree are put, by the name of the layout; "" is the workspace itself."""

MAX_FILES = 10_000
"""More files are put into no workspace, neither of a tree nor of fixtures."""

MAX_BYTES = 256 * 1024 * 1024
"""Nor are more bytes."""

Content = str | bytes
Fixtures = Callable[[Task], Any]
"""Gives a task's fixtures: a mapping of path to text or bytes. May be a coroutine function."""


def folder_of(layout: str, name: str) -> str:
    """The directory that `layout` means, relative to the workspace; "" for the workspace itself.

    Raises:
        TreeError: If it is not below the workspace.
        ValueError: If it is no template of `{name}`.
    """
    try:
        folder = LAYOUTS.get(layout, layout).format(name=name)
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"layout={layout!r} is no directory: {error}; write one of {', '.join(LAYOUTS)}, or a "
            "path that may contain {name}"
        ) from None
    return safe_relpath(folder) if folder not in ("", ".") else ""


@dataclass(frozen=True, slots=True)
class Staging:
    """Puts a tree into a workspace.

    Attributes:
        folder: Where the tree goes.
        overlay: Pristine frozen files, written over the tree and the fixtures, last of all.
        frozen: Globs, without regard to case, of paths at which nothing but the overlay may be.
        fixtures: By default what a task's `meta["fixtures"]` holds.
    """

    folder: str
    overlay: Mapping[str, str]
    frozen: Sequence[str]
    fixtures: Fixtures | None

    def tree(self, rendered: str) -> Tree:
        """The files that `rendered` is, frozen ones as in the overlay, or not at all.

        Raises:
            TreeError: If it is no tree, or too large.
        """
        found = parse_tree(rendered)
        files = {path: text for path, text in found.items() if not self._is_frozen(path)}
        _refuse_excess("the tree", files)
        marked = {*found.executable, *getattr(self.overlay, "executable", ())}
        return Tree({**files, **self.overlay}, marked)

    async def fixtures_of(self, task: Task) -> Mapping[str, Content]:
        """The fixtures of `task`, by their path in the workspace.

        Raises:
            TreeError: If they are none, too many or too large, or one is where only frozen files
                may be.
        """
        given: Any = task.meta.get("fixtures")
        if self.fixtures is not None:
            given = await answer_of(self.fixtures, task)
        files = _files(task, {} if given is None else given)
        _refuse_excess(f"what task {task.id!r} has for fixtures", files)
        return {path: data for path, data in files.items() if not self._shadows(task, path)}

    def write(self, tree: Tree, fixtures: Mapping[str, Content], work: Path) -> None:
        """Write `tree`, `fixtures` and the overlay into the directory `work`, in that order."""
        below = f"{self.folder}/" if self.folder else ""
        check_paths({*(below + path for path in tree), *fixtures})
        materialize(tree, work, prefix=self.folder)
        with directory(work) as fd:
            for path, data in sorted(fixtures.items()):
                put(fd, path, data if isinstance(data, bytes) else utf8(data))
        pristine = Tree(self.overlay, getattr(self.overlay, "executable", ()))
        materialize(pristine, work, prefix=self.folder)

    @property
    def identity(self) -> Identity:
        """What of it may change what an agent does."""
        fixtures = identity_of(self.fixtures) if self.fixtures else Identity("meta", explicit=True)
        overlay, _ = canonical_json(self.overlay)
        pristine = digest(utf8(overlay)).hex()
        name = f"{self.folder!r} {pristine} {tuple(self.frozen)} {fixtures.name}"
        return Identity(name, fixtures.explicit)

    def _is_frozen(self, path: str) -> bool:
        folded = [pattern.casefold() for pattern in self.frozen]
        return path in self.overlay or match_any(path.casefold(), folded)

    def _shadows(self, task: Task, path: str) -> bool:
        """Whether the overlay is about to replace the fixture `path`."""
        below = f"{self.folder}/" if self.folder else ""
        inner = path.removeprefix(below)
        if not path.startswith(below) or not self._is_frozen(inner):
            return False
        if inner not in self.overlay:
            raise TreeError(
                f"the fixture {path!r} of task {task.id!r} is refused: frozen={list(self.frozen)} "
                "matches it; put it elsewhere, or into the overlay"
            )
        return True


def _files(task: Task, given: Any) -> dict[str, Content]:
    items = cast("Mapping[Any, Any]", given).items() if isinstance(given, Mapping) else [("", None)]
    if not all(isinstance(path, str) and isinstance(data, str | bytes) for path, data in items):
        raise TreeError(
            f"the fixtures of task {task.id!r} must map paths to text or bytes, got {given!r:.80}"
        )
    return dict(items)


def _refuse_excess(what: str, files: Mapping[str, Content]) -> None:
    if len(files) > MAX_FILES:
        raise TreeError(f"{what} is refused: {len(files)} files are more than {MAX_FILES}")
    total = 0
    for path, data in files.items():
        total += len(data)
        if total > MAX_BYTES:
            raise TreeError(f"{what} is refused: with {path!r} it has more than {MAX_BYTES} bytes")
