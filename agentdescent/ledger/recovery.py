"""Puts a ledger in order when it is opened: after a crash, a power failure, or damage.

Everything is decided before anything is changed, nothing is deleted but locks and scraps of the
dead, and whoever dies in the middle leaves a ledger that the next one puts in order.
"""

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentdescent.ledger import packing
from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.faults import Faults, Step
from agentdescent.ledger.index import DEV, STABLE
from agentdescent.ledger.lock import STALE_S, left_behind
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.repository import signature
from agentdescent.ledger.system import age_s, replace, stamp, sync

QUARANTINE = "agentdescent-quarantine"
NO_ONE = "0" * 40
_HEX = re.compile(r"[0-9a-f]{40}")
_LINE = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) [^\n]*> \d+ [+-]\d{4}(\t[^\n]*)?")
_BRANCHES = (DEV, STABLE)
_RECENT = 5_000
"""Lines of a log that may speak of what was not yet packed, and so of what can be lost."""

_SCRAP_S = 3600.0
"""Age at which a half-written file is taken for left behind."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Where a branch has to point.

    Attributes:
        found: What its file says; "" if nothing of use.
        commit: The newest intact commit.
        lost: How many newer ones, by the log, are not intact.
    """

    branch: str
    found: str
    commit: str
    lost: int


class Recovery:
    """The state of one repository, looked at and put right by the holder of its lock."""

    def __init__(self, git_dir: Path, objects: Objects, faults: Faults) -> None:
        self._git_dir, self._objects, self._faults = git_dir, objects, faults
        self._sound = _Sound(objects)

    def unlock(self, *, at_once: bool) -> list[str]:
        """Remove locks that dead programs left on branches and configuration; what to warn of.

        Args:
            at_once: One of our runs has died and no other holds them: do not wait for them to age.
        """
        refs = self._git_dir / "refs"
        removed: list[str] = []
        for lock in (
            self._git_dir / "HEAD.lock",
            self._git_dir / "config.lock",
            *refs.rglob("*.lock"),
        ):
            with suppress(FileNotFoundError):
                age = age_s(lock.stat())
                if at_once or age > STALE_S:
                    lock.unlink()
                    if not at_once:
                        removed.append(left_behind(lock, age))
        self._faults.reach(Step.UNLOCKED)
        return removed

    def sweep(self) -> None:
        """Remove half-written files that are more than an hour old."""
        places = ((self._git_dir.parent, ".git.new-*"), (self._git_dir, f"{packing.ASIDE}*"))
        for folder, pattern in (
            *places,
            (self._git_dir / "objects", "tmp_*"),
            (self._git_dir / "objects" / "pack", "tmp_*"),
        ):
            for scrap in folder.glob(pattern):
                with suppress(OSError):
                    if age_s(scrap.lstat()) > _SCRAP_S:
                        _remove(scrap)

    def check(self) -> None:
        """Check that the tips of both branches are intact, down to their last file; no more.

        Raises:
            Damaged: Naming what is not.
        """
        self._objects.check_closure(*(_tip(self._git_dir, branch) for branch in _BRANCHES))

    def repair(self) -> list[str]:
        """Check every pack and loose object, and step back to what is intact; what to warn of.

        Raises:
            Damaged: If a pack is damaged, or a branch has nothing intact; nothing was changed.
        """
        packing.verify(self._git_dir)
        damaged = self._objects.damaged()
        choices = [self._choose(branch) for branch in _BRANCHES]
        self._faults.reach(Step.CHECKED)
        moved = [choice for choice in choices if choice.commit != choice.found]
        if not damaged and not moved and all(map(self._is_fit, self._logs().values())):
            return []
        quarantine = _quarantine(self._git_dir)
        for oid in damaged:
            self._objects.file(oid).replace(quarantine / oid)
            self._faults.reach(Step.QUARANTINED)
        for choice in moved:
            self._step_back(choice, quarantine)
        self._mend_logs(choices, quarantine)
        self._faults.reach(Step.MENDED)
        return [_report(self._git_dir, damaged, choices, quarantine)]

    def _choose(self, branch: str) -> _Choice:
        found = _pointed_to(self._git_dir, branch)
        for commit in self._candidates(branch, found):
            if self._sound.has(commit):
                lost = {found, *self._moves_after(branch, commit)} - {"", NO_ONE}
                n_lost = sum(not self._sound.has(other) for other in lost)
                return _Choice(branch, found, commit, n_lost)
        raise Damaged(f"branch {branch!r} has no version that is intact; nothing was changed")

    def _moves_after(self, branch: str, commit: str) -> list[str]:
        """Where the log says the branch went after it had last been at `commit`."""
        moves = [new for _, new in self._moves(branch)]
        at = max((at for at, new in enumerate(moves) if new == commit), default=-1)
        return moves[at + 1 :]

    def _moves(self, branch: str) -> list[tuple[str, str]]:
        """From where to where a branch went, by its log, oldest first."""
        lines = _lines(self._logs()[f"refs/heads/{branch}"])
        return [(match[1], match[2]) for match in map(_LINE.fullmatch, lines) if match]

    def _candidates(self, branch: str, found: str) -> Iterator[str]:
        """Newest first: the tip, what the log says it was before, and the parents of all these."""
        moves = reversed(self._moves(branch))
        names = dict.fromkeys([found, *(oid for old, new in moves for oid in (new, old))])
        pending = [oid for oid in names if oid not in {"", NO_ONE}]
        seen = set(pending)
        yield from pending
        for commit in pending:
            with suppress(Damaged):
                parent = self._objects.parent(commit)
                if parent and parent not in seen:
                    seen.add(parent)
                    pending.append(parent)
                    yield parent

    def _step_back(self, choice: _Choice, quarantine: Path) -> None:
        """Move a branch as git does: a lock, the new content, a rename."""
        reference = _reference(self._git_dir, choice.branch)
        lock = reference.with_name(f"{reference.name}.lock")
        if reference.exists():
            shutil.copy2(reference, quarantine / f"branch-{choice.branch}")
        with lock.open("x") as file:
            file.write(f"{choice.commit}\n")
        sync(lock)
        lock.replace(reference)
        sync(reference.parent)
        self._faults.reach(Step.STEPPED_BACK)

    def _mend_logs(self, choices: list[_Choice], quarantine: Path) -> None:
        """Keep in the logs what is intact, say where the branches went, and keep the old logs."""
        ends = {f"refs/heads/{choice.branch}": choice.commit for choice in choices}
        ends["HEAD"] = ends[f"refs/heads/{DEV}"]
        for name, log in self._logs().items():
            kept = self._kept(log)
            text = "".join(f"{line}\n" for line in [*kept, *_ending(kept, ends[name])])
            content = text.encode("utf-8", "surrogateescape")
            if log.exists() and content != log.read_bytes():
                shutil.copy2(log, quarantine / f"log-{log.name}")
                replace(log, content)

    def _is_fit(self, log: Path) -> bool:
        """True unless a log is torn or names what is lost."""
        text = "".join(f"{line}\n" for line in self._kept(log))
        return not log.exists() or text.encode("utf-8", "surrogateescape") == log.read_bytes()

    def _kept(self, log: Path) -> list[str]:
        """The lines of a log that name nothing lost; only recent ones can."""
        lines = _lines(log)
        old, recent = lines[:-_RECENT], lines[-_RECENT:]
        return [*filter(_LINE.fullmatch, old), *filter(self._may_stay, recent)]

    def _logs(self) -> dict[str, Path]:
        names = [*(f"refs/heads/{branch}" for branch in _BRANCHES), "HEAD"]
        return {name: self._git_dir / "logs" / name for name in names}

    def _may_stay(self, line: str) -> bool:
        match = _LINE.fullmatch(line)
        return match is not None and all(
            oid == NO_ONE or self._sound.has(oid) for oid in match.group(1, 2)
        )


