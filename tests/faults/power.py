"""Simulated power failure: what was not synced is gone, or half there, or as it was before.

`Disk` notes in the working process what `os.fsync` has made durable: the content of files, the
names in directories. `lose` builds what a restart would find. It is harsher than real file systems:
a file may be empty, short or full of zeros, a name absent, a rename not made, each by chance and in
any order.
"""

import json
import os
import stat
from pathlib import Path


class Disk:
    """Takes the place of `os.fsync` and notes what it has made durable, by inode."""

    def __init__(self):
        self.files = {}
        self.folders = {}

    def fsync(self, descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.folders[status.st_ino] = names_in(path)
        else:
            self.files[status.st_ino] = path.read_bytes()

    def write(self, note):
        """Leave word of what is durable, for another process."""
        files = {inode: content.hex() for inode, content in self.files.items()}
        note.write_text(json.dumps([files, self.folders]))

    def read(self, note):
        """Learn what `write` has left, which is then gone."""
        files, folders = json.loads(note.read_text())
        self.files = {int(inode): bytes.fromhex(content) for inode, content in files.items()}
        self.folders = {int(inode): names for inode, names in folders.items()}
        note.unlink()


class Blackout:
    """Ends the process at the n-th breath, with a note of what its disk had made durable."""

    def __init__(self, at, disk, note):
        self._left, self._disk, self._note = at, disk, note

    def reach(self, _step):
        self._left -= 1
        if not self._left:
            self.finish()

    def finish(self):
        self._disk.write(self._note)
        os._exit(0)


def restart(path):
    """After a power failure the machine has started anew."""
    state = path / ".git" / "agentdescent.state"
    if state.exists() and state.read_bytes().startswith(b"{"):
        state.write_text('{"boot": "before the power failed"}')


def names_in(folder):
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


def lose(present, disk, rng, place):
    """Build in `place` what is left of the directory `present` after a power failure."""
    where = {path.stat().st_ino: path for path in [present, *present.rglob("*")]}
    _Loss(disk, rng, where).folder(present.stat().st_ino, place)


class _Loss:
    def __init__(self, disk, rng, where):
        self._disk, self._rng, self._where = disk, rng, where

    def folder(self, inode, place):
        place.mkdir()
        durable = self._disk.folders.get(inode, {})
        here = self._where.get(inode)
        present = names_in(here) if here else {}
        for name in sorted(durable.keys() | present.keys()):
            chosen = self._rng.choice([durable.get(name), present.get(name)])
            if chosen is not None:
                self._entry(chosen, place / name)

    def _entry(self, inode, place):
        here = self._where.get(inode)
        if inode in self._disk.folders or (here and here.is_dir()):
            self.folder(inode, place)
            return
        durable = self._disk.files.get(inode)
        present = here.read_bytes() if here else None
        content = self._content(durable, present)
        if content is not None:
            place.write_bytes(content)

    def _content(self, durable, present):
        if present is None or durable == present:
            return durable
        if durable is None:
            short = present[: self._rng.randrange(len(present) + 1)]
            return self._rng.choice([present, b"", short, bytes(len(present))])
        torn = present[: self._rng.randrange(len(durable), max(len(present), len(durable)) + 1)]
        return self._rng.choice([durable, present, torn])
