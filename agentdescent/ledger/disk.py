"""Brings to the disk what has to be there."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentdescent.ledger.faults import Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.system import sync
from agentdescent.ledger.terms import Terms

_MOST_KNOWN = 100_000


class Disk:
    """Syncs commits and branches of one repository as the durability asks for."""

    def __init__(self, git_dir: Path, objects: Objects, terms: Terms) -> None:
        self._git_dir, self._objects, self._terms = git_dir, objects, terms
        self._known: set[str] = set()
        self._owes = False

    def written(self, commit: str) -> None:
        """A commit has been written: sync it and all it holds, before a branch points to it."""
        self._owes = True
        if self._terms.durability == "power":
            self._sync_closure(commit)
            self._terms.faults.reach(Step.OBJECTS_SYNCED)

    def moved(self, reference: str) -> None:
        """A branch has been moved: sync it and its log."""
        self._owes = True
        if self._terms.durability == "power":
            self._sync_reference(reference)
            self._terms.faults.reach(Step.BRANCH_SYNCED)

    @property
    def owes(self) -> bool:
        """True if there is something left to `settle`."""
        return self._owes and self._terms.syncs

    def settle(self, tips: Mapping[str, str]) -> None:
        """Sync the tips of branches, full name to commit, and all they hold."""
        for commit in tips.values():
            self._sync_closure(commit)
        for reference in tips:
            self._sync_reference(reference)
        self._terms.faults.reach(Step.HEAD_SYNCED)

    def _sync_closure(self, commit: str) -> None:
        """Files first, then the directories that name them."""
        new = self._objects.closure(commit, self._known)
        folders: set[Path] = set()
        for oid in new:
            file = self._objects.file(oid)
            with suppress(FileNotFoundError):  # packed, which is on the disk
                sync(file)
                folders.add(file.parent)
        for folder in folders:
            sync(folder)
        if folders:
            sync(self._git_dir / "objects")
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= new

    def _sync_reference(self, reference: str) -> None:
        for place in (self._git_dir, self._git_dir / "logs"):
            with suppress(FileNotFoundError):  # packed by git, which syncs it
                sync(place / reference)
                sync((place / reference).parent)
