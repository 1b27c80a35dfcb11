"""The head: the newest committed version."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from agentdescent.engine.messages import Snapshot

HORIZON = 1024
"""Versions remembered per key; no staleness policy tolerates a lag near it."""


class Head:
    """The newest committed snapshot: one writer, any number of readers.

    It also remembers, per key, which versions touched it, so that the lag of a diff counts only
    commits that matter to it.

    Attributes:
        commits: The versions that this run has committed.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._touched: dict[str, deque[int]] = {}
        self.commits: list[int] = []

    @property
    def snapshot(self) -> Snapshot:
        """The newest version."""
        return self._snapshot

    def publish(self, snapshot: Snapshot, *, own: bool = False) -> None:
        """Make `snapshot` the newest version; `own` says that this run has committed it."""
        if own:
            self.commits.append(snapshot.version)
        for key in _changed_keys(self._snapshot, snapshot):
            self._touched.setdefault(key, deque(maxlen=HORIZON)).append(snapshot.version)
        self._snapshot = snapshot

    def lag(self, keys: Iterable[str], base: int) -> int:
        """How many versions after `base` set or deleted one of `keys`."""
        missed: set[int] = set()
        for key in keys:
            for version in reversed(self._touched.get(key, ())):
                if version <= base:
                    break
                missed.add(version)
        return len(missed)

    def dump(self) -> dict[str, list[int]]:
        """Which versions touched each key."""
        return {key: list(versions) for key, versions in self._touched.items()}

    def restore(self, saved: Mapping[str, Sequence[int]]) -> None:
        """Go on from what `dump` gave."""
        self._touched = {key: deque(versions, HORIZON) for key, versions in saved.items()}


def _changed_keys(old: Snapshot, new: Snapshot) -> set[str]:
    keys = old.state.keys() | new.state.keys()
    return {key for key in keys if old.state.get(key) != new.state.get(key)}
