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

from pygit2 import Blob, Commit, GitError, Oid, Repository, Tree

from agentdescent.core.store import SearchSave
from agentdescent.errors import ContractError
from agentdescent.ledger import trees
from agentdescent.ledger.disk import Disk
from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.faults import Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.repository import signature
from agentdescent.ledger.system import sync
from agentdescent.ledger.terms import Terms

PLACE = "refs/agentdescent/search"
_FILE = "search.json"
_KEPT = 8
"""Searches of dead runs that wait to be adopted, at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """A search that a run has left.

    Attributes:
        run: The run.
        commit: What its reference points to.
        document: Its last document; `dev` in it is the commit it goes with.
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
        document = _encoded({**save.document, "dev": dev, "run": self._run})
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
        for run, commit in known:
            if run == self._run or run in alive:
                continue
            document = peek(self._repository, self._objects, commit)
            if document is None:
                self._lose(run)
            elif document.get("artifact") == artifact_id:
                n_waiting += 1
                if n_waiting > _KEPT:
                    self._forget(run)
                    self._discard(commit)
                elif chosen is None:
                    chosen = load(self._repository, self._objects, run, commit) or self._lose(run)
        for run in self._torn({run for run, _ in known}.union(alive)):
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


def references(repository: Repository, objects: Objects) -> list[tuple[str, str]]:
    """Run and commit of every search in a repository, the newest first, damaged ones last."""
    found: list[tuple[int, str, str]] = []
    for name in repository.references:
        folder, _, run = name.rpartition("/")
        if folder == PLACE:
            with suppress(GitError):  # torn: it names no commit
                commit = str(repository.references[name].target)
                found.append((_time(repository, objects, commit), run, commit))
    return [(run, commit) for _, run, commit in sorted(found, reverse=True)]


def peek(repository: Repository, objects: Objects, commit: str) -> Mapping[str, Any] | None:
    """The document of the search that `commit` holds; None if it is damaged, or none of ours."""
    try:
        root = objects.root(commit)
        objects.read(root)
        _, content = objects.read(str(repository[root].peel(Tree)[_FILE].id))
        return json.loads(content)
    except (Damaged, LookupError, ValueError):
        return None


def load(repository: Repository, objects: Objects, run: str, commit: str) -> Found | None:
    """The search that `commit` holds; None if it is damaged, or none of ours."""
    try:
        objects.check_closure(commit)
        tree = repository[commit].peel(Tree)
        document = json.loads(trees.text(tree, _FILE))
    except (Damaged, LookupError, ValueError):
        return None
    return Found(run, commit, document, dict(_pages(tree)))


def _time(repository: Repository, objects: Objects, commit: str) -> int:
    try:
        objects.read(commit)
        return repository[commit].peel(Commit).commit_time
    except (Damaged, ValueError):
        return -1


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
