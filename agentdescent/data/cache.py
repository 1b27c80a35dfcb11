"""What has been downloaded: one file an entry, whole or not there."""

import json
import os
import re
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

DIRECTORY_VARIABLE = "AGENTDESCENT_CACHE"
OFFLINE_VARIABLE = "AGENTDESCENT_OFFLINE"

_FORMAT = 1
_SLUG_LENGTH = 40
_DENIALS = {"", "0", "false", "no", "off"}


@dataclass(frozen=True, slots=True)
class Download:
    """A body as a server sent it.

    Attributes:
        body: What it sent.
        revision: Of the data set, where the server tells it.
    """

    body: bytes
    revision: str | None = None


def cache_directory() -> Path:
    """`AGENTDESCENT_CACHE`, or ``~/.cache/agentdescent``."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "agentdescent"


def is_offline() -> bool:
    """True if `AGENTDESCENT_OFFLINE` is set to anything but "0", "false", "no" or "off"."""
    return os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in _DENIALS


def unique_name(readable: str, *identity: str) -> str:
    """A file name for `identity`, which no other identity has; `readable` is for people."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", readable).strip("_")[:_SLUG_LENGTH]
    digest = sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return f"{slug}-{digest}"


def load(path: Path) -> Download | None:
    """The entry at `path`; None if there is none, or none that is whole."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        header = cast("dict[str, Any]", json.loads(head))
        download = Download(body, header["revision"])
        return download if header["checksum"] == _checksum(download) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def store(path: Path, download: Download) -> None:
    """Put an entry at `path`, in one step: readers see the old one or the new one.

    Raises:
        OSError: If the file system refuses.
    """
    header = {"checksum": _checksum(download), "revision": download.revision}
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n" + download.body)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _checksum(download: Download) -> str:
    about = json.dumps([_FORMAT, download.revision]).encode()
    return sha256(about + download.body).hexdigest()
