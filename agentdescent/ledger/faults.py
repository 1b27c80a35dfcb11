"""The points at which a fault may strike, so that tests can let one strike at each."""

from enum import StrEnum
from typing import Protocol


class Step(StrEnum):
    """What has just been done, in the order in which it happens."""

    LAID_OUT = "create.laid-out"
    BORN = "create.born"
    CREATED = "create.created"

    UNLOCKED = "open.unlocked"
    CHECKED = "open.checked"
    QUARANTINED = "open.quarantined"
    STEPPED_BACK = "open.stepped-back"
    MENDED = "open.mended"
    BURIED = "open.buried"
    OWNED = "open.owned"

    BLOBS_WRITTEN = "commit.blobs-written"
    COMMIT_WRITTEN = "commit.commit-written"
    OBJECTS_SYNCED = "commit.objects-synced"
    BRANCH_LOCKED = "commit.branch-locked"
    BRANCH_MOVED = "commit.branch-moved"
    BRANCH_SYNCED = "commit.branch-synced"

    SEARCH_WRITTEN = "save.search-written"
    SEARCH_MOVED = "save.search-moved"
    SEARCH_PRUNED = "save.search-pruned"

    PACK_BUILT = "compact.pack-built"
    PACK_MOVED = "compact.pack-moved"
    PACK_INDEXED = "compact.pack-indexed"
    LOOSE_REMOVED = "compact.loose-removed"
    PACK_REMOVED = "compact.pack-removed"

    HEAD_SYNCED = "close.head-synced"
    LEFT = "close.left"


class Faults(Protocol):
    """Told of every step, on the thread that takes it; may raise OSError as a bad disk would."""

    def reach(self, step: Step, /) -> None:
        """Called after `step`."""
        ...


class NoFaults:
    """A disk that does its duty."""

    def reach(self, step: Step, /) -> None:
        """Let everything go on."""
