"""What of a tree a reflector is shown: the files that matter first, whole while there is room."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

LEAST_HEAD = 500
"""A file is not shown in part if that part had fewer characters."""

_ENTRIES = ("skill.md", "agent.md", "agents.md", "claude.md", "readme.md")


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of one file is shown: `room` characters, which may be fewer than it has."""

    path: str
    room: int


def ranked(paths: Iterable[str], said: Iterable[str]) -> list[str]:
    """`paths`: first those that one of the texts `said` names, by their path or else their name.

    Then files where one begins to read, such as ``SKILL.md``; then the others, by their path.
    """
    texts = [*said]

    def rank(path: str) -> tuple[bool, bool, bool, str]:
        name = path.rpartition("/")[2]
        return not _named(path, texts), not _named(name, texts), name.lower() not in _ENTRIES, path

    return sorted(paths, key=rank)


def chosen(files: Mapping[str, str], order: Sequence[str], budget: int) -> list[Shown]:
    """Which of `order` to show within `budget` characters.

    Files are shown whole. The first that does not fit is shown in part if there is room for a
    sensible part; smaller ones after it may still fit.
    """
    found: list[Shown] = []
    is_cut = False
    for path in order:
        size = len(files[path])
        if size <= budget:
            found.append(Shown(path, size))
            budget -= size
        elif not is_cut and budget >= LEAST_HEAD:
            is_cut = True
            found.append(Shown(path, budget))
            budget = 0
    return found


def listing(files: Mapping[str, str], is_writable: Callable[[str], bool], limit: int = 200) -> str:
    """One line a file: its path, its length, and whether it may not be edited."""
    lines = [
        f"{path}  ({len(files[path]):,} chars{'' if is_writable(path) else '; frozen'})"
        for path in sorted(files)
    ]
    more = [f"... and {len(lines) - limit} more file(s)"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *more]) or "(there are no files yet)"


def _named(path: str, texts: Iterable[str]) -> bool:
    mark = re.compile(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)")
    return any(mark.search(text) for text in texts)
