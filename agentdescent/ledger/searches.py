"""The searches of the runs that share a ledger: each has a reference, beside the branches.

It points to a commit without parents, whose tree holds `search.json` and the pages. Nobody but the
run moves it, and it has no log: what it pointed to before is removed, for every state replaces the
one before it. All objects bear the name of their run, so that no two runs share one and what a run
leaves can be removed with it.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygit2 import Blob, GitError, Oid, Repository, Tree

from agentdescent.core.store import SearchSave
from agentdescent.errors import ContractError
from agentdescent.ledger import trees
from agentdescent.ledger.disk import Disk
from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.faults import Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.repository import signature
from agentdescent.ledger.system import now_s, sync
from agentdescent.ledger.terms import Terms

PLACE = "refs/agentdescent/search"
_FILE = "search.json"
_KEPT = 8
"""Searches of dead runs that wait to be adopted, at most."""


@dataclass(frozen=True, slots=True)
class Left:
    """A reference of a run, looked at.

    Attributes:
        run: The run.
        commit: What its reference points to.
        document: Its last document; None if that is damaged, or none of ours.
    """

    run: str
    commit: str
    document: Mapping[str, Any] | None

    @property
    def at(self) -> float:
        """When it was saved, in seconds since the epoch; damaged ones before all others."""
        return -1.0 if self.document is None else float(self.document.get("at", 0.0))


@dataclass(frozen=True, slots=True)
class Found:
    """A search that a run has left.

    Attributes:
        run: The run.
        commit: What its reference points to.
        document: Its last document; `dev` in it is the commit it goes with, `at` when it was made.
        pages: Everything it wrote, by name.
    """

    run: str
    commit: str
    document: Mapping[str, Any]
    pages: Mapping[str, bytes]


class Searches:
    """The searches in one repository. For one thread at a time, and the holder of the lock.

    Attributes:
        warnings: What there is to say about searches that are lost.
    """

    def __init__(
        self, repository: Repository, git_dir: Path, objects: Objects, disk: Disk, terms: Terms
    ) -> None:
        self._repository, self._git_dir = repository, git_dir
        self._objects, self._disk = objects, disk
        self._run, self._terms, self._reach = terms.run, terms, terms.faults.reach
        self._tree: Tree | None = None
        self._replaceable: dict[str, str] = {}
        self._inherited: str | None = None
        self.warnings: list[str] = []

    @property
    def reference(self) -> str | None:
        """The full name of this run's reference; None before it has one."""
        return _name(self._run) if self._replaceable or self._inherited else None

    def write(self, save: SearchSave, dev: str) -> None:
        """Write the state of this run's search, which goes with the commit `dev`.

        Raises:
            ContractError: If it is not JSON; nothing was written.
        """
        document = _encoded({**save.document, "dev": dev, "run": self._run, "at": now_s()})
        title = f"{self._run}\n".encode()
        changes = {self._path(name): self._blob(title + page) for name, page in save.pages.items()}
        changes[_FILE] = self._blob(document)
        tree = self._repository[trees.graft(self._repository, self._tree, changes)].peel(Tree)
        author = signature()
        text = f"search of run {self._run}"
        commit = str(self._repository.create_commit(None, author, author, text, tree.id, []))
        self._disk.written(commit)
        self._reach(Step.SEARCH_WRITTEN)
        self._point_to(commit)
        self._reach(Step.SEARCH_MOVED)
        self._replace(tree, {"commit": commit, _FILE: str(changes[_FILE])}, changes)
        self._reach(Step.SEARCH_PRUNED)

    def newest(self, artifact_id: str, alive: Collection[str]) -> Found | None:
        """The newest search for an artifact whose run is none of `alive`, nor this one.

        Searches that are damaged, and more of them than anybody will adopt, are forgotten.
        """
        chosen: Found | None = None
        n_waiting = 0
        known = references(self._repository, self._objects)
        for left in known:
            if left.run == self._run or left.run in alive:
                continue
            if left.document is None:
                self._lose(left.run)
            elif left.document.get("artifact") == artifact_id:
                n_waiting += 1
                if n_waiting > _KEPT:
                    self._forget(left.run)
                    self._discard(left.commit)
                elif chosen is None:
                    chosen = load(self._repository, self._objects, left) or self._lose(left.run)
        for run in self._torn({left.run for left in known}.union(alive)):
            self._lose(run)
        return chosen

    def take_over(self, found: Found) -> None:
        """Let this run's reference point to what another has left, in place of that one's."""
        self._point_to(found.commit)
        self._inherited = found.commit
        self._forget(found.run)

    def _point_to(self, commit: str) -> None:
        """Move this run's reference as git does: a lock, the new content, a rename."""
        file = self._git_dir / _name(self._run)
        self._make_folder(file.parent)
        lock = file.with_name(f"{file.name}.lock")
        lock.write_text(f"{commit}\n")
        if self._terms.durability == "power":
            sync(lock)  # there is no log from which a torn reference could be mended
        lock.replace(file)
        self._disk.moved(_name(self._run))

    def _make_folder(self, folder: Path) -> None:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        if self._terms.syncs:
            for made in missing:
                sync(made.parent)

    def _torn(self, known: Collection[str]) -> list[str]:
        """Runs whose reference names no commit, as a power failure can leave it."""
        names = [file.name for file in (self._git_dir / PLACE).glob("*")]
        return [name for name in names if name not in known and not name.endswith(".lock")]

    def _lose(self, run: str) -> None:
        (self._git_dir / _name(run)).unlink(missing_ok=True)
        self._forget(run)
        self.warnings.append(
            f"the saved search of run {run} in the git ledger in {self._git_dir.parent} was "
            "damaged, as a power failure or a bad disk leaves it; its statistics, measurements and "
            "waiting evidence are lost, the artifact is not"
        )

    def _forget(self, run: str) -> None:
        with suppress(KeyError):
            self._repository.references.delete(_name(run))

    def _discard(self, commit: str) -> None:
        """Remove the objects of a search to which nothing points any more."""
        with suppress(Damaged):
            for oid in self._objects.closure(commit, ()):
                self._objects.file(oid).unlink(missing_ok=True)

    def _replace(self, tree: Tree, made: dict[str, str], changes: Collection[str]) -> None:
        """Remove what the reference pointed to before and does no longer."""
        made[""] = str(tree.id)
        for path in changes:
            for folder in _folders(path):
                below = trees.subtree(tree, folder)
                if below is not None:
                    made[folder] = str(below.id)
        for name, oid in made.items():
            before = self._replaceable.get(name, oid)
            if before != oid:
                self._objects.file(before).unlink(missing_ok=True)
        if self._inherited is not None:
            self._discard(self._inherited)
            self._inherited = None
        self._replaceable |= made
        self._tree = tree

    def _blob(self, content: bytes) -> Oid:
        return self._repository.create_blob(content)

    def _path(self, page: str) -> str:
        """Where a page lies: a hundred of them in a folder."""
        kind, _, number = page.rpartition("/")
        return f"{kind}/{number[:-2]}/{number[-2:]}-{self._run}"


