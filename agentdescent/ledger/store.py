"""The commits of a ledger: trees, branches and their history, without any waiting."""

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pygit2 import GitError, Oid, Repository, Tree
from pygit2.transaction import ReferenceTransaction

from agentdescent.core.store import CommitNote, SavedSearch, SearchSave, Stored
from agentdescent.ledger import codec, index, keys, message, trees
from agentdescent.ledger.codec import Files
from agentdescent.ledger.disk import Disk
from agentdescent.ledger.failures import Contended, Damaged, probe
from agentdescent.ledger.faults import Step
from agentdescent.ledger.index import DEV, STABLE, Entry, Index
from agentdescent.ledger.objects import Objects, first_parent
from agentdescent.ledger.reader import Reader
from agentdescent.ledger.repository import reference, signature, target, tip
from agentdescent.ledger.searches import Searches
from agentdescent.ledger.terms import Terms

T = TypeVar("T")

_CACHED = 64
_TREES_AND_COMMIT = 6
"""About as many objects as a commit writes beside blobs."""

_REMEMBERED = 500
"""Writes after which libgit2 is made to forget what it has read, which it never does by itself."""


@dataclass(frozen=True, slots=True)
class View:
    """The tip of a branch, as it was read."""

    tip: Oid
    tree: Tree
    index: Index


@dataclass(frozen=True, slots=True)
class _Edits:
    """What a commit does to one artifact; `changes` writes the blobs."""

    artifact_id: str
    entry: Entry
    changes: Callable[[], trees.Changes]


