"""Reading what an agent has left in its workspace, where anything may lie."""

import os
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from agentdescent.core.reply import Reply
from agentdescent.errors import AgentError, TreeError
from agentdescent.process import MAX_OUTPUT
from agentdescent.trees import Tree, TreeSpec
from agentdescent.trees.loading import load_readable

_EVERYTHING = TreeSpec(include=("**",))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_answer(work: Path, path: str, otherwise: str) -> str:
    """The text of the file `path` below `work`, its first 4 MiB; `otherwise` if there is none.

    Raises:
        AgentError: If something else than a file of its own is there, such as a link.
    """
    try:
        data = _read(work, path)
    except (FileNotFoundError, NotADirectoryError):
        if _is_link(work, path):
            raise _refusal(path, "a link is on the way to it") from None
        return otherwise
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error
    return Reply(data[:MAX_OUTPUT].decode("utf-8", "replace"), cut=len(data) > MAX_OUTPUT)


def changes(work: Path, folder: str, before: Tree) -> Mapping[str, str | None]:
    """What is different in `folder` below `work` from `before`: path to new text, None if gone.

    Files that cannot be part of a tree do not count. Nothing, if what lies there is no tree.
    """
    try:
        with _entered(work, PurePosixPath(folder).parts) as fd:
            after, others = load_readable(fd, _EVERYTHING)
    except (TreeError, OSError):
        return {}
    gone = dict.fromkeys(before.keys() - after.keys() - {*others})
    return {path: text for path, text in after.items() if before.get(path) != text} | gone


@contextmanager
def _entered(work: Path, folders: Iterable[str]) -> Generator[int]:
    """A descriptor of a directory below `work`; no link on the way is followed."""
    fd = os.open(work, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _read(work: Path, path: str) -> bytes:
    *folders, name = PurePosixPath(path).parts
    with _entered(work, folders) as fd, os.fdopen(os.open(name, _FILE, dir_fd=fd), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, "it is no file")
        if status.st_nlink != 1:
            raise _refusal(path, "it is a hard link to another file")
        return file.read(MAX_OUTPUT + 1)


def _is_link(work: Path, path: str) -> bool:
    inner = PurePosixPath(path)
    return any((work / above).is_symlink() for above in (inner, *inner.parents))


def _refusal(path: str, reason: str) -> AgentError:
    refusal = AgentError(f"the answer file {path!r} is refused: {reason}")
    refusal.attempts_made = 1
    return refusal
