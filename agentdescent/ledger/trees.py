"""Files to git trees and back, touching no more than what changed.

Whatever pygit2 is to look up is interned: it keeps one more reference to the name every time and
never lets go of it, so that names made anew would pile up.
"""

import sys
from collections.abc import Iterator, Mapping

from pygit2 import Blob, Oid, Repository, Tree, TreeBuilder
from pygit2.enums import FileMode

Changes = Mapping[str, Oid | Tree | None]
"""Path to the blob or the tree that belongs there; None removes what is there."""


def graft(repository: Repository, base: Tree | None, changes: Changes) -> Oid:
    """Write `base` (None: an empty tree) with `changes`.

    Sub-trees that do not change are neither read nor written; empty ones vanish, for git has none.
    """
    return _grown(repository, base, changes).write()


def files(tree: Tree | None) -> dict[str, str]:
    """The content of every file below `tree`, by path.

    Lone surrogates survive; UnicodeDecodeError for anything else that is not UTF-8.
    """
    return dict(_walk(tree, "")) if tree else {}


def subtree(tree: Tree, path: str) -> Tree | None:
    """The directory at `path`, or None."""
    try:
        found = tree[sys.intern(path)]
    except KeyError:
        return None
    return found if isinstance(found, Tree) else None


def text(tree: Tree, path: str) -> str:
    """The content of the file at `path`.

    Raises:
        LookupError, ValueError: If there is none.
    """
    found = tree[sys.intern(path)]
    if not isinstance(found, Blob):
        raise ValueError(f"{path!r} is a directory")  # noqa: TRY004 - wrong content, not a bug
    return found.data.decode()


def _grown(repository: Repository, base: Tree | None, changes: Changes) -> TreeBuilder:
    """A file may become a directory and back: what goes, goes before what comes."""
    builder = repository.TreeBuilder(base) if base else repository.TreeBuilder()
    leaves, below = _by_first_name(changes)
    for name in leaves:
        if builder.get(name):
            builder.remove(name)
    for name, inner in below.items():
        found = builder.get(name)
        grown = _grown(repository, found if isinstance(found, Tree) else None, inner)
        if len(grown):
            builder.insert(name, grown.write(), FileMode.TREE)
        elif found:
            builder.remove(name)
    for name, leaf in leaves.items():
        if isinstance(leaf, Tree):
            builder.insert(name, leaf.id, FileMode.TREE)
        elif leaf:
            builder.insert(name, leaf, FileMode.BLOB)
    return builder


def _by_first_name(changes: Changes) -> tuple[dict[str, Oid | Tree | None], dict[str, Changes]]:
    leaves: dict[str, Oid | Tree | None] = {}
    below: dict[str, dict[str, Oid | Tree | None]] = {}
    for path, target in changes.items():
        first, slash, rest = path.partition("/")
        name = sys.intern(first)
        if slash:
            below.setdefault(name, {})[rest] = target
        else:
            leaves[name] = target
    return leaves, {**below}


def _walk(tree: Tree, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in tree:
        path = f"{prefix}{entry.name}"
        if isinstance(entry, Tree):
            yield from _walk(entry, f"{path}/")
        elif isinstance(entry, Blob):
            yield path, entry.data.decode("utf-8", "surrogatepass")