class _Sound:
    """Which commits are intact with everything they hold; a packed one is, once packs are."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: set[str] = set()
        self._verdicts: dict[str, bool] = {}

    def has(self, commit: str) -> bool:
        if commit not in self._verdicts:
            self._verdicts[commit] = self._objects.is_packed(commit) or self._check(commit)
        return self._verdicts[commit]

    def _check(self, commit: str) -> bool:
        try:
            self._known |= self._objects.check_closure(commit, sound=self._known)
        except Damaged:
            return False
        return True


def _report(git_dir: Path, damaged: list[str], choices: list[_Choice], quarantine: Path) -> str:
    steps = [
        f"branch {choice.branch} steps back over {choice.lost} damaged "
        f"version{'' if choice.lost == 1 else 's'} to {choice.commit[:7]}, the newest intact one"
        for choice in choices
        if choice.lost or choice.commit != choice.found
    ]
    return (
        f"the git ledger in {git_dir.parent} was damaged, as a power failure or a bad disk leaves "
        f"it: {'; '.join(steps) or 'no version was lost'}; {len(damaged)} damaged objects and what "
        f"else was replaced are kept in {quarantine}"
    )


def _tip(git_dir: Path, branch: str) -> str:
    found = _pointed_to(git_dir, branch)
    if not found:
        raise Damaged(f"branch {branch!r} points to no commit")
    return found


def _pointed_to(git_dir: Path, branch: str) -> str:
    """The commit that the file of a branch names, or else the file of all packed branches."""
    try:
        text = _reference(git_dir, branch).read_bytes()
    except FileNotFoundError:
        text = _packed_references(git_dir).get(f"refs/heads/{branch}".encode(), b"")
    name = text.decode("utf-8", "replace").removesuffix("\n")
    return name if _HEX.fullmatch(name) else ""


def _packed_references(git_dir: Path) -> Mapping[bytes, bytes]:
    try:
        lines = (git_dir / "packed-refs").read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    parts = [line.partition(b" ") for line in lines]
    return {name: oid for oid, _, name in parts}


def _reference(git_dir: Path, branch: str) -> Path:
    return git_dir / "refs" / "heads" / branch


def _lines(log: Path) -> list[str]:
    try:
        return log.read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except FileNotFoundError:
        return []


def _ending(kept: list[str], end: str) -> list[str]:
    """The line that takes a log to `end`, unless it is there."""
    last = kept[-1].split(" ")[1] if kept else NO_ONE
    if last == end:
        return []
    author = signature()
    who = f"{author.name} <{author.email}> {author.time} +0000"
    return [f"{last} {end} {who}\tagentdescent: step back to what is intact"]


def _quarantine(git_dir: Path) -> Path:
    folder = git_dir / QUARANTINE / f"{stamp()}-{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    return folder


def _remove(scrap: Path) -> None:
    if scrap.is_dir() and not scrap.is_symlink():
        shutil.rmtree(scrap)
    else:
        scrap.unlink()
