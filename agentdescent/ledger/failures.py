"""The one place where a failure of git or the file system becomes a ledger error.

Neither the class nor the text of what libgit2 raises is reliable, and it often has no errno. So a
failure is judged by what was being done and by what we find when we look ourselves.
"""

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentdescent.errors import (
    GitError,
    LedgerDamaged,
    LedgerError,
    LedgerFull,
    LedgerPermission,
    LedgerReadOnly,
)
from agentdescent.ledger.system import user_id

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PROBE_BYTES = 1 << 20


class Damaged(Exception):
    """An object or a branch of the ledger is missing or not what it has to be."""


class Contended(Exception):
    """Somebody else is moving a branch; worth another try after a moment.

    Attributes:
        lock: The lock file of the branch, there or not.
    """

    def __init__(self, lock: Path) -> None:
        super().__init__(f"another program holds {lock.name} or has just moved the branch")
        self.lock = lock


@contextmanager
def translated(operation: str, path: Path, *, writing: bool = False) -> Generator[None]:
    """Turn any failure in the block into the LedgerError it amounts to.

    Args:
        operation: What is being done, for the message.
        path: Where the ledger is.
        writing: The block writes: look for lack of space and of permission as well.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, LedgerError) or not isinstance(error, kinds()):
            raise
        kind, hint = _judge(error, path, writing=writing)
        raise kind(
            str(error) or type(error).__name__, operation=operation, repo_path=str(path), hint=hint
        ) from error


def probe(place: Path, *, writing: bool) -> int | None:
    """The errno of a file operation of our own in or above `place`; None if all is well."""
    try:
        folder = next(folder for folder in (place, *place.parents) if folder.is_dir())
        next(folder.iterdir(), None)
        if writing:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(os.urandom(_PROBE_BYTES))
    except OSError as error:
        return error.errno
    return None


def kinds() -> tuple[type[Exception], ...]:
    """Every class in which a failure of git or the file system may come."""
    from pygit2 import GitError as Libgit2Error  # noqa: PLC0415 - loads on first use

    return Damaged, Libgit2Error, OSError, LookupError, ValueError, MemoryError


def _judge(error: Exception, path: Path, *, writing: bool) -> tuple[type[LedgerError], str]:
    known = error.errno if isinstance(error, OSError) else None
    code = known or probe(path / ".git" / "objects", writing=writing)
    owner = _other_owner(path)
    if code in FULL:
        return LedgerFull, "free some space or raise the limit, or move the ledger elsewhere"
    if code in {errno.EMFILE, errno.ENFILE}:
        return GitError, "too many files are open: raise the limit (ulimit -n)"
    if owner is not None:
        return LedgerPermission, (
            f"it is owned by uid {owner} and this process is uid {user_id()}: chown it, or run "
            "as its owner"
        )
    if code in {errno.EROFS, errno.EACCES, errno.EPERM}:
        kind = LedgerReadOnly if writing else LedgerPermission
        return kind, "check its permissions and how its file system is mounted"
    if isinstance(error, Damaged):
        return LedgerDamaged, "restore it from a copy, or start over with another repo_path"
    return GitError, ""


def _other_owner(path: Path) -> int | None:
    try:
        owner = (path / ".git").stat().st_uid
    except OSError:
        return None
    return owner if owner != user_id() else None
