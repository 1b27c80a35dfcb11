"""Writing a tree over a directory: all of it or nothing, and never through a link."""

import ctypes
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import TypedDict

from agentdescent.errors import TreeError
from agentdescent.policy.filetree_text import Tree, check_paths
from agentdescent.policy.line_merge import lines_of
from agentdescent.trees.loading import TreeSpec, selected
from agentdescent.trees.writing import directory, materialize, remove

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class WritePlan(TypedDict):
    """What writing a tree changes, or would change.

    Paths are relative to the directory and sorted.
    """

    written: list[str]
    """Files that are new or have another content."""

    extra: list[str]
    """Files that the directory has and the tree has not, as far as they are selected."""

    deleted: list[str]
    """Those of them that are deleted."""

    backup: str | None
    """Where the directory as it was has gone."""

    diff: str
    """All changes, as a unified diff."""


def write_tree(
    files: Mapping[str, str],
    path: str | os.PathLike[str],
    *,
    backup: bool = True,
    prune: bool = False,
    dry_run: bool = False,
    spec: TreeSpec | None = None,
    check: Callable[[Path], object] | None = None,
) -> WritePlan:
    """Make the directory `path` hold `files`; whatever else is in it stays.

    The new directory is made beside the old one and takes its place in one step, so that nobody
    ever sees half of it, and a failure leaves the old one as it was.

    Args:
        files: Path to text; a `Tree` also says which are executable.
        path: The directory; it need not exist.
        backup: Keep the old directory beside it, as ``<path>.bak-1``, ``.bak-2``, ...
        prune: Delete the files that `spec` selects and `files` does not have.
        dry_run: Change nothing.
        spec: Which files of the directory are the tree's, as given to `load_tree`.
        check: Raises if the directory that it is given must not be replaced. It is asked of the
            one that is there, and once more, when that has made room, of what came to be in it
            meanwhile.

    Raises:
        TreeError: If `path` or something in the way of a file is a link or of another kind, or if
            `path` is the current directory or above it.
        OSError: If something cannot be read or written.
    """
    check_paths(files)
    target = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - follows no link
    plan = _plan(files, target, spec or TreeSpec(), prune=prune)
    check = check if check is not None and target.is_dir() else None
    if check is not None:
        check(target)
    if dry_run or (target.is_dir() and not plan["written"] and not plan["deleted"]):
        return plan
    if Path.cwd().is_relative_to(target):
        raise TreeError(f"{target} is the current directory, or above it; write from elsewhere")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _build(fresh, target, files, plan)
        existed = target.is_dir()
        (_exchange if existed else os.rename)(fresh, target)
        if check is not None:
            _take_back_unless(check, fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if existed and backup:
        plan["backup"] = os.fspath(_set_aside(fresh, target))
    elif existed:
        shutil.rmtree(fresh)
    return plan


def _plan(files: Mapping[str, str], target: Path, spec: TreeSpec, *, prune: bool) -> WritePlan:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise TreeError(f"{target} is a link or no directory; name the directory itself")
    there = selected(target, spec) if target.is_dir() else []
    old = {path: _content(target, path) for path in files}
    written = [path for path in sorted(files) if old[path] != _bytes(files[path])]
    extra = [path for path in there if path not in files]
    deleted = extra if prune else []
    old |= {path: _content(target, path) for path in deleted}
    new = {path: files[path] for path in written}
    changes = (_diff(path, old[path], new.get(path)) for path in sorted([*written, *deleted]))
    return WritePlan(
        written=written, extra=extra, deleted=list(deleted), backup=None, diff="".join(changes)
    )


def _content(target: Path, path: str) -> bytes | None:
    """What a file holds now; None if there is none."""
    at = target
    for name in path.split("/"):
        at /= name
        try:
            mode = at.lstat().st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(mode):
            raise TreeError(f"{path!r} is not written: {at} is a link; replace it, or leave it out")
        if at != target / path and not stat.S_ISDIR(mode):
            raise TreeError(f"{path!r} is not written: {at} is no directory")
    if not stat.S_ISREG(at.lstat().st_mode):
        raise TreeError(f"{path!r} is not written: {at} is no regular file")
    return at.read_bytes()


def _diff(path: str, old: bytes | None, new: str | None) -> str:
    before = [] if old is None else _lines(old.decode("utf-8", "replace"))
    after = [] if new is None else _lines(new)
    names = (
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    return "".join(_ended(unified_diff(before, after, *names)))


def _lines(text: str) -> list[str]:
    return [line for line in lines_of(text) if line]


def _ended(lines: Iterator[str]) -> Iterator[str]:
    """`lines` of a diff, each ended, as programs that apply one expect."""
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _build(fresh: Path, target: Path, files: Mapping[str, str], plan: WritePlan) -> None:
    if target.is_dir():
        try:
            shutil.copytree(target, fresh, symlinks=True)
        except shutil.Error as error:
            raise TreeError(f"{target} cannot be copied: {error}") from error
    new = {path: files[path] for path in plan["written"]}
    materialize(Tree(new, getattr(files, "executable", ())), fresh, exec_patterns=())
    with directory(fresh) as fd:
        for path in plan["deleted"]:
            remove(fd, path)


def _exchange(fresh: Path, target: Path) -> None:
    """Let the two directories change places, in one step where the system has such a step."""
    if not _renameat2(fresh, target):
        aside = target.with_name(f"{fresh.name}.old")
        target.rename(aside)
        try:
            fresh.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        aside.rename(fresh)


def _take_back_unless(check: Callable[[Path], object], old: Path, target: Path) -> None:
    try:
        check(old)
    except BaseException:
        _exchange(old, target)
        raise


def _renameat2(fresh: Path, target: Path) -> bool:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(fresh), os.fsencode(target)
    return rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


def _set_aside(old: Path, target: Path) -> Path:
    backups = (target.with_name(f"{target.name}.bak-{number}") for number in count(1))
    return old.rename(next(path for path in backups if not os.path.lexists(path)))
