"""Running a tree of files as a program, behind the gate of its own tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentdescent.core.identity import Identity, canonical_json, digest, utf8
from agentdescent.core.reply import Reply
from agentdescent.core.task import Task
from agentdescent.errors import AgentError, CommandNotStarted, CommandTimeout
from agentdescent.process import (
    MAX_OUTPUT,
    Finished,
    Launch,
    StrPath,
    clean_environment,
    run_command,
)
from agentdescent.runners.calling import Remembered
from agentdescent.runners.gate import failure
from agentdescent.runners.isolation import Isolation, Plain, Workspace
from agentdescent.runners.staging import Fixtures, Staging
from agentdescent.runners.tree import staging_of
from agentdescent.runners.workspaces import Workspaces
from agentdescent.trees import Tree, canonical

_REMEMBERED = 1024
"""Verdicts of gates that are kept, one a tree."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What is run in a workspace, and how.

    Attributes:
        entrypoint: The program that works on a task; its prompt is the last argument.
        setup: Prepares a workspace; None if nothing has to be prepared.
        test: Judges a tree; None if nothing judges it.
        timeout: Seconds that each of them may take.
        env: The environment of each.
        max_output: Bytes that are kept of what each prints.
    """

    entrypoint: tuple[str, ...]
    setup: tuple[str, ...] | None
    test: tuple[str, ...] | None
    timeout: float
    env: Mapping[str, str]
    max_output: int

    @property
    def identity(self) -> str:
        """What remembered rewards depend on; says nothing of the values of variables."""
        commands = (self.entrypoint, self.setup, self.test, self.timeout, self.max_output)
        variables, _ = canonical_json(self.env)
        return f"{commands} {digest(utf8(variables)).hex()}"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class CodeRunner:
    """A tree of files as a program; made by `code_runner`.

    Cancelled, it ends what runs; the workspace is gone when it returns.
    """

    commands: Commands
    staging: Staging
    workspaces: Workspaces
    verdicts: Remembered[str]

    async def __call__(self, rendered: str, task: Task) -> str:
        """Run the program in the tree `rendered` on `task`; what it printed, stripped.

        What the candidate is to blame for is an output too: one that begins with
        `TEST_FAILURE_MARKER`.

        Raises:
            TreeError: If `rendered` is no tree, or the fixtures cannot be staged.
            AgentError: If a program is not installed, or the isolation cannot be had.
        """
        tree = self.staging.tree(rendered)
        fixtures = await self.staging.fixtures_of(task)
        verdict = await self._verdict(tree)
        if verdict:
            return verdict
        async with self.workspaces.lease(partial(self.staging.write, tree, fixtures)) as space:
            failed = await self._step("setup", self.commands.setup, space)
            if failed:
                return failed
            entrypoint = (*self.commands.entrypoint, task.prompt)
            finished = await self._run("entrypoint", entrypoint, space)
        if isinstance(finished, str):
            return finished
        if finished.returncode:
            said = finished.stderr.strip() or finished.stdout
            return failure(f"entrypoint exited {finished.returncode}", said)
        return Reply(
            finished.stdout.strip(), cut=finished.stdout_dropped > 0, seconds=finished.seconds
        )

    @property
    def identity(self) -> Identity:
        """What remembered rewards depend on besides tree, task and scorer."""
        staging, isolation = self.staging.identity, self.workspaces.isolation.identity
        name = f"code_runner {self.commands.identity} {staging.name} {isolation}"
        return Identity(name, staging.explicit)

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    async def _verdict(self, tree: Tree) -> str:
        """What setup and tests had against `tree`; "" if nothing, and if there are no tests."""
        if self.commands.test is None:
            return ""
        key = digest(utf8(canonical(tree, tree.executable)))
        return await self.verdicts.get(key, partial(self._judge, tree))

    async def _judge(self, tree: Tree) -> str:
        async with self.workspaces.lease(partial(self.staging.write, tree, {})) as space:
            failed = await self._step("setup", self.commands.setup, space)
            return failed or await self._step("tests", self.commands.test, space)

    async def _step(self, label: str, command: tuple[str, ...] | None, space: Workspace) -> str:
        """Run one command of the gate; why it did not let the tree pass, or ""."""
        if command is None:
            return ""
        finished = await self._run(label, command, space)
        if isinstance(finished, str):
            return finished
        said = f"{finished.stdout}{finished.stderr}"
        return failure(label, said) if finished.returncode else ""

    async def _run(self, label: str, command: tuple[str, ...], space: Workspace) -> Finished | str:
        """How `command` ended, or what to say if it did not, through the candidate's own fault."""
        isolation, timeout = self.workspaces.isolation, self.commands.timeout
        launch = isolation.confine(Launch(command, space.work, self.commands.env), space)
        try:
            finished = await run_command(
                launch.command,
                cwd=launch.cwd,
                env=launch.env,
                timeout=timeout,
                max_output=self.commands.max_output,
                limits=launch.limits,
            )
        except CommandTimeout as late:
            return failure(f"{label} timed out after {timeout:g}s", late.stdout + late.stderr)
        except CommandNotStarted as error:
            if _is_of_the_tree(command[0]) and error.attempts_made is not None:
                return failure(label, str(error))
            raise
        if complaint := isolation.complaint(finished):
            raise AgentError(f"{label} could not be started: {complaint[:400]}")
        return finished


