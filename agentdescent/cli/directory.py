"""`agentdescent run --directory`: a directory of files evolves, instead of a text."""

import shlex
from functools import partial
from typing import Any

from agentdescent.agents.cli import CliAgent
from agentdescent.agents.completion import Completion
from agentdescent.cli.endings import UsageError
from agentdescent.cli.settings import Files, Settings
from agentdescent.core.task import Task
from agentdescent.frontends import Evolved, evolve_agent_code, evolve_skill_dir
from agentdescent.trees import load_tree


def check(settings: Settings, files: Files) -> None:
    """Make sure that the directory can be used as is asked for.

    Raises:
        UsageError: If options do not go together.
        TreeError: If it cannot be loaded.
    """
    if settings.strategy != "rules" or settings.prompt:
        raise UsageError("--strategy and --prompt are about a text; --directory has files instead")
    if files.entrypoint is None and settings.agent_command is None:
        raise UsageError(
            "--directory needs someone who uses it: give --agent-command, an agent that reads the "
            "files, or --entrypoint if they are a program"
        )
    if files.entrypoint is None and files.test_command is not None:
        raise UsageError("--test-command judges a program; name that with --entrypoint")
    if settings.out.absolute().is_relative_to(files.path.absolute()):
        raise UsageError(f"--out {settings.out} is inside of --directory; name one outside of it")
    load_tree(files.path)


def start(
    files: Files, tasks: list[Task], *, agent: Completion | None, **shared: Any
) -> "partial[Evolved]":
    """What evolves it, given the other arguments of `evolve`; `shared` are those of front ends."""
    if files.frozen:
        shared["frozen"] = files.frozen
    shared["artifact_id"] = "artifact"
    if files.entrypoint is None:
        assert isinstance(agent, CliAgent)  # noqa: S101 - `check` has seen to it
        return partial(
            evolve_skill_dir, files.path, tasks, agent=agent, layout=files.layout, **shared
        )
    if files.test_command is not None:
        shared["test_cmd"] = shlex.split(files.test_command) or None
    return partial(
        evolve_agent_code, files.path, tasks, entrypoint=shlex.split(files.entrypoint), **shared
    )
