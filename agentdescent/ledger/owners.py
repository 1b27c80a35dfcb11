"""Who has a ledger open, and who died over it.

A run keeps a file of its own, locked, for as long as it has the ledger open, and removes it when it
closes. A file whose lock is free is what a dead run left. The kernel knows; no process id is
guessed about.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentdescent.ledger.system import boot_id, host_name, stamp, sync
from agentdescent.locks import close_private, is_seized, open_private, try_seize

FOLDER = "agentdescent-owners"
_SUFFIX, _UNNAMED = ".lock", ".new"


@dataclass(frozen=True, slots=True)
class Owner:
    """A run that has the ledger open, or had it when it died.

    Attributes:
        run: Its id.
        pid: The process; 0 if its file was lost before it was written.
        host: The machine.
        boot: The start of that machine.
    """

    run: str
    pid: int = 0
    host: str = ""
    boot: str = ""

    def __str__(self) -> str:
        """Who it is, for people."""
        return f"run {self.run} (process {self.pid} on {self.host or 'an unknown host'})"


@dataclass(frozen=True, slots=True)
class Survey:
    """The other runs of a ledger.

    Attributes:
        live: Those that have it open.
        dead: Those that died over it.
        unknown: Those of which nobody can tell, for the file system has no locks.
    """

    live: tuple[Owner, ...] = ()
    dead: tuple[Owner, ...] = ()
    unknown: tuple[Owner, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if every run that wrote has ended well or goes on."""
        return not self.dead and not self.unknown


def new_run() -> str:
    """An id for a run; later ones sort behind earlier ones, as far as clocks agree."""
    return f"{stamp()}-{secrets.token_hex(4)}"


def survey(git_dir: Path, own: str = "") -> Survey:
    """Look at the files of all runs but `own`; changes nothing."""
    found: dict[bool | None, list[Owner]] = {True: [], False: [], None: []}
    for file in _files(git_dir):
        run = file.name.removesuffix(_SUFFIX)
        if run != own:
            with suppress(FileNotFoundError):  # closed this moment
                found[_is_live(file)].append(_read(run, file))
    return Survey(tuple(found[True]), tuple(found[False]), tuple(found[None]))


def bury(git_dir: Path, dead: tuple[Owner, ...]) -> None:
    """Remove what dead runs left of themselves; for the holder of the ledger's lock."""
    folder = git_dir / FOLDER
    for owner in dead:
        (folder / f"{owner.run}{_SUFFIX}").unlink(missing_ok=True)
    for unnamed in folder.glob(f"*{_UNNAMED}"):
        unnamed.unlink(missing_ok=True)


class Claim:
    """The file of this run, locked from the moment it has its name. A forked child has no part."""

    def __init__(self, git_dir: Path, run: str, *, synced: bool = True) -> None:
        """Make the file; for the holder of the ledger's lock.

        Args:
            git_dir: The repository.
            run: The id of the run.
            synced: It outlives a power failure.

        Raises:
            OSError: If there is no room for it; nothing is left.
        """
        folder = git_dir / FOLDER
        folder.mkdir(exist_ok=True)
        self._pid = os.getpid()
        self._file = folder / f"{run}{_SUFFIX}"
        unnamed = folder / f"{run}{_UNNAMED}"
        self._descriptor = open_private(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            with suppress(OSError):  # no locks here: then nobody can take it for dead either
                try_seize(self._descriptor)
            owner = Owner(run, self._pid, host_name(), boot_id())
            os.write(self._descriptor, f"{json.dumps(asdict(owner))}\n".encode())
            if synced:
                os.fsync(self._descriptor)
            unnamed.rename(self._file)
            if synced:
                sync(folder)
        except BaseException:
            unnamed.unlink(missing_ok=True)
            self.release()
            raise

    def release(self) -> None:
        """Remove the file, and then its lock; nothing happens in a forked child."""
        if os.getpid() == self._pid:
            with suppress(OSError):  # what cannot be removed counts as a death, which is safe
                self._file.unlink()
            self.die()

    def die(self) -> None:
        """Give up the lock and leave the file, so that the next run looks at everything."""
        close_private(self._descriptor)


def _files(git_dir: Path) -> Iterator[Path]:
    return iter(sorted((git_dir / FOLDER).glob(f"*{_SUFFIX}")))


def _is_live(file: Path) -> bool | None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return is_seized(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(run: str, file: Path) -> Owner:
    try:
        fields: dict[str, Any] = json.loads(file.read_bytes())
        return Owner(run, int(fields["pid"]), str(fields["host"]), str(fields["boot"]))
    except (ValueError, LookupError, TypeError):
        return Owner(run)