def references(repository: Repository, objects: Objects) -> list[Left]:
    """Every search in a repository, the newest first, damaged ones last."""
    found: list[Left] = []
    for name in repository.references:
        folder, _, run = name.rpartition("/")
        if folder == PLACE:
            with suppress(GitError, KeyError):  # torn: it names no commit; or gone this moment
                commit = repository.references[name].target
                if isinstance(commit, Oid):
                    document = _peek(repository, objects, str(commit))
                    found.append(Left(run, str(commit), document))
    return sorted(found, key=lambda left: left.at, reverse=True)


def load(repository: Repository, objects: Objects, left: Left) -> Found | None:
    """The search with its pages; None if it is damaged."""
    try:
        objects.check_closure(left.commit)
        pages = dict(_pages(repository[left.commit].peel(Tree)))
    except (Damaged, LookupError, ValueError):
        return None
    return Found(left.run, left.commit, left.document or {}, pages)


def _peek(repository: Repository, objects: Objects, commit: str) -> Mapping[str, Any] | None:
    try:
        root = objects.root(commit)
        objects.read(root)
        _, content = objects.read(str(repository[root].peel(Tree)[_FILE].id))
        return json.loads(content)
    except (Damaged, LookupError, ValueError):
        return None


def _pages(tree: Tree) -> Iterator[tuple[str, bytes]]:
    for kind in tree:
        if isinstance(kind, Tree):
            for folder in kind:
                if isinstance(folder, Tree):
                    yield from _pages_in(f"{kind.name}/{folder.name}", folder)


def _pages_in(folder: str, tree: Tree) -> Iterator[tuple[str, bytes]]:
    for page in tree:
        if isinstance(page, Blob) and page.name:
            _, _, content = page.data.partition(b"\n")
            yield f"{folder}{page.name.partition('-')[0]}", content


def _name(run: str) -> str:
    return f"{PLACE}/{run}"


def _folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _encoded(document: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(document, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"the state of the search cannot be saved as JSON ({error}); let dump() of samplers, "
            "plans and aggregators return JSON values"
        ) from None
