"""Simulated power failure: what was not synced is gone, or half there, or as it was before.

`Disk` notes in the working process what `os.fsync` has made durable: the content of files, the
names in directories. `lose` builds what a restart would find. It is harsher than real file systems:
a file may be empty, short or full of zeros, a name absent, a rename not made, each by chance and in
any order.
"""

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
