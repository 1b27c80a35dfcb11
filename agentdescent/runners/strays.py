"""Processes that outlived the program which started them, found by their environment."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROUNDS = 8
"""So often we look again for what was started while the others were being killed."""


def end_strays(path: Path) -> None:
    """Kill the processes whose environment names a place in `path`; elsewhere than on Linux, none.

    A process that has put on another environment is not found. One that is becoming another program
    has none for a moment, and is known by its working directory.
    """
    mark = os.fsencode(path) + b"/"
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if _runs_for(mark, pid)]
        for pid in found:
            _kill(pid, mark)
        if not found:
            return


def _processes() -> Iterator[int]:
    if sys.platform == "linux":
        own = os.getpid()
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - fast
        yield from (pid for pid in pids if pid != own)


def _runs_for(mark: bytes, pid: int) -> bool:
    try:
        environment = read_bytes(f"/proc/{pid}/environ")
        place = environment or os.fsencode(os.readlink(f"/proc/{pid}/cwd")) + b"/"  # noqa: PTH115 - fast
    except OSError:  # it has ended, or is not ours
        return False
    return mark in place


def read_bytes(path: str) -> bytes:
    """All of a file."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - fast
        return file.read()


def _kill(pid: int, mark: bytes) -> None:
    """Kill that very process: its number may be another's by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _runs_for(mark, pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
