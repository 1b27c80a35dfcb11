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

    A process that has put on another environment is not found.
    """
    mark = os.fsencode(path) + b"/"
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if mark in _environment(pid)]
        for pid in found:
            _kill(pid, mark)
        if not found:
            return


def _processes() -> Iterator[int]:
    if sys.platform == "linux":
        own = os.getpid()
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - fast
        yield from (pid for pid in pids if pid != own)


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123 - fast
            return environment.read()
    except OSError:  # it has ended, or is not ours
        return b""


def _kill(pid: int, mark: bytes) -> None:
    """Kill that very process: its number may be another's by now."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if mark in _environment(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
