"""What a run tells, line by line: for people, and as JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TextIO, cast

from agentdescent.cli.endings import printable, put, scrubbed
from agentdescent.core.events import (
    Event,
    MergeDecided,
    RoundEnded,
    RunStarted,
    WorkerBackedOff,
)
from agentdescent.core.outcomes import MergeReport

_WIDTH = 100


class PlainLines:
    """A listener that writes a line for whatever people want to know, and no control codes."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def __call__(self, event: Event) -> None:
        """Write what `event` says, if it is worth a line."""
        match event:
            case RunStarted(initial_reward=reward):
                before = "cannot be measured" if reward is None else f"{reward:.3f}"
                self._say(
                    f"held-out reward {before} at version {event.version}; {event.n_train} tasks "
                    f"to learn from, {event.n_held_out} held out"
                )
            case MergeDecided(report=report):
                self._say(f"round {event.round}: {report.category}, {report.reason}")
                for line in edits(report):
                    self._say(f"  {line}")
            case RoundEnded(info=info):
                self._say(
                    f"round {info.round}: reward {info.held_out_reward:.3f}, {info.rollouts} "
                    f"rollouts, {info.calls} calls"
                )
            case WorkerBackedOff():
                wait = "gives up" if event.seconds is None else f"waits {event.seconds:g} s"
                self._say(f"worker {event.worker} {wait}: {event.error}")
            case _:
                pass

    def _say(self, line: str) -> None:
        put(self._out, printable(line))


def edits(report: MergeReport) -> list[str]:
    """One line for each key that a commit set or deleted."""
    if report.accepted is None or report.committed_version is None:
        return []
    return [
        f"- {key}" if value is None else shortened(f"{key}: {value}")
        for key, value in report.accepted.ops.items()
    ]


def shortened(text: str, width: int = _WIDTH) -> str:
    """`text` on one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


class JsonLines:
    """A listener that writes every event as one JSON object with its name under "event"."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def __call__(self, event: Event) -> None:
        """Write `event`."""
        self.write({"event": type(event).__name__, **plain(event)})

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one object; keys that the environment holds are not in it."""
        put(self._out, scrubbed(json.dumps(record, ensure_ascii=False)))


def plain(value: Any) -> Any:
    """`value` in the terms of JSON; what has none is described by its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {str(key): plain(item) for key, item in pairs}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
