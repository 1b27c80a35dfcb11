"""Trees of files as text: the rendering of a `FileTree`, and back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from agentdescent.errors import TreeError
from agentdescent.policy.filetree_paths import Places, safe_relpath

FORMAT = "agentdescent.filetree/1"


class Tree(dict[str, str]):
    """The text of files by their relative path.

    Attributes:
        executable: The paths of those that may be executed.
    """

    executable: frozenset[str]

    def __init__(self, files: Mapping[str, str] | None = None, executable: Iterable[str] = ()):
        super().__init__(files or {})
        self.executable = frozenset(executable) & self.keys()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree, (dict(self), sorted(self.executable))


def canonical(files: Mapping[str, Any], executable: Iterable[str] = ()) -> str:
    """`files` as JSON text that is equal for equal trees; `executable` as far as they exist."""
    record: dict[str, Any] = {"_": FORMAT, "files": dict(files)}
    if marked := sorted({*executable} & files.keys()):
        record["executable"] = marked
    text = json.dumps(record, sort_keys=True, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(record, sort_keys=True)
    return text


def parse_tree(text: str) -> Tree:
    """The tree that `canonical` gave; a plain JSON object of path and text is one as well.

    Raises:
        TreeError: If it is none.
    """
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise TreeError(
            f"the text is no tree, but {text[:60]!r}: {error}; use what a FileTree has rendered"
        ) from None
    record = cast("dict[str, Any]", found) if isinstance(found, dict) else None
    if record is None:
        raise TreeError(f"a tree is a JSON object of paths and texts, not {text[:60]!r}")
    executable: Any = []
    if record.get("_") == FORMAT:
        executable, record = record.get("executable", []), record.get("files")
    if not _maps_text(record) or not _is_list_of_text(executable):
        raise TreeError("a tree maps paths to texts; something else is among its values")
    return Tree(cast("dict[str, str]", record), executable)


def check_paths(paths: Iterable[str]) -> None:
    """Refuse paths that are not safe as they stand, or that collide.

    Raises:
        TreeError: Naming the first.
    """
    places = Places()
    for path in sorted(paths):
        if safe_relpath(path) != path:
            raise TreeError(f"the path {path!r:.200} is refused: write {safe_relpath(path)!r}")
        if other := places.collision(path):
            raise TreeError(f"{path!r} and {other!r} cannot lie beside each other everywhere")
        places.add(path)


def tree_summary(files: Mapping[str, str], limit: int = 40) -> str:
    """One line a file, with its length in characters; `limit` of them at most."""
    lines = [f"{path}  ({len(files[path]):,} chars)" for path in sorted(files)]
    more = [f"... and {len(lines) - limit} more file(s)"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *more]) or "(empty tree)"


def _maps_text(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return all(isinstance(value, str) for value in cast("dict[str, Any]", record).values())


def _is_list_of_text(names: Any) -> bool:
    return isinstance(names, list) and all(
        isinstance(name, str) for name in cast("list[Any]", names)
    )
