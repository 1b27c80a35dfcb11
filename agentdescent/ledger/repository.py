"""Makes, recognises and opens the repository of a ledger; refuses every other."""

import os
import secrets
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pygit2 import Config, GitError, Oid, Repository, Signature, settings
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from agentdescent.errors import LedgerRefused
from agentdescent.ledger import index, trees
from agentdescent.ledger.failures import Damaged, translated
from agentdescent.ledger.faults import Step
from agentdescent.ledger.index import DEV, STABLE
from agentdescent.ledger.owners import FOLDER
from agentdescent.ledger.system import now_s, sync
from agentdescent.ledger.terms import Terms
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


def prepare(path: Path, terms: Terms) -> None:
    """Make sure that a ledger is at `path`: make it where there is none, recognise it as ours.

    Several processes may do so at once.

    Raises:
        LedgerRefused: If something else is there, or a newer format; nothing was touched.
    """
    git_dir = path / ".git"
    if not _is_there(git_dir):
        with translated("create", path, writing=True):
            _create(path, terms)
    require_ours(git_dir)


def open_repository(git_dir: Path) -> Repository:
    """Open a repository, reading nothing but its configuration, and no other configuration."""
    with _isolated():
        repository = Repository(str(git_dir), _AS_GIVEN)
        _ = repository.config, repository.odb, repository.refdb  # read the configuration now
    return repository


def tip(repository: Repository, branch: str) -> Oid:
    """The commit that a branch points to.

    Raises:
        Damaged: If there is no such branch, or it cannot be read.
    """
    return target(repository, reference(branch), f"branch {branch!r}")


def target(repository: Repository, name: str, what: str = "") -> Oid:
    """The commit that the reference of a full name points to.

    Raises:
        Damaged: If there is none, or it cannot be read; it is called `what`, or by its name.
    """
    try:
        found = repository.lookup_reference(sys.intern(name)).target  # see trees
    except (GitError, KeyError) as error:
        raise Damaged(f"{what or name} cannot be read ({error})") from error
    if isinstance(found, str):
        raise Damaged(f"{what or name} points to {found!r} instead of a commit")
    return found


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


def _create(path: Path, terms: Terms) -> None:
    """Build the repository beside its place and move it there whole: no half-made one exists."""
    if all((path / name).exists() for name in ("HEAD", "objects", "refs")):
        raise _refused(path, "the path is itself a git directory")
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    aside = path / f".git.new-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        _lay_out(aside)
        terms.faults.reach(Step.LAID_OUT)
        _commit_genesis(open_repository(aside))
        if terms.syncs:
            _sync_all(aside)
        terms.faults.reach(Step.BORN)
        aside.rename(path / ".git")
        if terms.syncs:
            for folder in (path, *(made.parent for made in missing)):
                sync(folder)
        terms.faults.reach(Step.CREATED)
    except OSError:
        if not _is_there(path / ".git"):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _lay_out(git_dir: Path) -> None:
    for folder in ("objects/pack", "refs/heads", FOLDER):
        (git_dir / folder).mkdir(parents=True)
    for name, text in (
        ("HEAD", f"ref: {reference(DEV)}\n"),
        ("config", _CONFIG),
        ("agentdescent.lock", ""),
        ("agentdescent.queue", ""),
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


def _sync_all(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            sync(Path(place, name))
        sync(Path(place))


def require_ours(git_dir: Path) -> None:
    """Refuse what is not the repository of a ledger.

    Raises:
        LedgerRefused: Saying what it is instead.
    """
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
