"""A flight recorder: what a run did and what it took, line by line, without what was said."""

import json
import math
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentdescent.core.events import Event, ModelCalled, RoundEnded, RunEnded, RunStarted
from agentdescent.core.model_calls import ModelCall
from agentdescent.errors import describe, kind_of, ungrouped
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.threads import DaemonThreads
from agentdescent.usage import Usage

__all__ = ["SCHEMA", "read_telemetry", "recording"]

SCHEMA = 1

GRACE_S = 5.0
"""A run that is over waits so long for the disk."""

Warn = Callable[[str], object]
Listener = Callable[[Event], None]


@asynccontextmanager
async def recording(path: Path, about: Mapping[str, Any], warn: Warn) -> AsyncGenerator[Listener]:
    """While it is open, what its listener is told is appended to a file, by a thread.

    A line is a JSON object. Each is with the operating system soon after the event, so that a crash
    loses the last one at most. What cannot be written is warned about once, and lost. Several runs
    may write to one file; each has its own value of "run".

    Args:
        path: The file; directories that are missing are made.
        about: What the first line says of the run.
        warn: Told if something cannot be written.
    """
    outbox, inbox = anyio.create_memory_object_stream[bytes](math.inf)
    writing = anyio.CancelScope(shield=True)
    with ungrouped():
        async with anyio.create_task_group() as group:
            group.start_soon(_write, path, inbox, writing, warn)
            try:
                with outbox:
                    yield _Log(outbox, about)
            finally:
                writing.deadline = anyio.current_time() + GRACE_S


def read_telemetry(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The lines of a telemetry file, one by one, whatever its size.

    Lines that were torn by a crash are left out.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a line has a newer schema than this version knows.
    """
    with Path(path).open("rb") as file:
        for line in file:
            record = _parsed(line)
            if record is None:
                continue
            if record["schema"] > SCHEMA:
                raise ValueError(
                    f"{os.fspath(path)} has lines of schema {record['schema']}; this version reads "
                    f"up to {SCHEMA}: upgrade agentdescent to read it"
                )
            yield record


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    is_whole = isinstance(record, dict) and isinstance(record.get("schema"), int)  # pyright: ignore[reportUnknownMemberType]
    return cast("dict[str, Any]", record) if is_whole else None


class _Log:
    """A listener that turns events into lines."""

    def __init__(self, outbox: MemoryObjectSendStream[bytes], about: Mapping[str, Any]) -> None:
        self._outbox = outbox
        self._run = secrets.token_hex(6)
        self._began = anyio.current_time()
        self._day = datetime.now(UTC)
        self._write("run_start", self._began, about)

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                seed = {"version": event.version, "initial_reward": event.initial_reward}
                self._write("seed", event.at, seed)
            case ModelCalled():
                self._write("model_call", event.at, _call(event.call))
            case RoundEnded(info=RoundInfo() as info):
                self._write("round", event.at, asdict(info))
            case RunEnded(result=EvolutionResult() as result):
                self._write("run_end", event.at, _end(result))
            case _:
                pass

    def _write(self, kind: str, at: float, values: Mapping[str, Any]) -> None:
        since = at - self._began
        head = {
            "schema": SCHEMA,
            "event": kind,
            "run": self._run,
            "time": (self._day + timedelta(seconds=since)).isoformat(timespec="milliseconds"),
            "at": round(since, 6),
        }
        line = json.dumps({**head, **values}, ensure_ascii=False, default=str)
        self._outbox.send_nowait(line.encode("utf-8", "backslashreplace") + b"\n")


async def _write(
    path: Path, inbox: MemoryObjectReceiveStream[bytes], scope: anyio.CancelScope, warn: Warn
) -> None:
    threads = DaemonThreads()
    is_warned = False
    try:
        with inbox, scope:
            async for line in inbox:
                waiting = inbox.statistics().current_buffer_used
                lines = [line, *(inbox.receive_nowait() for _ in range(waiting))]
                try:
                    await threads.run(_append, path, b"".join(lines))
                except OSError as error:
                    if not is_warned:
                        is_warned = True
                        warn(f"telemetry={os.fspath(path)!r} is incomplete: {describe(error)}")
    finally:
        threads.close()
    if scope.cancelled_caught and not is_warned:
        warn(f"telemetry={os.fspath(path)!r} is incomplete: the disk took more than {GRACE_S:g} s")


def _append(path: Path, lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                lines = b"\n" + lines  # the last line was torn; keep it apart
        file.write(lines)


def _call(call: ModelCall) -> dict[str, Any]:
    return {
        **asdict(call),
        "endpoint": _without_credentials(call.endpoint),
        "error": kind_of(call.error),
    }


def _end(result: EvolutionResult) -> dict[str, Any]:
    usage = result.usage
    return {
        "stop_reason": result.stop_reason,
        "error": kind_of(result.error or ""),
        "initial_reward": result.initial_reward,
        "final_reward": result.final_reward,
        "version": result.version,
        "rollouts": result.rollouts,
        "actor_calls": result.actor_calls,
        "wallclock": result.wallclock,
        "usage": _figures(usage),
        "roles": {role: _figures(account) for role, account in usage.roles.items()},
    }


def _figures(usage: Usage) -> dict[str, Any]:
    return {
        "calls": usage.calls,
        "provider_calls": usage.provider_calls,
        "failures": usage.failures,
        "retries": usage.retries,
        "tokens": asdict(usage.tokens) if usage.call_tokens.count else None,
        "usd": usage.usd,
        "unpriced_calls": usage.unpriced_calls,
        "seconds": usage.seconds,
        "p50": usage.latency.p50,
        "p90": usage.latency.p90,
    }


def _without_credentials(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()