class Store:
    """The commits of one open repository. For one thread at a time.

    Every writing method may raise `Contended`; it has then changed nothing that counts.
    """

    def __init__(self, repository: Repository, path: Path, terms: Terms | None = None) -> None:
        self._repository, self._path, self._terms = repository, path, terms or Terms()
        self._git_dir = path / ".git"
        self._reach = self._terms.faults.reach
        self._objects = Objects(self._git_dir, repository.odb)
        self._disk = Disk(self._git_dir, self._objects, self._terms)
        self._cache: dict[Oid, Files] = {}
        self._searches = Searches(repository, self._git_dir, self._objects, self._disk, self._terms)
        self._n_writes = 0
        self.n_loose: int = 0

    def close(self) -> None:
        """Sync what is left to be synced, and close the files of the repository."""
        try:
            if self._disk.owes:
                branches = (DEV, STABLE)
                tips = {reference(branch): tip(self._repository, branch) for branch in branches}
                search = self._searches.reference
                if search is not None:
                    tips[search] = target(self._repository, search)
                self._disk.settle({name: str(commit) for name, commit in tips.items()})
        finally:
            self._repository.free()

    def read(self, branch: str) -> dict[str, Stored]:
        """Every artifact on the tip of `branch`."""
        view = self._view(branch)
        return {
            name: entry.stored(name, MappingProxyType(self._state(view, name)))
            for name, entry in view.index.items()
        }

    def log(self, branch: str, limit: int) -> list[str]:
        """Short id and subject of the newest commits, newest first."""
        lines: list[str] = []
        oid: str | None = str(tip(self._repository, branch))
        while oid and len(lines) < limit:
            content = self._objects.read(oid)[1]
            _, _, text = content.decode("utf-8", "replace").partition("\n\n")
            lines.append(f"{oid[:7]} {message.subject_of(text)}")
            oid = first_parent(content)
        return lines

    def register(self, entry: Stored, files: Files) -> Stored:
        """Add an artifact to every branch that lacks it; return what is on dev."""
        name = entry.artifact_id
        for branch in (STABLE, DEV):
            view = self._view(branch)
            if name not in view.index:
                text = message.registered(name)
                self._put(branch, view, name, Entry.of(entry, 1), files, text)
        return self.read(DEV)[name]

    def save(self, save: SearchSave) -> None:
        """Write the state of this run's search."""
        self._save(save, str(tip(self._repository, DEV)))

    def adopt(self, artifact_id: str, alive: Collection[str]) -> SavedSearch | None:
        """Take over the newest search for an artifact whose run is none of `alive`.

        A commit that goes with it, and that its run did not live to put on dev, is put there.
        """
        found = self._searches.newest(artifact_id, alive)
        if found is None or artifact_id not in self._view(DEV).index:
            return None
        self._roll_forward(str(found.document["dev"]))
        self._searches.take_over(found)
        since = self._since(artifact_id, int(found.document["head"]))
        (_, base), *commits = reversed(since)
        return SavedSearch(found.run, found.document, found.pages, base, commits)

    def take_warnings(self) -> list[str]:
        """What the user has to hear of, once."""
        taken, self._searches.warnings = self._searches.warnings, []
        return taken

    def commit(
        self,
        entry: Stored,
        files: Files,
        base: int,
        note: CommitNote,
        save: SearchSave | None = None,
    ) -> tuple[str, int]:
        """Put a new state of an artifact on dev; return commit id and version.

        The state of this run's search is written with it, if given: before dev is moved, so that
        whoever finds it can finish that.

        Raises:
            CASConflict: If the artifact is not at version `base` there.
            ContractRejected: If its contract is another.
        """
        name, view = entry.artifact_id, self._view(DEV)
        index.check_base(view.index, entry, base, str(self._path))
        text = message.committed(name, base, note, self._state(view, name), entry.state)
        made = self._put(DEV, view, name, Entry.of(entry, base + 1), files, text, save)
        return str(made), base + 1

    def promote(self, artifact_id: str) -> int | None:
        """Take an artifact from dev to stable, unless they agree; return its version there."""
        dev, stable = self._view(DEV), self._view(STABLE)
        ours, theirs = dev.index.get(artifact_id), stable.index.get(artifact_id)
        if ours is None:
            return None
        place = keys.place(artifact_id)
        content, published = trees.subtree(dev.tree, place), trees.subtree(stable.tree, place)
        if theirs and ours.agrees_with(theirs) and _same(content, published):
            return theirs.version
        entry = ours.after(theirs)
        text = message.promoted(artifact_id, entry.version, str(dev.tip))
        edits = _Edits(artifact_id, entry, lambda: {place: content})
        self._append(STABLE, stable, edits, text)
        return entry.version

    def rollback(self, artifact_id: str, to: int) -> int:
        """Give an artifact on dev the state of version `to`, unless it has; return its version.

        Raises:
            NotInLedger: If there is no such artifact or version.
        """
        view = self._view(DEV)
        reader = Reader(self._repository, self._path)
        now = reader.tip(DEV)
        _, then = reader.find(now, artifact_id, to)
        entry, place = view.index[artifact_id], keys.place(artifact_id)
        self._objects.check_closure(then.id)
        content = trees.subtree(self._repository[then.id].peel(Tree), place)
        if _same(content, trees.subtree(view.tree, place)):
            return entry.version
        states = reader.state(now, artifact_id), reader.state(then, artifact_id)
        text = message.rolled_back(artifact_id, entry.version, to, *states)
        edits = _Edits(artifact_id, entry.after(entry), lambda: {place: content})
        self._append(DEV, view, edits, text)
        return entry.version + 1

    def _save(self, save: SearchSave, dev: str) -> None:
        """Only pages stay: the rest replaces what was written before."""
        self._searches.write(save, dev)
        self.n_loose += len(save.pages)
        self._note_write()

    def _roll_forward(self, commit: str) -> None:
        """Put `commit` on dev, if it was made for its tip and not put there."""
        head = tip(self._repository, DEV)
        with suppress(Damaged):
            if self._objects.parent(commit) == str(head):
                self._objects.check_closure(commit)
                self._publish(reference(DEV), head, Oid(hex=commit), "roll forward")
                self._disk.moved(reference(DEV))

    def _since(self, artifact_id: str, version: int) -> list[tuple[str, Stored]]:
        """The versions of an artifact on dev down to `version`, or to the oldest intact one."""
        found: list[tuple[str, Stored]] = []
        sound: set[str] = set()
        commit: str | None = str(tip(self._repository, DEV))
        with suppress(Damaged):
            while commit is not None:
                sound |= self._objects.check_closure(commit, sound=sound)
                view = self._view_at(Oid(hex=commit))
                entry = view.index.get(artifact_id)
                if entry is None:
                    break
                if found and entry.version == found[-1][1].version:
                    found[-1] = (commit, found[-1][1])  # another artifact's commit came after it
                else:
                    state = self._state(view, artifact_id)
                    found.append((commit, entry.stored(artifact_id, state)))
                if entry.version <= version:
                    break
                commit = self._objects.parent(commit)
        return found

    def _view(self, branch: str) -> View:
        return self._view_at(tip(self._repository, branch))

    def _view_at(self, head: Oid) -> View:
        with _sound(head):
            tree = self._repository[head].peel(Tree)
            return View(head, tree, index.load(trees.text(tree, index.FILE), str(self._path)))

    def _state(self, view: View, name: str) -> dict[str, Any]:
        with _sound(view.tip):
            return codec.decode(self._files(view.tree, name))

    def _files(self, tree: Tree, name: str) -> Files:
        below = trees.subtree(tree, keys.place(name))
        if below is None:
            return {}
        if below.id not in self._cache:
            self._remember(below, trees.files(below))
        return self._cache[below.id]

    def _remember(self, below: Tree, files: Files) -> None:
        self._cache[below.id] = files
        if len(self._cache) > _CACHED:
            del self._cache[next(iter(self._cache))]

    def _put(
        self,
        branch: str,
        view: View,
        name: str,
        entry: Entry,
        files: Files,
        text: str,
        save: SearchSave | None = None,
    ) -> Oid:
        """Commit the files of one artifact on top of `view`, writing only what differs there."""
        place, before = keys.place(name), self._files(view.tree, name)

        def changes() -> dict[str, Oid | None]:
            gone = {f"{place}/{path}": None for path in before.keys() - files.keys()}
            return gone | {
                f"{place}/{path}": self._repository.create_blob(
                    content.encode("utf-8", "surrogatepass")
                )
                for path, content in files.items()
                if before.get(path) != content
            }

        made = self._append(branch, view, _Edits(name, entry, changes), text, save)
        below = trees.subtree(self._repository[made].peel(Tree), place)
        if below:
            self._remember(below, files)
        return made

    def _append(
        self, branch: str, view: View, edits: _Edits, text: str, save: SearchSave | None = None
    ) -> Oid:
        """Commit on top of `view` and move the branch there."""
        made = _twice(lambda: self._write(view, edits, text))
        self._disk.written(str(made))
        if save is not None:
            self._save(save, str(made))
        self._publish(reference(branch), view.tip, made, text)
        self._disk.moved(reference(branch))
        self._note_write()
        return made

    def _note_write(self) -> None:
        self._n_writes += 1
        if not self._n_writes % _REMEMBERED:
            self._repository.free()

    def _write(self, view: View, edits: _Edits, text: str) -> Oid:
        listing = index.dump({**view.index, edits.artifact_id: edits.entry})
        listed = self._repository.create_blob(listing.encode())
        changes = {index.FILE: listed, **edits.changes()}
        self._reach(Step.BLOBS_WRITTEN)
        root = trees.graft(self._repository, view.tree, changes)
        author = signature()
        made = self._repository.create_commit(None, author, author, text, root, [view.tip])
        self.n_loose += len(changes) + _TREES_AND_COMMIT
        self._reach(Step.COMMIT_WRITTEN)
        return made

    def _publish(self, name: str, old: Oid, new: Oid, text: str) -> None:
        """Move the branch of this full name from `old` to `new` under git's own lock of it.

        A transaction, because unlike `Reference.set_target` it lets other threads run meanwhile.
        """
        transaction = self._repository.transaction()
        try:
            self._lock(transaction, name, old)
            self._reach(Step.BRANCH_LOCKED)
            try:
                transaction.set_target(name, new, message=message.subject_of(text))
                transaction.commit()
                self._reach(Step.BRANCH_MOVED)
            except (GitError, OSError):
                if target(self._repository, name) != new:
                    raise
        finally:
            # Leaving a `with` block would keep git's lock after a commit that failed.
            transaction.__exit__(Contended, None, None)  # pyright: ignore[reportUnknownMemberType]

    def _lock(self, transaction: ReferenceTransaction, name: str, expected: Oid) -> None:
        lock = self._git_dir / f"{name}.lock"
        try:
            transaction.lock_ref(name)
        except (GitError, OSError) as error:
            if lock.exists() or probe(lock.parent, writing=True) is None:
                raise Contended(lock) from error
            raise
        if target(self._repository, name) != expected:
            raise Contended(lock)


def _same(one: Tree | None, other: Tree | None) -> bool:
    return (one and one.id) == (other and other.id)


def _twice(write: Callable[[], T]) -> T:
    """A foreign `git gc` may remove an empty directory just before an object is put there."""
    try:
        return write()
    except (GitError, OSError):
        return write()


@contextmanager
def _sound(head: Oid) -> Generator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"commit {head} is not one of this ledger ({error})") from error
