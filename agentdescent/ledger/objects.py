"""The objects of a repository, checked in Python before libgit2 may read them.

libgit2 1.9 never returns from a loose object whose file was cut short, as a power failure can leave
it, and keeps the whole interpreter waiting. Packed objects do not have the fault.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from pygit2 import Odb, Oid

from agentdescent.ledger.failures import Damaged, probe

_FANS = frozenset(f"{number:02x}" for number in range(256))
_OWN_NAME = 38
_TREE = b"40000"
_PARENT = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE)


class Objects:
    """Reads the objects of the repository at `git_dir`, each one checked."""

    def __init__(self, git_dir: Path, packs: Odb) -> None:
        self._loose, self._packs = git_dir / "objects", packs

    def file(self, oid: str) -> Path:
        """Where a loose object lies, or would."""
        return self._loose / oid[:2] / oid[2:]

    def loose(self) -> Iterator[str]:
        """Every loose object, intact or not."""
        for fan in sorted(_FANS.intersection(_names_in(self._loose))):
            for name in _names_in(self._loose / fan):
                if len(name) == _OWN_NAME:
                    yield fan + name

    def damaged(self) -> list[str]:
        """Every loose object that is not what its name says."""
        return [oid for oid in self.loose() if not self.is_intact(oid)]

    def is_intact(self, oid: str) -> bool:
        """True unless the object is missing or damaged."""
        try:
            self.read(oid)
        except Damaged:
            return False
        return True

    def is_packed(self, oid: str) -> bool:
        """True if the object is in a pack and nowhere else."""
        return not self.file(oid).exists() and self._packs.exists(Oid(hex=oid))

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object.

        Raises:
            Damaged: Naming the object, if it is missing or not intact.
            OSError: If nothing can be read at all.
        """
        try:
            stored = self.file(oid).read_bytes()
        except FileNotFoundError:
            return self._read_packed(oid)
        return _unpacked(oid, stored)

    def check_closure(self, *commits: str, sound: Container[str] = ()) -> set[str]:
        """Check that commits and everything their trees hold are there and intact; their ids.

        Args:
            *commits: The commits.
            sound: What needs no check, and nothing below it either.

        Raises:
            Damaged: Naming the first object that is not.
        """
        new = {commit for commit in commits if commit not in sound}
        roots = {self.root(commit) for commit in new}
        pending = [root for root in roots if root not in sound]
        seen = new.union(pending)
        while pending:
            kind, content = self.read(pending.pop())
            if kind == "tree":
                inner = {oid for oid, _ in _inner(content) if oid not in sound} - seen
                seen |= inner
                pending.extend(inner)
        return seen

    def closure(self, commit: str, known: Container[str]) -> set[str]:
        """Ids of a commit and of everything its tree holds, but for `known` and what is below it.

        Only commits and trees are read.
        """
        pending = [self.root(commit)]
        found = {commit, *pending}
        while pending:
            for oid, is_tree in _inner(self.read(pending.pop())[1]):
                if oid not in known and oid not in found:
                    found.add(oid)
                    if is_tree:
                        pending.append(oid)
        return found

    def parent(self, commit: str) -> str | None:
        """The first parent of a commit; None if it has none.

        Raises:
            Damaged: If the commit cannot be read.
        """
        return first_parent(self.read(commit)[1])

    def root(self, commit: str) -> str:
        """The tree of a commit.

        Raises:
            Damaged: If the commit cannot be read, or is none.
        """
        kind, content = self.read(commit)
        if kind != "commit":
            raise Damaged(f"object {commit} is a {kind} where a commit has to be")
        return content[5:45].decode()

    def _read_packed(self, oid: str) -> tuple[str, bytes]:
        try:
            kind, content = self._packs.read(oid)
        except KeyError:
            code = probe(self._loose, writing=False)
            if code is not None:  # libgit2 takes a lack of descriptors for a lack of objects
                raise OSError(code, os.strerror(code)) from None
            raise Damaged(f"object {oid} is missing") from None
        return kind.name.lower(), content


def _names_in(directory: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(directory)  # noqa: PTH208 - no path is needed
    return []


def first_parent(commit: bytes) -> str | None:
    """The first parent in the content of a commit; None if it has none."""
    header, _, _ = commit.partition(b"\n\n")
    found = _PARENT.search(header)
    return found.group(1).decode() if found else None


def _unpacked(oid: str, stored: bytes) -> tuple[str, bytes]:
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(stored)
    except zlib.error as error:
        raise Damaged(f"object {oid} is not readable ({error})") from None
    if not stream.eof:
        raise Damaged(f"object {oid} is cut short")
    if stream.unused_data or hashlib.sha1(raw, usedforsecurity=False).hexdigest() != oid:
        raise Damaged(f"object {oid} does not hold what its name says")
    header, _, content = raw.partition(b"\0")
    return header.partition(b" ")[0].decode(), content


def _inner(tree: bytes) -> Iterator[tuple[str, bool]]:
    """Id of each entry, and whether it is a tree."""
    start = 0
    while start < len(tree):
        end = tree.index(b"\0", start) + 1
        yield tree[end : end + 20].hex(), tree.startswith(_TREE, start)
        start = end + 20
