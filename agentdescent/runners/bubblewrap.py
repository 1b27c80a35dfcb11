"""Isolation by Linux namespaces: the program `bwrap`."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentdescent.errors import AgentError, CommandNotStarted
from agentdescent.process import (
    Finished,
    Launch,
    Limits,
    StrPath,
    clean_environment,
    run_command,
)
from agentdescent.runners.isolation import DEFAULT_LIMITS, Workspace

WORK, HOME = "/workspace", "/home/agent"
"""Where a program finds its workspace and its HOME."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
_SETTINGS = (
    *("alternatives", "ca-certificates", "crypto-policies", "fonts", "group", "hosts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf"),
    *("passwd", "pki", "resolv.conf", "ssl/certs", "ssl/openssl.cnf", "timezone"),
)
_OPTIONS = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"),  # noqa: S108 - its own
)
_PROBE_S = 20.0


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Programs see a read-only system, their workspace and nothing else of this machine.

    They have no network, process numbers of their own, an empty ``/tmp``, and end with us whatever
    happens to us. It does not stop them from using the processor, or from filling the disk through
    many files in the workspace; and it is no stronger than the kernel.

    Attributes:
        limits: What each process may use.
        network: Let them use the network, also that of this machine's own services.
        readable: Further directories that they may read, at the path they have here. The system's
            and those of the running Python are readable anyway.
        program: Where `bwrap` is.
    """

    limits: Limits = DEFAULT_LIMITS
    network: bool = False
    readable: Sequence[StrPath] = ()
    program: str = "bwrap"

    def __post_init__(self) -> None:
        if isinstance(self.readable, str):
            raise TypeError(f"readable must be a list, got {self.readable!r}; put it in a list")

    @property
    def identity(self) -> str:
        """What of it may change what a program does."""
        readable = [os.fspath(path) for path in self.readable]
        return f"bubblewrap {self.limits} network={self.network} readable={readable}"

    async def prepare(self, root: Path, /) -> None:
        """See that namespaces can be had here.

        Raises:
            CommandNotStarted: If `bwrap` is not installed.
            AgentError: If the kernel, or the container around us, refuses them.
        """
        del root
        command = (self.program, *_OPTIONS, "--ro-bind", "/", "/", "--", "true")
        try:
            finished = await run_command(command, env=clean_environment(), timeout=_PROBE_S)
        except CommandNotStarted as error:
            advised = CommandNotStarted(
                f"{error}; install it, for instance by `apt-get install bubblewrap`, or use "
                "isolation=Plain(), which isolates nothing"
            )
            advised.attempts_made = 1
            raise advised from error.__cause__
        if finished.returncode:
            refusal = AgentError(
                f"{self.program!r} cannot isolate programs here: {finished.stderr.strip()}; allow "
                "unprivileged user namespaces, or use another isolation"
            )
            refusal.attempts_made = 1
            raise refusal

    def confine(self, launch: Launch, space: Workspace, /) -> Launch:
        """Start it under `bwrap`.

        Raises:
            CommandNotStarted: If there is no such program, or it cannot be read inside.
        """
        path = self._search_path(launch.env.get("PATH", os.defpath))
        self._refuse_hidden(os.fspath(launch.command[0]), launch.env)
        temporary = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), "/tmp")  # noqa: S108 - its own
        env = {**launch.env, **temporary, "PATH": path, "HOME": HOME}
        command = (
            *_limiting(self.limits),
            _located(self.program),
            *_OPTIONS,
            *(("--share-net",) if self.network else ()),
            *self._mounts(),
            *("--bind", str(space.work), WORK, "--bind", str(space.home), HOME, "--chdir", WORK),
            *("--remount-ro", "/", "--"),
            *launch.command,
        )
        return replace(launch, command=command, env=env)

    def complaint(self, finished: Finished, /) -> str:
        """What `bwrap` said, unless it was that there is no such program."""
        said = finished.stderr
        failed = finished.returncode == 1 and said.startswith("bwrap: ") and "execvp" not in said
        return said if failed else ""

    async def clear(self, space: Workspace, /) -> None:
        """Do nothing: all processes have ended with the first one of their namespace."""

    def _mounts(self) -> Iterator[str]:
        for place in _SYSTEM:
            if Path(place).is_symlink():
                yield from ("--symlink", os.readlink(place), place)  # noqa: PTH115 - as it stands
            else:
                yield from ("--ro-bind-try", place, place)
        for name in _SETTINGS:
            yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
        for place in self._readable():
            yield from ("--ro-bind", place, place)

    def _readable(self) -> list[str]:
        asked = (os.path.abspath(Path(path).expanduser()) for path in self.readable)  # noqa: PTH100
        found = dict.fromkeys((sys.prefix, sys.base_prefix, *asked))
        return [place for place in found if not _is_below(place, _SYSTEM)]

    def _search_path(self, path: str) -> str:
        visible = (*_SYSTEM, *self._readable())
        return os.pathsep.join(
            folder for folder in path.split(os.pathsep) if _is_below(folder, visible)
        )

    def _refuse_hidden(self, program: str, env: Mapping[str, str]) -> None:
        if "/" in program and not program.startswith("/"):  # in the workspace
            return
        found = shutil.which(program, path=env.get("PATH"))
        if found is None:
            raise _refusal(program, f"no such program, with PATH={env.get('PATH', '')!r}")
        visible, real = (*_SYSTEM, *self._readable()), os.path.realpath(found)
        if not (_is_below(found, visible) and _is_below(real, visible)):
            raise _refusal(
                program,
                f"{real} cannot be read inside; give Bubblewrap(readable=[...]) the directory it "
                "is installed in",
            )


def _refusal(program: str, reason: str) -> CommandNotStarted:
    refusal = CommandNotStarted(f"{program!r} could not be started: {reason}")
    refusal.attempts_made = 1
    return refusal


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _limiting(limits: Limits) -> tuple[str, ...]:
    """A command that grants what follows it no more than `limits`: from its very start."""
    import resource  # noqa: PLC0415 - not every system has it

    wanted = {
        "cpu": (limits.cpu_s, resource.RLIMIT_CPU),
        "as": (limits.memory_bytes, resource.RLIMIT_AS),
        "fsize": (limits.file_bytes, resource.RLIMIT_FSIZE),
        "nofile": (limits.open_files, resource.RLIMIT_NOFILE),
        "nproc": (limits.processes, resource.RLIMIT_NPROC),
    }
    granted: list[str] = []
    for name, (limit, kind) in wanted.items():
        if limit is not None:
            _, most = resource.getrlimit(kind)
            at_most = limit if most == resource.RLIM_INFINITY else min(limit, most)
            granted.append(f"--{name}={at_most}")
    return (_located("prlimit"), *granted, "--") if granted else ()


def _located(program: str) -> str:
    """Where we find `program`; what is started in its turn has another search path."""
    return shutil.which(program) or program
