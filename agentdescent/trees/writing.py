"""Writing files below a directory and nowhere else: through descriptors that follow no link."""

import os
import secrets
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from agentdescent.errors import TreeError
from agentdescent.policy.filetree_paths import match_any, safe_relpath
from agentdescent.policy.filetree_text import check_paths

EXECUTABLE = ("**/*.sh", "scripts/**", "**/bin/**")
"""Globs of files that are made executable."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def materialize(
    state: Mapping[str, str],
    dest: str | os.PathLike[str],
    *,
    prefix: str = "",
    exec_patterns: Iterable[str] = EXECUTABLE,
) -> list[str]:
    """Write the files of `state` below `dest`, which is made if it is not there.

    Each file appears as a whole or not at all, and takes over the mode of one that it replaces. A
    link on the way is never followed, wherever it points and whoever put it there.

    Args:
        state: Path to text; files that a `Tree` says are executable become so.
        dest: The directory.
        prefix: A directory below it for all of them.
        exec_patterns: Globs of further files to make executable; without the prefix.

    Returns:
        The paths that were written, below `dest`.

    Raises:
        TreeError: If a path is not safe, or something is in its way: a link, a directory, a
            special file. Paths are checked before anything is written.
        OSError: If something cannot be written.
    """
    check_paths(state)
    below = safe_relpath(prefix) + "/" if prefix else ""
    marked: frozenset[str] = getattr(state, "executable", frozenset[str]())
    patterns = tuple(exec_patterns)
    root = Path(dest).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with directory(root) as fd:
        for path in sorted(state):
            runs = path in marked or match_any(path, patterns)
            put(fd, below + path, state[path].encode("utf-8", "surrogatepass"), runs=runs)
    return [below + path for path in sorted(state)]


@contextmanager
def directory(path: Path) -> Generator[int]:
    """A descriptor of a directory, which must not be a link.

    Raises:
        TreeError: If it is one, or no directory.
    """
    try:
        fd = os.open(path, _DIRECTORY)
    except OSError:
        if path.is_dir() and not path.is_symlink():
            raise
        raise TreeError(f"{os.fspath(path)!r} is a link or no directory") from None
    try:
        yield fd
    finally:
        os.close(fd)


def put(root: int, path: str, data: bytes, *, runs: bool = False) -> None:
    """Write one file below the directory behind `root`; raises as `materialize`."""
    *folders, name = PurePosixPath(path).parts
    with _below(root, folders, path) as fd:
        old = mode_of(fd, name)
        if old is not None and not stat.S_ISREG(old):
            raise TreeError(f"{path!r} is not written: a {_kind(old)} is in its place")
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            _write(fd, temporary, data, old, runs=runs)
            os.replace(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=fd)
            raise


def remove(root: int, path: str) -> None:
    """Delete one file below the directory behind `root`; a link goes, not what it points to."""
    *folders, name = PurePosixPath(path).parts
    with _below(root, folders, path) as fd:
        os.unlink(name, dir_fd=fd)


def mode_of(fd: int, name: str) -> int | None:
    """The mode of what is called `name` there, a link's own; None for nothing."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _below(root: int, folders: list[str], path: str) -> Generator[int]:
    """A descriptor of the directory `folders`, made if it is not there."""
    fd = os.dup(root)
    try:
        for name in folders:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
            inner = _opened(fd, name, path)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _opened(fd: int, name: str, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=fd)
    except OSError:
        mode = mode_of(fd, name)
        if mode is None or stat.S_ISDIR(mode):
            raise
        raise TreeError(f"{path!r} is not written: {name!r} is a {_kind(mode)}") from None


def _write(fd: int, name: str, data: bytes, old: int | None, *, runs: bool) -> None:
    with os.fdopen(os.open(name, _FRESH, 0o666, dir_fd=fd), "wb") as file:
        file.write(data)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode if old is None else old) & 0o777
        os.fchmod(file.fileno(), mode | (stat.S_IXUSR | stat.S_IXGRP if runs else 0))


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "special file"
