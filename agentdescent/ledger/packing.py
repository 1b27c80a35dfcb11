"""Turns loose objects into packs: some files instead of three a commit.

Whoever dies in the middle leaves objects both loose and packed, which harms nobody.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pygit2 import GitError, Oid, Repository
from pygit2.packbuilder import PackBuilder

from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.faults import Faults, Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.system import sync

ASIDE = "agentdescent-pack-"
MANY_LOOSE, TOO_MANY_LOOSE = 3_000, 10_000
"""Loose objects above which a ledger is packed: when it is opened or closed; between commits."""

MANY_PACKS, FEW_PACKS = 20, 5
"""Packs above which some are made one: in general; when the last run leaves."""

_FAN_OUT = slice(1028, 1032)
_FIRST_NAME, _NAME = 1032, 20
_CHUNK = 1 << 20


def verify(git_dir: Path) -> None:
    """Check that every pack is what its last bytes say.

    Raises:
        Damaged: Naming the first file that is not.
    """
    for index in sorted(_folder(git_dir).glob("*.idx")):
        for file in (index.with_suffix(".pack"), index):
            if not _is_whole(file):
                raise Damaged(f"the pack {file} is damaged or missing; nothing was changed")


class Packer:
    """Packs the objects of one repository, for the holder of its lock."""

    def __init__(
        self, repository: Repository, git_dir: Path, objects: Objects, faults: Faults
    ) -> None:
        self._repository, self._git_dir = repository, git_dir
        self._objects, self._faults = objects, faults

    @property
    def n_packs(self) -> int:
        """How many packs there are."""
        return sum(1 for _ in _folder(self._git_dir).glob("*.idx"))

    def pack(self) -> None:
        """Put every loose object that is intact into one pack, and remove its file."""
        loose = [oid for oid in self._objects.loose() if self._objects.is_intact(oid)]
        for oid in _names(self._build(loose)) if loose else ():
            self._objects.file(oid).unlink(missing_ok=True)
            self._faults.reach(Step.LOOSE_REMOVED)

    def fold(self, limit: int) -> None:
        """Make one pack of the smallest ones where there are more than `limit`.

        Only while nobody else has the ledger open: libgit2 does not look for packs that have gone.
        """
        folder = _folder(self._git_dir)
        indexes = sorted(folder.glob("*.idx"), key=_size)
        if len(indexes) <= limit or (folder / "multi-pack-index").exists():
            return
        small = _smallest(indexes, limit)
        made = self._build({oid for index in small for oid in _names(index)})
        for index in small:
            if index != made:
                index.unlink()
                for rest in folder.glob(f"{index.stem}.*"):
                    rest.unlink()
                self._faults.reach(Step.PACK_REMOVED)

    def _build(self, oids: Iterable[str]) -> Path:
        """Write a pack of `oids`, on the disk before it is in its place; return its index."""
        builder = PackBuilder(self._repository)
        builder.set_threads(1)
        names = sorted(set(oids))
        for oid in names:
            builder.add(Oid(hex=oid))
        aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=self._git_dir))
        try:
            builder.write(aside)
            (index,) = aside.glob("*.idx")
            if _names(index) != names:
                raise GitError("a pack does not hold what was put into it")
            for file in aside.iterdir():
                sync(file)
            self._faults.reach(Step.PACK_BUILT)
            return self._move(index)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _move(self, index: Path) -> Path:
        """Give a pack its place; the index comes last, for it is what git looks for."""
        folder = _folder(self._git_dir)
        pack = index.with_suffix(".pack")
        pack.rename(folder / pack.name)
        self._faults.reach(Step.PACK_MOVED)
        index.rename(folder / index.name)
        sync(folder)
        self._faults.reach(Step.PACK_INDEXED)
        return folder / index.name


def _folder(git_dir: Path) -> Path:
    return git_dir / "objects" / "pack"


def _names(index: Path) -> list[str]:
    """The ids that an index of version 2 lists."""
    content = index.read_bytes()
    end = _FIRST_NAME + _NAME * int.from_bytes(content[_FAN_OUT])
    return [content[at : at + _NAME].hex() for at in range(_FIRST_NAME, end, _NAME)]


def _size(index: Path) -> int:
    return index.with_suffix(".pack").stat().st_size


def _smallest(indexes: list[Path], limit: int) -> list[Path]:
    """So many of the smallest that `limit` are left, and those no bigger than them together.

    Packs so grow by doubling, and no object is packed again and again.
    """
    chosen = indexes[: len(indexes) - limit + 1]
    total = sum(map(_size, chosen))
    for index in indexes[len(chosen) :]:
        if _size(index) > total:
            break
        chosen.append(index)
        total += _size(index)
    return chosen


def _is_whole(file: Path) -> bool:
    """True if the last 20 bytes are the SHA-1 of all before them."""
    try:
        left = file.stat().st_size - _NAME
        digest = hashlib.sha1(usedforsecurity=False)
        with file.open("rb") as stream:
            while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
                digest.update(chunk)
                left -= len(chunk)
            return left == 0 and stream.read() == digest.digest()
    except FileNotFoundError:
        return False
