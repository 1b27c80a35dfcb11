"""A program as a reward."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from agentdescent.core.identity import Identity, canonical_json, digest, utf8
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.errors import CommandFailed
from agentdescent.process import (
    Finished,
    Launch,
    Limits,
    StrPath,
    clean_environment,
    run_command,
)
from agentdescent.runners.code import command_of
from agentdescent.runners.isolation import DEFAULT_LIMITS, Plain
from agentdescent.runners.workspaces import Workspaces

_SHOWN = 2000
_UNINDENTED = re.compile(r"\S")
_SYNTAX = re.compile(r"^(?:Syntax|Indentation|Tab)Error: ", re.MULTILINE)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class CommandScorer:
    """A program as a reward; made by `command_scorer`."""

    command: tuple[str, ...]
    cwd: StrPath | None
    timeout: float
    env: Mapping[str, str]
    workspaces: Workspaces

    async def __call__(self, task: Task, output: Any) -> Scored:
        """What the program says about `output`.

        Raises:
            CommandNotStarted: If it could not be started.
            CommandTimeout: If it took too long.
            CommandFailed: If it is broken: another status than 0 and 1, a crash, or no score in the
                JSON that it printed.
        """
        text = "" if output is None else str(output)
        async with self.workspaces.lease(partial(_put_down, task, text)) as space:
            files = {
                "AGENTDESCENT_OUTPUT": str(space.work / "output.txt"),
                "AGENTDESCENT_TASK": str(space.work / "task.json"),
            }
            launch = Launch(self.command, self.cwd, {**self.env, **files})
            launch = self.workspaces.isolation.confine(launch, space)
            finished = await run_command(
                launch.command,
                cwd=launch.cwd,
                env=launch.env,
                stdin=text,
                timeout=self.timeout,
                limits=launch.limits,
            )
        return self._scored(finished)

    @property
    def identity(self) -> Identity:
        """The command, its variables, and the files it names, as they are now."""
        variables, _ = canonical_json(self.env)
        cwd, arguments = Path(self.cwd or ""), self.command[1:]
        files = [_content(cwd / part) for part in arguments]
        made_of = digest(*map(utf8, self.command), utf8(variables), *files).hex()
        return Identity(f"command_scorer {made_of}", explicit=True)

    def __repr__(self) -> str:
        return f"<command_scorer {self.command[0]!r}>"

    def _scored(self, finished: Finished) -> Scored:
        status, printed = finished.returncode, finished.stdout.strip()
        if status not in (0, 1) or (status == 1 and _crashed(finished.stderr)):
            raise self._failure(finished, f"ended with status {status}")
        last = printed.rpartition("\n")[2].strip()
        found = next((each for text in (printed, last) if (each := _read(text)) is not None), None)
        if found is None:
            said = printed or finished.stderr.strip()
            return Scored(1.0) if status == 0 else Scored(0.0, said[-_SHOWN:])
        if found.value is None:
            raise self._failure(finished, 'printed JSON without a number as its "score"')
        return Scored(found.value, found.feedback, found.parts)

    def _failure(self, finished: Finished, what: str) -> CommandFailed:
        said = (finished.stderr.strip() or finished.stdout.strip())[-400:] or "no output"
        failure = CommandFailed(f"the scorer {self.command[0]!r} {what}: {said}")
        failure.returncode = finished.returncode
        return failure


def command_scorer(
    command: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
    env_passthrough: Iterable[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    workspace_root: StrPath | None = None,
) -> CommandScorer:
    """Use a program as the reward.

    It reads the output from its standard input, or from the file that the variable
    AGENTDESCENT_OUTPUT names; AGENTDESCENT_TASK names a JSON file with the task's `id`, `prompt`
    and `meta`. It prints a number, or JSON such as ``{"score": 0.5, "feedback": "...", "parts":
    {...}}``, as all or as the last line of what it prints; or it prints neither, and its status is
    the verdict: 0 for 1.0, and 1 for 0.0 with what it printed as the feedback. A program that
    crashes has not judged, so that is a failure and no reward: a status above 1, or 1 with the
    traceback of another Python error than AssertionError.

    Args:
        command: The program and its arguments.
        cwd: Where it runs; by default our own directory.
        timeout: Seconds it may take.
        env: Variables to set, besides the few that every program of a rollout sees.
        env_passthrough: Names of variables of ours to hand on.
        limits: What it may use.
        workspace_root: Where the files for it are put; by default where temporary files are.

    Raises:
        TypeError: If `command` is one string.
        ValueError: If it is empty, or `timeout` is not positive.
    """
    if timeout <= 0:
        raise ValueError(f"timeout must be positive, got {timeout:g}")
    return CommandScorer(
        command=command_of("command", command),
        cwd=cwd,
        timeout=timeout,
        env=clean_environment(env_passthrough, env),
        workspaces=Workspaces(Plain(limits), workspace_root),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    value: float | None
    feedback: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


def _put_down(task: Task, output: str, work: Path) -> None:
    record = {"id": task.id, "prompt": task.prompt, "meta": dict(task.meta)}
    (work / "output.txt").write_bytes(utf8(output))
    (work / "task.json").write_text(json.dumps(record, default=str), encoding="utf-8")


def _read(printed: str) -> _Found | None:
    """The verdict in what was printed; None if it is neither a number nor a JSON object."""
    try:
        found: Any = json.loads(printed)
    except ValueError:
        found = _number(printed)
    if isinstance(found, int | float):
        return _Found(_number(found))
    if not isinstance(found, dict):
        return None
    record = cast("dict[str, Any]", found)
    feedback, parts = record.get("feedback"), record.get("parts")
    named = cast("dict[str, Any]", parts) if isinstance(parts, dict) else {}
    numbers = {name: _number(part) for name, part in named.items()}
    return _Found(
        value=_number(record.get("score")),
        feedback="" if feedback is None else str(feedback),
        parts={name: number for name, number in numbers.items() if number is not None},
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _crashed(stderr: str) -> bool:
    """True of what Python prints when a program ends by an error that is no failed assertion."""
    _, header, trace = stderr.rpartition("Traceback (most recent call last):")
    if header:
        error = next(filter(_UNINDENTED.match, trace.splitlines()), "")
        return not error.startswith("AssertionError")
    return bool(_SYNTAX.search(stderr))


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
