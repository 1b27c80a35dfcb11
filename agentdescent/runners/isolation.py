"""What stands between a program and the machine it runs on: one interface, and the plain case."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agentdescent.process import Finished, Launch, Limits
from agentdescent.runners.calling import to_the_end
from agentdescent.runners.strays import end_strays

DEFAULT_LIMITS = Limits(file_bytes=512 * 1024 * 1024)
"""What programs of a rollout may use, unless told otherwise: no file grows beyond 512 MiB."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The directories of one rollout.

    Attributes:
        path: All of it; the name is nobody else's, now or later.
    """

    path: Path

    @property
    def work(self) -> Path:
        """Where the program works; holds the artifact and the fixtures, and nothing of ours."""
        return self.path / "work"

    @property
    def home(self) -> Path:
        """Its HOME; empty at first."""
        return self.path / "home"

    @property
    def tmp(self) -> Path:
        """Where it puts temporary files, unless the isolation gives it another place."""
        return self.path / "tmp"


class Isolation(Protocol):
    """A way to start the programs of a rollout."""

    @property
    def identity(self) -> str:
        """What of it may change what a program does; part of what remembered rewards depend on."""
        ...

    async def prepare(self, root: Path, /) -> None:
        """See that programs can be started, and end what a dead run has left.

        Called before the first workspace is made below `root`.

        Raises:
            AgentError: If they cannot; it says what to install, or to use instead.
        """
        ...

    def confine(self, launch: Launch, space: Workspace, /) -> Launch:
        """How to start `launch`, whose directory is `space.work`; without HOME, it gets its own."""
        ...

    def complaint(self, finished: Finished, /) -> str:
        """Why it did not even start what `finished` tells of; "" if it did."""
        ...

    async def clear(self, space: Workspace, /) -> None:
        """End whatever still runs for `space`; called before it is removed."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """No isolation: a directory, an environment of its own, and limits.

    A program can read and write whatever this user can, and has the network. What it starts ends
    with it, be it in another process group or session, as long as it keeps its environment; so it
    is on Linux, elsewhere its process group alone.

    Attributes:
        limits: What each process may use.
    """

    limits: Limits = DEFAULT_LIMITS

    @property
    def identity(self) -> str:
        """What of it may change what a program does."""
        return f"plain {self.limits}"

    async def prepare(self, root: Path, /) -> None:
        """Do nothing: there is nothing to prepare."""

    def confine(self, launch: Launch, space: Workspace, /) -> Launch:
        """Add HOME, a directory for temporary files, and the limits; hide where we are at home.

        Of a search path that is our own, the directories below our home are left out, but for the
        one that holds the program.
        """
        temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(space.tmp))
        env = {"HOME": str(space.home), **launch.env, **temporary}
        path = env.get("PATH")
        if path is not None and path == os.environ.get("PATH"):
            env["PATH"] = _away_from_home(path, os.fspath(launch.command[0]))
        return replace(launch, env=env, limits=self.limits)

    def complaint(self, finished: Finished, /) -> str:
        """Nothing: what could not be started has raised."""
        del finished
        return ""

    async def clear(self, space: Workspace, /) -> None:
        """Kill the processes that this workspace was made for."""
        await to_the_end(end_strays, space.path)


def _away_from_home(path: str, program: str) -> str:
    home = Path(os.environ.get("HOME") or os.sep)
    if home == Path(home.anchor):
        return path
    found = shutil.which(program, path=path)
    needed = None if found is None else Path(found).parent
    folders = map(Path, path.split(os.pathsep))
    return os.pathsep.join(
        str(folder) for folder in folders if folder == needed or not folder.is_relative_to(home)
    )
