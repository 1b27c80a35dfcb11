"""The objects of a repository, checked in Python before libgit2 may read them.

libgit2 1.9 never returns from a loose object whose file was cut short, as a power failure can leave
it, and keeps the whole interpreter waiting. Packed objects do not have the fault.
"""

import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from pygit2 import Odb

from agentdescent.ledger.failures import Damaged


class Objects:
    """Reads the objects of the repository at `git_dir`, each one checked."""

    def __init__(self, git_dir: Path, packs: Odb) -> None:
        self._loose, self._packs = git_dir / "objects", packs

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind and content of an object.

        Raises:
            Damaged: Naming the object, if it is missing or not intact.
        """
        try:
            stored = (self._loose / oid[:2] / oid[2:]).read_bytes()
        except FileNotFoundError:
            return self._read_packed(oid)
        return _unpacked(oid, stored)

    def check_closure(self, *commits: str) -> None:
        """Check that commits and everything their trees hold are there and intact.

        Raises:
            Damaged: Naming the first object that is not.
        """
        roots = {self._root(commit) for commit in commits}
        seen, pending = roots, list(roots)
        while pending:
            kind, content = self.read(pending.pop())
            if kind == "tree":
                inner = set(_inner(content)) - seen
                seen |= inner
                pending.extend(inner)

    def _root(self, commit: str) -> str:
        kind, content = self.read(commit)
        if kind != "commit":
            raise Damaged(f"object {commit} is a {kind} where a commit has to be")
        return content[5:45].decode()

    def _read_packed(self, oid: str) -> tuple[str, bytes]:
        try:
            kind, content = self._packs.read(oid)
        except KeyError:
            raise Damaged(f"object {oid} is missing") from None
        return kind.name.lower(), content


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


def _inner(tree: bytes) -> Iterator[str]:
    start = 0
    while start < len(tree):
        end = tree.index(b"\0", start) + 1
        yield tree[end : end + 20].hex()
        start = end + 20
