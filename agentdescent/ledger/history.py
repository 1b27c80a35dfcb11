"""What the history of an artifact consists of: versions, and the changes between them."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agentdescent.core.diff import State
from agentdescent.ledger.codec import canonical_json
from agentdescent.ledger.message import TRAILER, clean, subject_of

_NAME_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an artifact: the commit that made it, and what that says of itself.

    Attributes:
        number: 1 for the first; each branch counts its own.
        commit: The id of the commit, 40 hex digits.
        time: When it was made, in UTC.
        subject: The first line of its message.
        body: The message between subject and trailers, or "".
        category: A `MergeOutcome` value, or "" where no merge made it.
        round: The round or sweep of the run that made it.
        reward_before: Held-out reward of the version before, as the merge measured it.
        reward_after: Held-out reward of this one.
        restores: The version whose state a rollback brought back.
        source: On stable, the commit on dev that was promoted; else "".
        changed: Keys with another value than in the version before, sorted.
        added: Keys that are new.
        removed: Keys that are gone.
    """

    number: int
    commit: str
    time: datetime
    subject: str
    body: str = ""
    category: str = ""
    round: int | None = None
    reward_before: float | None = None
    reward_after: float | None = None
    restores: int | None = None
    source: str = ""
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"v{self.number}  {self.commit[:7]}  {self.time:%Y-%m-%d %H:%M}  {self.subject}"


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one key; as text, a unified diff.

    Attributes:
        key: The key.
        kind: "changed", "added" or "removed".
        before: The old value; None if it was added.
        after: The new value; None if it was removed.
    """

    key: str
    kind: Literal["changed", "added", "removed"]
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        old = [] if self.kind == "added" else _lines(self.before)
        new = [] if self.kind == "removed" else _lines(self.after)
        names = (
            "/dev/null" if self.kind == "added" else self._name(self.before),
            "/dev/null" if self.kind == "removed" else self._name(self.after),
        )
        diff = list(difflib.unified_diff(old, new, *names, lineterm=""))
        return "\n".join(diff or [f"--- {names[0]}", f"+++ {names[1]}"])

    def _name(self, value: Any) -> str:
        name = clean(self.key, _NAME_WIDTH)
        return name if isinstance(value, str) else f"{name} (JSON)"


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of an artifact between two versions, key by key; empty if it is the same.

    Attributes:
        artifact: Its id.
        before: The version that is compared with.
        after: The version that is compared.
        each: The changes, sorted by key.
    """

    artifact: str
    before: int
    after: int
    each: tuple[Change, ...]

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.each)

    def __str__(self) -> str:
        kinds = [change.kind for change in self.each]
        counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
        versions = f"{clean(self.artifact)} v{self.before} -> v{self.after}"
        heading = f"{versions}: {', '.join(counts) or 'the same'}"
        return "\n".join([heading, *map(str, self.each)])

    def apply(self, state: State) -> dict[str, Any]:
        """`state` with every change made, its keys sorted."""
        left = {key: value for key, value in state.items() if key not in self._keys("removed")}
        made = left | {change.key: change.after for change in self.each if change.kind != "removed"}
        return {key: made[key] for key in sorted(made)}

    def _keys(self, kind: str) -> set[str]:
        return {change.key for change in self.each if change.kind == kind}


@dataclass(frozen=True, slots=True)
class Keys:
    """Which keys two states differ in, sorted."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def between(self, before: State, after: State) -> tuple[Change, ...]:
        """The changes that lead from one state to the other."""
        changes = [
            *(Change(key, "changed", before[key], after[key]) for key in self.changed),
            *(Change(key, "added", after=after[key]) for key in self.added),
            *(Change(key, "removed", before=before[key]) for key in self.removed),
        ]
        return tuple(sorted(changes, key=lambda change: change.key))


@dataclass(frozen=True, slots=True)
class Message:
    """The message of a commit, taken apart.

    Attributes:
        subject: The first line.
        body: What is between subject and trailers.
        trailers: What we wrote at its end: name, without our prefix, to value.
    """

    subject: str
    body: str
    trailers: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> "Message":
        """Take a message apart, whoever wrote it."""
        subject, text = subject_of(text), text.rstrip("\n")
        above, _, last = text.rpartition("\n\n")
        trailers = dict(
            line.removeprefix(TRAILER).split(": ", 1)
            for line in last.split("\n")
            if line.startswith(TRAILER) and ": " in line
        )
        rest = above if trailers else text
        return cls(subject, rest.removeprefix(subject).strip("\n"), trailers)

    def integer(self, name: str) -> int | None:
        """The number in a trailer; None if there is none."""
        with suppress(ValueError):
            return int(self.trailers.get(name, ""))
        return None

    def reward(self) -> tuple[float, float] | tuple[None, None]:
        """Held-out reward before and after; None if it does not say."""
        with suppress(ValueError):
            before, after = map(float, self.trailers.get("Reward", "").split())
            return before, after
        return None, None


def _lines(value: Any) -> list[str]:
    text = value if isinstance(value, str) else canonical_json(value, indent=2).rstrip("\n")
    return text.split("\n")
