"""Reads the history of a ledger: takes no lock, leaves no trace, and trusts no object unchecked."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pygit2 import GitError, Repository

from agentdescent.core.diff import State
from agentdescent.errors import LedgerDamaged, LedgerRefused, NotInLedger
from agentdescent.ledger import codec, index, keys, packing
from agentdescent.ledger.failures import Damaged, translated
from agentdescent.ledger.history import Changes, Keys, Message, Version
from agentdescent.ledger.index import DEV, STABLE, Index
from agentdescent.ledger.message import clean
from agentdescent.ledger.objects import Objects, first_parent
from agentdescent.ledger.repository import open_repository, require_ours, target, tip
from agentdescent.ledger.searches import PLACE, Found, Left, load, references

T = TypeVar("T")

_TREE = "40000"
_CACHED = 64
_NO_TREE: Mapping[str, "_Entry"] = {}


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, as far as a reader wants to know.

    Attributes:
        id: 40 hex digits.
        tree: The id of its tree.
        parent: The id of its first parent; None if it has none.
        time: When it was made, in UTC.
        message: What it says.
    """

    id: str
    tree: str
    parent: str | None
    time: datetime
    message: Message


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a name in a tree stands for; the directory of a long key counts as a file."""

    oid: str
    is_tree: bool


def read(path: Path, operation: str, step: Callable[["Reader"], T]) -> T:
    """Let `step` read the ledger at `path`.

    Whoever packs may take away a pack that is being read, so a failure counts the second time.

    Raises:
        LedgerRefused: If there is none.
        LedgerDamaged: If what `step` needs is damaged; the message says what can be done.
    """
    with translated(operation, path):
        require_ledger(path)
        try:
            with _opened(path) as reader:
                return step(reader)
        except (Damaged, GitError):
            with _opened(path) as reader, _telling(reader, operation):
                return step(reader)


def require_ledger(path: Path) -> None:
    """Check that there is a ledger at `path`.

    Raises:
        LedgerRefused: If there is not, saying what there is.
    """
    if not (path / ".git").exists():
        raise LedgerRefused(
            "there is no ledger",
            operation="open",
            repo_path=str(path),
            hint="name the repo_path of a run, which is the directory that has .git in it",
        )
    require_ours(path / ".git")


class Reader:
    """Reads one open repository. For one thread at a time.

    Every method raises Damaged if an object it needs is missing or not what it has to be.

    Attributes:
        path: Where the ledger is.
    """

    def __init__(self, repository: Repository, path: Path) -> None:
        self._repository = repository
        self.path: Path = path
        self._objects = Objects(path / ".git", repository.odb)
        self._commit = lru_cache(_CACHED)(self._read_commit)
        self._entries = lru_cache(_CACHED)(self._read_entries)

    def tip(self, branch: str) -> Commit:
        """The newest commit of a branch.

        Raises:
            NotInLedger: If no branch has this name.
        """
        if branch not in (DEV, STABLE):
            raise self._missing(f"there is no branch {branch!r}; there are {DEV} and {STABLE}")
        return self._commit(str(tip(self._repository, branch)))

    def commits(self, newest: Commit) -> Iterator[Commit]:
        """A commit and those before it, the newest first."""
        commit: Commit | None = newest
        while commit:
            yield commit
            commit = self._before(commit)

    def index(self, commit: Commit) -> Index:
        """The artifacts of a commit."""
        with _of_this_ledger(commit):
            return index.load(self._text_at(commit.tree, index.FILE), str(self.path))

    def find(self, newest: Commit, artifact: str, number: int | None = None) -> tuple[int, Commit]:
        """The number of a version and the commit that made it; None finds the newest version.

        Raises:
            NotInLedger: If there is no such artifact or version.
        """
        last = self._last(newest, artifact)
        wanted = last if number is None else number
        if 1 <= wanted <= last:
            for found, commit in self._versions(newest, artifact):
                if found == wanted:
                    return wanted, commit
        raise self._missing(f"artifact {artifact!r} has no version {number}; it has 1 to {last}")

    def history(self, newest: Commit, artifact: str) -> list[Version]:
        """Every version of an artifact, the oldest first.

        Raises:
            NotInLedger: If there is no such artifact.
        """
        self._last(newest, artifact)
        versions = [self.version(*found, artifact) for found in self._versions(newest, artifact)]
        return versions[::-1]

    def version(self, number: int, commit: Commit, artifact: str) -> Version:
        """What there is to say of the version that `commit` made."""
        message, before = commit.message, self._before(commit)
        keys_ = self.differing(before, commit, artifact)
        reward_before, reward_after = message.reward()
        return Version(
            number=number,
            commit=commit.id,
            time=commit.time,
            subject=message.subject,
            body=message.body,
            category=message.trailers.get("Category", ""),
            round=message.integer("Round"),
            reward_before=reward_before,
            reward_after=reward_after,
            restores=message.integer("Restores"),
            source=message.trailers.get("Dev", ""),
            changed=keys_.changed,
            added=keys_.added,
            removed=keys_.removed,
        )

    def state(self, commit: Commit, artifact: str) -> State:
        """The state of an artifact, read-only, its keys sorted."""
        root = self._artifact(commit, artifact)
        with _of_this_ledger(commit):
            return MappingProxyType(codec.decode(dict(self._files(root, ""))))

    def changes(self, newest: Commit, artifact: str, before: int, after: int) -> Changes:
        """What became of an artifact from one version to another.

        Raises:
            NotInLedger: If there is no such artifact or version.
        """
        old, new = (self.find(newest, artifact, number)[1] for number in (before, after))
        states = self.state(old, artifact), self.state(new, artifact)
        each = self.differing(old, new, artifact).between(*states)
        return Changes(artifact, before, after, each)

    def differing(self, before: Commit | None, after: Commit, artifact: str) -> Keys:
        """The keys of an artifact in which two commits differ."""
        one_root = self._artifact(before, artifact) if before else None
        other_root = self._artifact(after, artifact)
        old: dict[str, tuple[str, str]] = {}
        new: dict[str, tuple[str, str]] = {}
        with _of_this_ledger(after):
            for path, one, other in self._apart(one_root, other_root, ""):
                folder, _, below = path.partition("/")
                for found, oid in ((old, one), (new, other)):
                    if oid:
                        found[self._key(below, oid)] = folder, oid
        both = old.keys() & new.keys()
        return Keys(
            changed=tuple(sorted(key for key in both if old[key] != new[key])),
            added=tuple(sorted(new.keys() - both)),
            removed=tuple(sorted(old.keys() - both)),
        )

    def last_search(self, artifact: str) -> Found | None:
        """The state of the last search for an artifact, whether or not its run is alive."""
        for left in references(self._repository, self._objects):
            if left.document is None or left.document.get("artifact") == artifact:
                found = load(self._repository, self._objects, left) if left.document else None
                if found is not None:
                    return found
                if self._has_moved(left):  # its run has saved again and removed what it had saved
                    return self.last_search(artifact)
        return None

    def _has_moved(self, left: Left) -> bool:
        with suppress(Damaged):
            return str(target(self._repository, f"{PLACE}/{left.run}")) != left.commit
        return True

    def way_out(self) -> str:
        """What can be done about damage."""
        try:
            packing.verify(self.path / ".git")
        except Damaged:
            return "a pack is damaged, so restore the ledger from a copy"
        try:
            self._objects.check_closure(*(self.tip(branch).id for branch in (DEV, STABLE)))
        except Damaged:
            return (
                "the next run with this repo_path steps back to the newest version that is intact, "
                "and puts aside what is damaged"
            )
        return "the newest version is intact; what is damaged can only come from a copy"

    def _versions(self, newest: Commit, artifact: str) -> Iterator[tuple[int, Commit]]:
        """Every version and the commit that made it, the newest first; genesis has none."""
        name, made = clean(artifact), None
        for commit in self.commits(newest):
            if commit.message.trailers.get("Artifact", name) != name:
                continue
            entry = self.index(commit).get(artifact)
            if made and (entry is None or entry.version != made[0]):
                yield made
            if entry is None:
                return
            made = entry.version, commit

    def _last(self, newest: Commit, artifact: str) -> int:
        found = self.index(newest)
        if artifact not in found:
            names = ", ".join(map(repr, found)) or "none yet"
            raise self._missing(f"there is no artifact {artifact!r}; there are: {names}")
        return found[artifact].version

    def _missing(self, message: str) -> NotInLedger:
        return NotInLedger(message, operation="look-up", repo_path=str(self.path))

    def _before(self, commit: Commit) -> Commit | None:
        return self._commit(commit.parent) if commit.parent else None

    def _read_commit(self, oid: str) -> Commit:
        kind, content = self._objects.read(oid)
        header, _, text = content.partition(b"\n\n")
        if kind != "commit":
            raise Damaged(f"object {oid} is a {kind} where a commit has to be")
        time = int(header.rpartition(b"\ncommitter ")[2].split(b"\n")[0].split()[-2])
        return Commit(
            oid,
            header[5:45].decode(),
            first_parent(content),
            datetime.fromtimestamp(time, UTC),
            Message.of(text.decode("utf-8", "replace")),
        )

    def _artifact(self, commit: Commit, artifact: str) -> str | None:
        """The id of an artifact's tree; None if it is not there, or empty."""
        oid: str | None = commit.tree
        for name in keys.place(artifact).split("/"):
            entry = self._entries(oid).get(name)
            oid = entry and entry.oid
        return oid

    def _files(self, tree: str | None, prefix: str) -> Iterator[tuple[str, str]]:
        for name, entry in self._entries(tree).items():
            path = f"{prefix}{name}"
            if entry.is_tree or name.startswith(keys.LONG):
                yield from self._files(entry.oid, f"{path}/")
            else:
                yield path, self._text(entry.oid)

    def _apart(
        self, one: str | None, other: str | None, prefix: str
    ) -> Iterator[tuple[str, str | None, str | None]]:
        """Path of every file that is not the same in two trees, and its id in each."""
        left, right = self._entries(one), self._entries(other)
        for name in left.keys() | right.keys():
            pair = left.get(name), right.get(name)
            if pair[0] != pair[1]:
                path = f"{prefix}{name}"
                files = [entry.oid if entry and not entry.is_tree else None for entry in pair]
                if any(files):
                    yield path, files[0], files[1]
                folders = [entry.oid if entry and entry.is_tree else None for entry in pair]
                if any(folders):
                    yield from self._apart(folders[0], folders[1], f"{path}/")

    def _key(self, path: str, oid: str) -> str:
        if not path.startswith(keys.LONG):
            return keys.key_of(path)
        return keys.key_of_long(path + keys.VALUE, self._text_at(oid, keys.KEY.removeprefix("/")))

    def _read_entries(self, tree: str | None) -> Mapping[str, _Entry]:
        return dict(_parsed(self._objects.read(tree)[1])) if tree else _NO_TREE

    def _text_at(self, tree: str, name: str) -> str:
        return self._text(self._entries(tree)[name].oid)

    def _text(self, oid: str) -> str:
        return self._objects.read(oid)[1].decode("utf-8", "surrogatepass")


def _parsed(tree: bytes) -> Iterator[tuple[str, _Entry]]:
    start = 0
    while start < len(tree):
        end = tree.index(b"\0", start)
        mode, _, name = tree[start:end].decode("utf-8", "surrogateescape").partition(" ")
        is_tree = mode == _TREE and not name.startswith(keys.LONG)
        start = end + 21
        yield name, _Entry(tree[end + 1 : start].hex(), is_tree)


@contextmanager
def _opened(path: Path) -> Generator[Reader]:
    repository = open_repository(path / ".git")
    try:
        yield Reader(repository, path)
    finally:
        repository.free()


@contextmanager
def _telling(reader: Reader, operation: str) -> Generator[None]:
    try:
        yield
    except (Damaged, GitError) as damage:
        path = str(reader.path)
        raise LedgerDamaged(
            str(damage), operation=operation, repo_path=path, hint=reader.way_out()
        ) from damage


@contextmanager
def _of_this_ledger(commit: Commit) -> Generator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"commit {commit.id} is not one of this ledger ({error})") from error
