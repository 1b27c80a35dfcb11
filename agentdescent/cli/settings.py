"""What `agentdescent run` was asked for, and whether a directory holds the same run already."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from agentdescent.cli.endings import UsageError, complain, scrubbed

SCHEMA = 1
_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of one call of the command; None is no limit."""

    rounds: int = 15
    rollouts: int | None = None
    seconds: float | None = None
    calls: int | None = None
    attempts: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def limits(self) -> dict[str, float]:
        """Those that are set, by name."""
        return {name: limit for name, limit in asdict(self).items() if limit is not None}


@dataclass(frozen=True, slots=True)
class Files:
    """A directory that is to evolve, and how it is put to use.

    Attributes:
        path: The directory.
        layout: Where the agent finds it; see `tree_runner`.
        entrypoint: The program that it is, instead of something that an agent reads.
        test_command: Judges the program.
        frozen: Globs of what must not change; empty for the default.
        test_frac: The share of tasks that nobody sees before the end.
    """

    path: Path
    layout: str = "claude_skill"
    entrypoint: str | None = None
    test_command: str | None = None
    frozen: Sequence[str] = ()
    test_frac: float = 0.2

    def identity(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return {**asdict(self), "path": str(self.path.absolute()), "frozen": list(self.frozen)}

    def split(self, held_out_frac: float) -> tuple[float, float, float]:
        """The shares of training, held-out and test tasks; held out is a share of the first two."""
        seen = 1.0 - self.test_frac
        return seen * (1.0 - held_out_frac), seen * held_out_frac, self.test_frac


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a run learns, and from what.

    Attributes:
        tasks: The file with one task a line.
        out: The directory of the run.
        model: What solves, and reflects unless `reflect_model` does; or `agent_command` solves.
        prompt: What the artifact begins with.
        files: The directory that evolves, instead of a text.
    """

    tasks: Path
    out: Path
    model: str | None
    base_url: str | None
    agent_command: str | None
    reflect_model: str | None
    strategy: str
    prompt: str
    reward: str
    held_out_frac: float
    seed: int
    files: Files | None = None

    def identity(self) -> dict[str, Any]:
        """What must not change when a run goes on: else its rewards would mean something else."""
        return {
            "tasks": hashlib.sha256(self.tasks.read_bytes()).hexdigest(),
            "strategy": self.strategy,
            "prompt": self.prompt,
            "reward": self.reward,
            "held_out_frac": self.held_out_frac,
            "seed": self.seed,
            "directory": self.files and self.files.identity(),
        }

    def actors(self) -> dict[str, Any]:
        """What may change, with a warning."""
        return {
            "model": self.model,
            "base_url": _scrubbed(self.base_url),
            "agent_command": _scrubbed(self.agent_command),
            "reflect_model": self.reflect_model,
        }


class Claim(Enum):
    """What a directory was, before a run came to it."""

    NEW = "new"
    """It did not exist, or was empty."""

    SAME = "same"
    """That of the same command."""

    OTHER = "other"
    """That of a command with other budgets or another model, on the same tasks."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a run keeps what it has: ledger, artifact, result, telemetry and settings."""

    path: Path

    @property
    def ledger(self) -> Path:
        """The git repository of the artifact."""
        return self.path / "ledger"

    @property
    def files(self) -> Path:
        """The files of an evolved directory."""
        return self.path / "artifact"

    @property
    def telemetry(self) -> Path:
        """One JSON object a line for everything that happened."""
        return self.path / "telemetry.jsonl"

    def claim(self, settings: Settings, call: Mapping[str, Any]) -> Claim:
        """Make the directory that of this run; what it was before.

        `call` is what else the command was told; it can be written as JSON.

        Raises:
            UsageError: If it holds something else, or a run with other tasks, another strategy,
                prompt or reward, or another split.
        """
        record = self._recorded()
        if record is not None:
            _refuse_other(record.get("identity", {}), settings.identity(), self.path)
            _warn_of_changes(record.get("actors", {}), settings.actors())
        elif self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UsageError(
                f"--out {self.path} holds something else than a run; name a new or empty directory"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._note(settings, call)
        except OSError as error:
            raise UsageError(f"--out {self.path} cannot be written: {error.strerror}") from None
        if record is None:
            return Claim.NEW
        told: Any = json.loads(json.dumps(call))
        is_same = record.get("call") == told and record.get("actors") == settings.actors()
        return Claim.SAME if is_same else Claim.OTHER

    def release(self) -> None:
        """Be as empty as before a claim of what was new; nothing was learned in between."""
        shutil.rmtree(self.ledger, ignore_errors=True)
        for file in (self.telemetry, self.path / _FILE):
            file.unlink(missing_ok=True)

    def _note(self, settings: Settings, call: Mapping[str, Any]) -> None:
        self.write(
            _FILE,
            {
                "schema": SCHEMA,
                "tasks_file": str(settings.tasks),
                "identity": settings.identity(),
                "actors": settings.actors(),
                "call": dict(call),
            },
        )

    def write(self, name: str, content: Mapping[str, Any] | str) -> None:
        """Replace the file `name` as a whole: by JSON, or by a text."""
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        temporary = self.path / f".{name}.new"
        temporary.write_text(text, encoding="utf-8", errors="surrogatepass")
        temporary.replace(self.path / name)

    def _recorded(self) -> dict[str, Any] | None:
        file = self.path / _FILE
        if not file.is_file():
            return None
        try:
            record: Any = json.loads(file.read_bytes())
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise UsageError(f"{file} is damaged; name another directory with --out")
        known = cast("dict[str, Any]", record)
        if known.get("schema", SCHEMA) > SCHEMA:
            raise UsageError(f"{file} was written by a newer agentdescent; upgrade to go on")
        return known


def _refuse_other(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    changed = [name for name in now if before.get(name) != now[name]]
    if not changed:
        return
    said = [
        f"other {name}"
        if name in ("tasks", "prompt")
        else f"{name} {before.get(name)!r} instead of {now[name]!r}"
        for name in changed
    ]
    raise UsageError(
        f"--out {path} holds a run with {', '.join(said)}, which this one cannot go on from; "
        "name another directory"
    )


def _warn_of_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in now:
        if before.get(name) != now[name]:
            complain(
                f"{name} was {before.get(name)!r} and is {now[name]!r} now; rewards of before and "
                "after cannot be compared",
                "warning",
            )


def _scrubbed(text: str | None) -> str | None:
    return None if text is None else scrubbed(text)
