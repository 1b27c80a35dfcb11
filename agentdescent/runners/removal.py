"""Removing directories that a hostile program has filled, and may go on filling."""

import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_ATTEMPTS = 3
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> None:
    """Remove whatever is at `path`: a directory of any depth and any modes; links are not followed.

    Not even one that takes the place of a directory meanwhile: each is emptied through a
    descriptor. Directories are moved up before that, so nothing grows long and nothing recurses.

    Raises:
        OSError: If something cannot be removed, or others keep filling it.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(OSError):
            _remove(path)
            return
    with suppress(FileNotFoundError):
        _remove(path)


def _remove(path: Path) -> None:
    if not stat.S_ISDIR(path.lstat().st_mode):
        path.unlink()
        return
    with _entered(None, os.fspath(path)) as root:
        names = map(f".{secrets.token_hex(8)}-{{}}".format, count())
        pending = list(_emptied(root, root, names))
        for name in pending:  # grows meanwhile
            with _entered(root, name) as folder:
                pending += _emptied(folder, root, names)
        for name in pending:
            os.rmdir(name, dir_fd=root)
    path.rmdir()


def _emptied(folder: int, root: int, names: Iterator[str]) -> Iterator[str]:
    """Delete the files of `folder` and move its directories to `root`; their names there."""
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        if not is_folder:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            continue
        _unlock(folder, name)  # one that may not be written cannot change its parent
        new = next(names)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=root)
        yield new


@contextmanager
def _entered(above: int | None, name: str) -> Generator[int]:
    """A descriptor of a directory that may be read and written."""
    _unlock(above, name)
    folder = os.open(name, _FOLDER, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


def _unlock(above: int | None, name: str) -> None:
    """Let us read and write a directory, if it is ours; else it is empty, or cannot be removed."""
    with suppress(OSError):
        if os.chmod in os.supports_follow_symlinks:  # pragma: no cover - not on Linux
            os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
            return
        here = os.open(name, _FOLDER | os.O_PATH, dir_fd=above)  # needs no permission to read
        try:
            os.chmod(f"/proc/self/fd/{here}", 0o700)  # noqa: PTH101 - by its descriptor
        finally:
            os.close(here)
