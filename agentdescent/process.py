"""The one door to child processes: each in a group of its own, which ends with the call."""

import codecs
import errno
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any, Protocol, cast, runtime_checkable

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.lowlevel import checkpoint_if_cancelled

from agentdescent.errors import CommandNotStarted, CommandTimeout

StrPath = str | os.PathLike[str]

GRACE_S = 0.5
"""How long a program may tidy up after SIGTERM, and what it left behind may go on writing."""

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes kept of each stream, unless told otherwise."""

_ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
)

_STATUS_BYTES = 4096
"""More than the system tells of a process in one line."""

_BAD_LUCK = {
    errno.EAGAIN,
    errno.EINTR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ETXTBSY,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operating system grants each process of a command; None is what we have ourselves.

    They hold from just after the start, for the program and for what it starts from then on. More
    than we have ourselves cannot be granted.

    Attributes:
        cpu_s: Seconds of computing; then SIGKILL.
        memory_bytes: Address space; then allocations fail. Some runtimes reserve far more than they
            use.
        file_bytes: Size of a file written; then SIGXFSZ.
        open_files: Open descriptors.
        processes: Processes and threads of our user altogether; root has no limit.
    """

    cpu_s: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A program that is about to be started, and where.

    Attributes:
        command: The program and its arguments.
        cwd: Its working directory; None for ours.
        env: Its whole environment.
        limits: What it may use.
    """

    command: Sequence[StrPath]
    cwd: StrPath | None
    env: Mapping[str, str]
    limits: Limits | None = None


@runtime_checkable
class Confinable(Protocol):
    """An agent that is a program, and can be started in another way."""

    def confined(self, confine: Callable[[Launch], Launch], /) -> Any:
        """The same agent, its program started as `confine` says."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    Attributes:
        returncode: Its exit status, or minus the number of the signal that ended it.
        stdout: What it printed, as UTF-8 with replacement characters for what is none.
        stderr: The same of its error stream.
        stdout_dropped: Bytes that came after the first `max_output` and were thrown away.
        stderr_dropped: The same of its error stream.
        seconds: From the start to the end.
    """

    returncode: int
    stdout: str
    stderr: str
    stdout_dropped: int
    stderr_dropped: int
    seconds: float


async def run_command(
    command: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - what is late is an error with its own words
    max_output: int = MAX_OUTPUT,
    limits: Limits | None = None,
) -> Finished:
    """Run a program to its end and return what it printed, whatever its status.

    It gets a session and process group of its own. When the call ends, be it by a result, an error,
    the timeout or a cancellation, nothing of the group is left: SIGTERM, `GRACE_S` seconds later
    SIGKILL. On Linux, descendants that left the group go with it, unless the program, or whoever
    links them to it, had ended before. Those that stay and keep its output open are waited for
    `GRACE_S` seconds at most.

    Args:
        command: The program, looked up in the PATH of `env`, and its arguments.
        cwd: Its working directory, by default ours. A program given by a relative path with a slash
            is looked for there.
        env: Its whole environment, by default `clean_environment()`.
        stdin: What it may read; by default nothing.
        timeout: Seconds it may take; None for as long as it likes.
        max_output: Bytes kept of each output stream. What comes after is read and thrown away.
        limits: What it may use.

    Raises:
        CommandNotStarted: If it could not be started.
        CommandTimeout: If it had not ended after `timeout` seconds.
    """
    await checkpoint_if_cancelled()
    began = time.perf_counter()
    out, err = _Capture(max_output), _Capture(max_output)
    argv = [os.fspath(part) for part in command]
    process = await _start(argv, cwd, clean_environment() if env is None else env, stdin)
    try:
        with anyio.move_on_after(timeout):
            if limits is not None:
                _limit(process.pid, limits)
            await _follow(process, out, err)
        returncode = process.returncode
    finally:
        await _end(process)
    if returncode is None:
        late = CommandTimeout(f"{argv[0]!r} exceeded timeout={timeout:g}s and was ended")
        late.stdout, late.stderr = out.text, err.text
        raise late
    seconds = time.perf_counter() - began
    return Finished(returncode, out.text, err.text, out.dropped, err.dropped, seconds)


def clean_environment(
    passthrough: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    home: StrPath | None = None,
) -> dict[str, str]:
    """An environment for a child: search path, language, time zone, temporary directory, no more.

    Args:
        passthrough: Names of further variables of ours to hand on, as far as they are set.
        extra: Variables to set; they win.
        home: The child's HOME; by default it has none, unless HOME is handed on.
    """
    names = (*_ENVIRONMENT, *passthrough)
    environment = {name: os.environ[name] for name in names if name in os.environ}
    if home is not None:
        environment["HOME"] = os.fspath(home)
    return environment | dict(extra or {})


class _Capture:
    """The first bytes of a stream, and how many came after them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.dropped: int = 0

    async def read(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            room = self._limit - len(self._kept)
            self._kept += chunk[:room]
            self.dropped += max(0, len(chunk) - room)

    @property
    def text(self) -> str:
        """Without the character that the limit cut in two."""
        return codecs.utf_8_decode(self._kept, "replace", not self.dropped)[0]


async def _start(
    argv: list[str], cwd: StrPath | None, env: Mapping[str, str], stdin: str | None
) -> Process:
    try:
        with _readable(stdin) as source, _shielded():  # for milliseconds
            return await anyio.open_process(
                argv, stdin=source, cwd=cwd, env=env, start_new_session=True
            )
    except (OSError, ValueError) as error:
        raise _not_started(argv[0], cwd, env, error) from error


@contextmanager
def _shielded() -> Generator[None]:
    with anyio.CancelScope(shield=True):
        yield


@contextmanager
def _readable(text: str | None) -> Generator[int | IO[bytes]]:
    """A file for a child to read: unlike a pipe, nobody has to feed it, and it cannot break."""
    if text is None:
        yield DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
        yield file


def _not_started(
    program: str, cwd: StrPath | None, env: Mapping[str, str], error: OSError | ValueError
) -> CommandNotStarted:
    if cwd is not None and not Path(cwd).is_dir():
        reason = f"there is no directory {os.fspath(cwd)!r} to run it in"
    elif isinstance(error, FileNotFoundError):
        reason = f"no such program, or no interpreter for it, with PATH={env.get('PATH', '')!r}"
    else:
        reason = getattr(error, "strerror", None) or str(error)
    refusal = CommandNotStarted(f"{program!r} could not be started: {reason}")
    if getattr(error, "errno", None) not in _BAD_LUCK:
        refusal.attempts_made = 1
    return refusal


def _limit(pid: int, limits: Limits) -> None:
    import resource  # noqa: PLC0415 - not every system has it

    wanted = {
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes,
    }
    with suppress(ProcessLookupError):  # it has ended already
        for kind, limit in wanted.items():
            if limit is not None:
                _, most = resource.prlimit(pid, kind)
                granted = limit if most == resource.RLIM_INFINITY else min(limit, most)
                resource.prlimit(pid, kind, (granted, granted))


async def _follow(process: Process, out: _Capture, err: _Capture) -> None:
    """Read until the program has ended, and what it left behind for a moment longer."""
    async with anyio.create_task_group() as readers:
        readers.start_soon(out.read, cast("ByteReceiveStream", process.stdout))
        readers.start_soon(err.read, cast("ByteReceiveStream", process.stderr))
        await process.wait()
        readers.cancel_scope.deadline = anyio.current_time() + GRACE_S


async def _end(process: Process) -> None:
    with _shielded():
        runs = process.returncode is None
        try:
            with _strays_of(process.pid if runs else None) as strays:
                try:
                    if runs:
                        _signal(process.pid, strays, signal.SIGTERM)
                        with anyio.move_on_after(GRACE_S):
                            await process.wait()
                finally:
                    _signal(process.pid, strays, signal.SIGKILL)
        finally:
            await process.aclose()


def _signal(group: int, strays: Iterable[int], number: signal.Signals) -> None:
    """A group is signalled although its leader may be gone: others in it keep its number taken."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for stray in strays:
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(stray, number)


@contextmanager
def _strays_of(pid: int | None) -> Generator[list[int]]:
    """Handles, which cannot come to mean another process, on those who left the group of `pid`."""
    handles: list[int] = []
    try:
        if pid is not None and sys.platform == "linux":
            for stray in _left_group(pid):
                with suppress(OSError):
                    handles.append(os.pidfd_open(stray))
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def _left_group(pid: int) -> list[int]:
    children: dict[int, list[tuple[int, int]]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - many at once, and fast
        with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as status:  # noqa: PTH123
            _, parent, group, *_ = status.read(_STATUS_BYTES).rpartition(b")")[2].split(None, 3)
            children.setdefault(int(parent), []).append((int(name), int(group)))
    below = [(pid, pid)]
    for parent, _ in below:  # grows meanwhile
        below += children.get(parent, ())
    return [process for process, group in below if group != pid]