def code_runner(  # noqa: PLR0913 - each is one line of a call
    entrypoint: Sequence[StrPath],
    *,
    layout: str = "root",
    name: str = "agent",
    setup_cmd: Sequence[StrPath] | None = None,
    test_cmd: Sequence[StrPath] | None = None,
    overlay: Mapping[str, str] | None = None,
    frozen: Sequence[str] = (),
    fixtures: Fixtures | None = None,
    timeout: float = 120.0,
    env: Mapping[str, str] | None = None,
    env_passthrough: Iterable[str] = (),
    max_output: int = MAX_OUTPUT,
    keep_failed: bool = False,
    workspace_root: StrPath | None = None,
    isolation: Isolation | None = None,
) -> CodeRunner:
    """Use a program that is a tree of files as the `run` of a `FileTree`.

    The tests are run once a tree, in a workspace of their own without fixtures, and their verdict
    is remembered; `setup_cmd` prepares each workspace. All commands run in the workspace, with the
    variables PATH, LANG, LC_ALL, LC_CTYPE, TZ and PYTHONDONTWRITEBYTECODE, HOME and TMPDIR of their
    own, and what you add.

    Args:
        entrypoint: The program that works on a task; its prompt becomes the last argument, and what
            it prints is the output.
        layout: As of `tree_runner`.
        name: What the tree is called in a layout that names it.
        setup_cmd: Prepares a workspace.
        test_cmd: Judges the tree.
        overlay: Pristine files by their path in the tree, written last, over everything else.
        frozen: Globs of paths in the tree; a candidate's files there are left out.
        fixtures: As of `tree_runner`.
        timeout: Seconds that each command may take.
        env: Variables to set.
        env_passthrough: Names of variables of ours to hand on.
        max_output: Bytes that are kept of what a command prints.
        keep_failed: As of `tree_runner`; a candidate that fails its tests is no error.
        workspace_root: Where workspaces are made; by default where temporary files are.
        isolation: By default `Plain()`, which isolates nothing.

    Raises:
        TypeError: If a command is one string.
        ValueError: If a command is empty, or `timeout` or `max_output` is not positive.
        TreeError: If the layout or a path of the overlay is not safe.
    """
    for argument, value in (("timeout", timeout), ("max_output", max_output)):
        if value <= 0:
            raise ValueError(f"{argument} must be positive, got {value:g}")
    variables = clean_environment(env_passthrough, {"PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
    commands = Commands(
        entrypoint=command_of("entrypoint", entrypoint),
        setup=None if setup_cmd is None else command_of("setup_cmd", setup_cmd),
        test=None if test_cmd is None else command_of("test_cmd", test_cmd),
        timeout=timeout,
        env=variables,
        max_output=max_output,
    )
    isolation = Plain() if isolation is None else isolation
    return CodeRunner(
        commands=commands,
        staging=staging_of(layout, name, overlay, frozen, fixtures),
        workspaces=Workspaces(isolation, workspace_root, keep_failed=keep_failed),
        verdicts=Remembered(_REMEMBERED),
    )


def command_of(argument: str, command: Any) -> tuple[str, ...]:
    """A command as a tuple of texts.

    Raises:
        TypeError: If it is one string.
        ValueError: If it is empty.
    """
    if isinstance(command, str):
        raise TypeError(f"{argument} must be a list, got text; write {command.split()!r}")
    parts = tuple(map(str, command))
    if not parts:
        raise ValueError(f"{argument} is empty; name at least a program")
    return parts


def _is_of_the_tree(program: str) -> bool:
    return "/" in program and not program.startswith("/")
