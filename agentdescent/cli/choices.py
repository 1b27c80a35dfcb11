"""What the words on the command line stand for: tasks, strategies, prompts and rewards."""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from agentdescent.cli.endings import UsageError
from agentdescent.core.contracts import check_callable
from agentdescent.core.protocols import Reward, Strategy
from agentdescent.core.task import Task, tasks_from
from agentdescent.errors import RewardContractError
from agentdescent.policy.rewards import contains, exact_match, last_number, preflight
from agentdescent.policy.strategies import AppendRules, FewShot, KeyedRules, SingleSlot

_STRATEGIES = "single, rules, keyed:NAME,NAME or fewshot"
_REWARDS = "exact, contains, number, judge or module:function"
_LONGEST_NAME = 255
"""Bytes: no file has a longer one."""


def read_tasks(path: Path) -> list[Task]:
    """The tasks in a file with one JSON object a line: prompt, and perhaps id and gold.

    Whatever else an object has is kept in `Task.meta`.

    Raises:
        UsageError: If a line is no such object; the message names it by its number.
    """
    from agentdescent.dataloader import read_jsonl  # noqa: PLC0415 - not needed for --help

    try:
        rows = read_jsonl(path)
    except ValueError as error:
        raise UsageError(f"{error}; nothing was started") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    numbers = _numbers_of_rows(path)
    for number, row in zip(numbers, rows, strict=True):
        if not isinstance(row.get("prompt"), str):
            raise UsageError(
                f'{path}, line {number}: there is no text under "prompt"; it has '
                f"{sorted(row)}; nothing was started"
            )
    extra = {name: name for row in rows for name in row if name not in ("prompt", "gold", "id")}
    has_ids = all("id" in row for row in rows)
    try:
        return tasks_from(rows, id="id" if has_ids else None, **extra)
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path}: {error}; nothing was started") from None


def _numbers_of_rows(path: Path) -> list[int]:
    lines = path.read_bytes().split(b"\n")
    return [number for number, line in enumerate(lines, start=1) if line.strip()]


def read_prompt(given: str | None) -> str:
    """The text `given`, or that of the file of this name.

    Raises:
        UsageError: If the file holds no text.
    """
    if given is None:
        return ""
    if "\n" in given or len(os.fsencode(given)) > _LONGEST_NAME or not Path(given).is_file():
        return given
    try:
        return Path(given).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--prompt {given} cannot be read: {error}") from None


def strategy_named(name: str, prompt: str, style: Literal["text", "chat"]) -> Strategy:
    """The strategy that `name` stands for; the artifact begins with `prompt`.

    Raises:
        UsageError: If there is none of this name.
    """
    kind, _, categories = name.partition(":")
    titled: Mapping[str, Any] = {"title": prompt} if prompt else {}
    match kind:
        case "single":
            return SingleSlot(prompt)
        case "rules":
            return AppendRules(**titled)
        case "keyed" if categories.strip(", "):
            return KeyedRules([part for part in categories.split(",") if part.strip()], **titled)
        case "fewshot":
            return FewShot(render=style)
        case _:
            raise UsageError(f"--strategy {name} is unknown; give {_STRATEGIES}")


def reward_named(name: str) -> Reward:
    """The reward that `name` stands for, unless it needs a model.

    Raises:
        UsageError: If there is none of this name.
    """
    ready = {"exact": exact_match, "contains": contains, "number": last_number}
    if name in ready:
        return ready[name]()
    module, separator, function = name.partition(":")
    if not separator or not module or not function:
        raise UsageError(f"--reward {name} is unknown; give {_REWARDS}")
    return _imported(module, function)


def _imported(module: str, function: str) -> Reward:
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), function)
        check_callable("--reward", found, ("task", "output"))
    except (ImportError, AttributeError, TypeError) as error:
        raise UsageError(f"--reward {module}:{function} cannot be used: {error}") from None
    finally:
        sys.path.pop(0)
    return found


def check_reward(reward: Reward, tasks: list[Task]) -> None:
    """Make sure that every task can be scored.

    Raises:
        UsageError: Naming the task that cannot.
    """
    try:
        preflight(reward, tasks)
    except RewardContractError as error:
        raise UsageError(f"{error}; nothing was started") from None
