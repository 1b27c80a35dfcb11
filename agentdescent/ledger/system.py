"""What the operating system knows: owners, the disk, time that outlives the process."""

import ctypes
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")

if sys.platform == "win32":  # pragma: no cover

    def user_id() -> int:
        """Whose files this process may have made, as `os.stat` counts."""
        return 0

    def sync(path: Path) -> None:
        """Return when a file is on the disk; directories need no such thing here."""
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
else:

    def user_id() -> int:
        """Whose files this process makes, as `os.stat` counts."""
        return os.geteuid()

    def sync(path: Path) -> None:
        """Return when a file, or the names in a directory, are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_writable(*places: Path) -> bool:
    """True if all of these that exist may be written, and their file systems too."""
    return all(os.access(place, os.W_OK) for place in places if place.exists())


def replace(path: Path, content: bytes) -> None:
    """Put a file in place of whatever is at `path`, whole and on the disk."""
    unnamed = path.with_name(f"{path.name}.new")
    unnamed.write_bytes(content)
    sync(unnamed)
    unnamed.replace(path)
    sync(path.parent)


def give_back_memory() -> None:
    """Let the system have what was freed, for glibc keeps it where much was taken at once."""
    with suppress(TypeError, AttributeError):  # another C library, or none at all
        ctypes.CDLL(None).malloc_trim(0)


def host_name() -> str:
    """What this machine is called."""
    return socket.gethostname()


def boot_id() -> str:
    """What tells one start of this machine from every other; "" where nothing does."""
    try:
        return _BOOT.read_text(encoding="utf-8").strip()
    except OSError:  # pragma: no cover - not on Linux
        return ""


def now_s() -> float:
    """Seconds since the epoch. Durations are taken from a monotonic clock instead."""
    return datetime.now(UTC).timestamp()


def stamp() -> str:
    """The time as part of a file name, e.g. "20260102T030405Z"."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def age_s(status: os.stat_result) -> float:
    """Seconds since a file was last written; negative if its clock is ahead of ours."""
    return now_s() - status.st_mtime
