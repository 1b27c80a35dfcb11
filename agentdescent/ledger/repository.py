"""Makes, recognises and opens the repository of a ledger; refuses every other."""

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pygit2 import Config, GitError, Oid, Repository, Signature, settings
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from agentdescent.errors import LedgerRefused
from agentdescent.ledger import index, trees
from agentdescent.ledger.failures import Damaged, translated
from agentdescent.ledger.index import DEV, STABLE
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.system import now_s
from agentdescent.threads import Lock

_NAME, _EMAIL = "agentdescent", "bot@agentdescent.local"
_MARKER = "agentdescent.format"
_CONFIG = f"""\
[core]
	repositoryFormatVersion = 1
	bare = true
	fileMode = false
	quotePath = false
	autocrlf = false
	logAllRefUpdates = always
	hooksPath = /dev/null
[extensions]
	preciousObjects = true
[gc]
	auto = 0
[commit]
	gpgSign = false
[user]
	name = {_NAME}
	email = {_EMAIL}
[agentdescent]
	format = {index.FORMAT}
"""
_LEVELS = (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA)
_AS_GIVEN = RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.NO_DOTGIT | RepositoryOpenFlag.BARE
_search_paths = Lock()


def open_repository(path: Path) -> Repository:
    """Open the ledger at `path`; make it first where there is none.

    Several processes may do so at once. Both branches are checked down to the last file of their
    tips before libgit2 reads an object.

    Raises:
        LedgerRefused: If something else is there, or a newer format; nothing was touched.
        Damaged: If a branch or what it holds is not intact.
    """
    git_dir = path / ".git"
    if not _is_there(git_dir):
        with translated("create", path, writing=True):
            _create(path)
    _require_ours(git_dir)
    repository = _open(git_dir)
    tips = [str(tip(repository, branch)) for branch in (DEV, STABLE)]
    Objects(git_dir, repository.odb).check_closure(*tips)
    return repository


def tip(repository: Repository, branch: str) -> Oid:
    """The commit that a branch points to.

    Raises:
        Damaged: If there is no such branch, or it cannot be read.
    """
    try:
        target = repository.lookup_reference(reference(branch)).target
    except (GitError, KeyError) as error:
        raise Damaged(f"branch {branch!r} cannot be read ({error})") from error
    if isinstance(target, str):
        raise Damaged(f"branch {branch!r} points to {target!r} instead of a commit")
    return target


def reference(branch: str) -> str:
    """The full name of a branch."""
    return f"refs/heads/{branch}"


def signature() -> Signature:
    """Who commits, now: nothing of this machine or its user."""
    return Signature(_NAME, _EMAIL, int(now_s()), 0)


def _is_there(git_dir: Path) -> bool:
    try:
        git_dir.lstat()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise _refused(git_dir.parent, "the path is a file, or leads through one") from None
    return True


def _create(path: Path) -> None:
    """Build the repository beside its place and move it there whole: no half-made one exists."""
    if all((path / name).exists() for name in ("HEAD", "objects", "refs")):
        raise _refused(path, "the path is itself a git directory")
    path.mkdir(parents=True, exist_ok=True)
    aside = path / f".git.new-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        _lay_out(aside)
        _commit_genesis(_open(aside))
        aside.rename(path / ".git")
    except OSError:
        if not _is_there(path / ".git"):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _lay_out(git_dir: Path) -> None:
    for folder in ("objects/pack", "refs/heads"):
        (git_dir / folder).mkdir(parents=True)
    for name, text in (
        ("HEAD", f"ref: {reference(DEV)}\n"),
        ("config", _CONFIG),
        ("agentdescent.lock", ""),
    ):
        (git_dir / name).write_text(text)


def _commit_genesis(repository: Repository) -> None:
    blob = repository.create_blob(index.dump({}).encode())
    tree = trees.graft(repository, None, {index.FILE: blob})
    author = signature()
    commit = repository.create_commit(None, author, author, "genesis", tree, [])
    for branch in (DEV, STABLE):
        repository.create_reference(reference(branch), commit)
    repository.free()


def _require_ours(git_dir: Path) -> None:
    if not git_dir.is_dir():
        raise _refused(git_dir.parent, ".git there is a file, as of a worktree or submodule")
    try:
        number = Config(str(git_dir / "config"))[_MARKER] or ""
    except KeyError:
        number = ""
    if not number.isdecimal():
        raise _refused(git_dir.parent, f"its git configuration has no {_MARKER}: it is not ours")
    index.check_format(int(number), str(git_dir.parent))


def _refused(path: Path, reason: str) -> LedgerRefused:
    return LedgerRefused(
        f"{reason}; nothing was changed",
        operation="open",
        repo_path=str(path),
        hint="use a repo_path of its own for the ledger",
    )


def _open(git_dir: Path) -> Repository:
    with _isolated():
        repository = Repository(str(git_dir), _AS_GIVEN)
        _ = repository.config, repository.odb, repository.refdb  # read the configuration now
    return repository


@contextmanager
def _isolated() -> Generator[None]:
    """Hide the configuration of user and machine from whatever is opened meanwhile.

    The search paths are libgit2's, one set for the whole process; what was opened keeps what it
    has read.
    """
    search = settings.search_path
    with _search_paths:
        before = {level: search[level] for level in _LEVELS}
        try:
            for level in _LEVELS:
                search[level] = ""
            yield
        finally:
            for level, value in before.items():
                search[level] = value
