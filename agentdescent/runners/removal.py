"""Removing directories that a hostile program has filled."""

import os
import secrets
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

_ATTEMPTS = 3


def remove(path: Path) -> None:
    """Remove whatever is at `path`: a directory of any depth and any modes; links are not followed.

    Directories are moved up before they are emptied, so no path grows long and nothing recurses.

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
    names = map(f".{secrets.token_hex(8)}-{{}}".format, count())
    pending = [path]
    for folder in pending:  # grows meanwhile
        with suppress(OSError):  # somebody else's: then it is empty, or cannot be removed
            folder.chmod(0o700)
        with os.scandir(folder) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in listed:
            if not is_folder:
                (folder / name).unlink(missing_ok=True)
            elif folder == path:
                pending.append(folder / name)
            else:
                _make_movable(folder / name)
                pending.append((folder / name).rename(path / next(names)))
    for folder in reversed(pending):
        folder.rmdir()


def _make_movable(folder: Path) -> None:
    """A directory that may not be written cannot change its parent."""
    with suppress(OSError):
        folder.chmod(0o700)
