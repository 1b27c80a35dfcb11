"""Putting a tree of files in front of an agent that works on files."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import anyio

from agentdescent.core.contracts import check_callable
from agentdescent.core.identity import Identity, identity_of
from agentdescent.core.protocols import Propose, WorkspaceAgent
from agentdescent.core.reply import Reply
from agentdescent.core.task import Task
from agentdescent.errors import CommandTimeout, ContractError
from agentdescent.process import Confinable, StrPath
from agentdescent.runners.answers import changes, read_answer
from agentdescent.runners.calling import answer_of, to_the_end
from agentdescent.runners.isolation import Isolation, Plain, Workspace
from agentdescent.runners.staging import Fixtures, Staging, folder_of
from agentdescent.runners.workspaces import Workspaces
from agentdescent.trees import Tree, safe_relpath

PROMPT_TEMPLATE = """\
{prompt}

(Files for you are in the directory {tree_dir}. Read them and follow them. Reply with the final \
answer only.)"""


class TreeReply(Reply):
    """An agent's answer, and what it changed in the tree meanwhile.

    Attributes:
        edits: Path to the new text, None where the file is gone.
    """

    __slots__ = ("edits",)

    edits: Mapping[str, str | None]

    @classmethod
    def of(cls, reply: str, edits: Mapping[str, str | None]) -> Self:
        """`reply`, and `edits`."""
        answer = cls(reply, **_details(reply))
        answer.edits = edits
        return answer


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class TreeRunner:
    """An agent as the `run` of a tree of files; made by `tree_runner`.

    Cancelled, it ends what the agent has started; the workspace is gone when it returns. An agent
    that runs in a thread of this process cannot be ended: it goes on without its workspace.
    """

    agent: WorkspaceAgent
    staging: Staging
    workspaces: Workspaces
    name: str
    prompt_template: str
    answer_file: str | None
    capture_edits: bool
    timeout: float | None

    async def __call__(self, rendered: str, task: Task) -> str:
        """Let the agent work on `task` with the tree `rendered`; its answer, stripped.

        Raises:
            TreeError: If `rendered` is no tree, or the fixtures cannot be staged.
            AgentError: If the agent failed, or the isolation cannot be had.
        """
        tree = self.staging.tree(rendered)
        fixtures = await self.staging.fixtures_of(task)
        async with self.workspaces.lease(partial(self.staging.write, tree, fixtures)) as space:
            answer = await self._ask(space, task)
            if self.answer_file is not None:
                answer = await to_the_end(read_answer, space.work, self.answer_file, answer)
            if self.capture_edits:
                edits = await to_the_end(changes, space.work, self.staging.folder, tree)
                ours = {self.answer_file, *fixtures} if not self.staging.folder else {None}
                edits = {path: text for path, text in edits.items() if path not in ours}
                return TreeReply.of(_stripped(answer), edits)
            return _stripped(answer)

    @property
    def identity(self) -> Identity:
        """What remembered rewards depend on besides tree, task and scorer."""
        agent, staging = identity_of(self.agent), self.staging.identity
        isolation = self.workspaces.isolation.identity
        settings = (self.name, self.prompt_template, self.answer_file)
        name = f"tree_runner {agent.name} {staging.name} {settings} {isolation}"
        return Identity(name, agent.explicit and staging.explicit)

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    async def _ask(self, space: Workspace, task: Task) -> str:
        agent: Any = self.agent
        if isinstance(agent, Confinable):
            isolation = self.workspaces.isolation
            agent = agent.confined(lambda launch: isolation.confine(launch, space))
        prompt = self.prompt_template.format(
            prompt=task.prompt, tree_dir=self.staging.folder or ".", name=self.name
        )
        with anyio.move_on_after(self.timeout):
            return _text(await answer_of(agent.in_workspace(space.work), prompt))
        raise CommandTimeout(f"the agent exceeded timeout={self.timeout:g}s and was called off")


def tree_runner(  # noqa: PLR0913 - each is one line of a call
    agent: WorkspaceAgent,
    *,
    layout: str = "claude_skill",
    name: str = "artifact",
    prompt_template: str = PROMPT_TEMPLATE,
    overlay: Mapping[str, str] | None = None,
    frozen: Sequence[str] = (),
    fixtures: Fixtures | None = None,
    answer_file: str | None = None,
    capture_edits: bool = False,
    timeout: float | None = None,
    keep_failed: bool = False,
    workspace_root: StrPath | None = None,
    isolation: Isolation | None = None,
) -> TreeRunner:
    """Use an agent that works on files as the `run` of a `FileTree`.

    Each rollout has a fresh workspace with the tree, the fixtures of its task and the overlay. An
    agent that is a program (`cli_agent`) is started through the isolation; it sees no variable of
    ours but the search path, language and time zone, and those that it was made to hand on.

    Args:
        agent: Has a method `in_workspace(path)` that gives the same agent at work in `path`.
        layout: Where the tree goes: "claude_skill" (``.claude/skills/<name>``), "claude_agent"
            (``.claude/agents``), "skill_library" (``.claude/skills``), "root" (the workspace
            itself), or a directory, which may contain ``{name}``.
        name: What the tree is called there.
        prompt_template: What the agent is told, with ``{prompt}``, and if you like ``{tree_dir}``
            and ``{name}``.
        overlay: Pristine files by their path in the tree, written last, over everything else.
        frozen: Globs of paths in the tree; a candidate's files there are left out.
        fixtures: Gives a task's files, by their path in the workspace; by default they stand in its
            `meta["fixtures"]`.
        answer_file: A file in the workspace that holds the answer, if the agent writes it.
        capture_edits: Return a `TreeReply`, which says what the agent changed in the tree.
        timeout: Seconds an agent may take, besides its own limit; None for as long as it likes.
        keep_failed: Keep the workspaces of agents that failed; a RuntimeWarning says where.
        workspace_root: Where workspaces are made; by default where temporary files are.
        isolation: By default `Plain()`, which isolates nothing.

    Raises:
        TypeError: If the agent has no `in_workspace`, or cannot be isolated as is asked for.
        TreeError: If layout, `answer_file` or a path of the overlay is not safe.
        ValueError: If the template has no ``{prompt}`` or other fields, or the timeout is none.
    """
    if not isinstance(agent, WorkspaceAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"agent must be a WorkspaceAgent, which has in_workspace(path); got {agent!r:.80}: a "
            "plain completion sees the prompt and no files; use cli_agent(...), or give it one"
        )
    isolation = Plain() if isolation is None else isolation
    if not isinstance(isolation, Plain) and not isinstance(agent, Confinable):
        raise TypeError(
            f"isolation={isolation!r} cannot hold {agent!r:.80}, which has no confined(...): it "
            "runs in this very process; use cli_agent(...), or isolation=Plain()"
        )
    if timeout is not None and timeout <= 0:
        raise ValueError(f"timeout must be positive, got {timeout:g}; None waits for ever")
    check_template(prompt_template)
    return TreeRunner(
        agent=agent,
        staging=staging_of(layout, name, overlay, frozen, fixtures),
        workspaces=Workspaces(isolation, workspace_root, keep_failed=keep_failed),
        name=name,
        prompt_template=prompt_template,
        answer_file=None if answer_file is None else safe_relpath(answer_file),
        capture_edits=capture_edits,
        timeout=timeout,
    )


def staging_of(
    layout: str,
    name: str,
    overlay: Mapping[str, str] | None,
    frozen: Sequence[str],
    fixtures: Fixtures | None,
) -> Staging:
    """The arguments that all runners take, checked.

    Raises:
        TypeError: If `frozen` is text or `fixtures` cannot be called.
        TreeError: If a path is not safe.
        ValueError: If the layout is none.
    """
    if isinstance(frozen, str):
        raise TypeError(f"frozen must be a list of globs, got {frozen!r}; put it in a list")
    if fixtures is not None:
        check_callable("fixtures", fixtures, ("task",))
    given = overlay or {}
    files = {safe_relpath(path): text for path, text in given.items()}
    pristine = Tree(files, getattr(given, "executable", ()))
    return Staging(folder_of(layout, name), pristine, tuple(frozen), fixtures)


def check_template(template: str) -> None:
    """Refuse a template of prompts that has no field `prompt`, or one that is not known.

    Raises:
        ValueError: If it is one.
    """
    try:
        filled = template.format(prompt="\0", tree_dir="", name="")
    except (LookupError, ValueError, AttributeError) as error:
        raise ValueError(
            f"prompt_template={template!r:.80} cannot be filled in: {error}; its fields are "
            "{prompt}, {tree_dir} and {name}, and other braces are written twice"
        ) from None
    if "\0" not in filled:
        raise ValueError(f"prompt_template={template!r:.80} lacks the field {{prompt}}")


def agent_edits(otherwise: Propose | None = None) -> Callable[..., Awaitable[str | None]]:
    """A `propose` that proposes what the agent itself changed in the tree while it worked.

    The runner must have been made with `capture_edits=True`.

    Args:
        otherwise: Asked when the agent changed nothing.
    """

    async def propose(rendered: str, task: Task, output: Any, reward: float) -> str | None:
        if isinstance(output, TreeReply) and output.edits:
            return proposal_of(output.edits)
        if otherwise is None:
            return None
        return await answer_of(otherwise, rendered, task, output, reward)

    return propose


def proposal_of(edits: Mapping[str, str | None]) -> str:
    """`edits` in the form in which a `FileTree` takes proposals."""
    listed = [
        {"path": path, "delete": True} if text is None else {"path": path, "content": text}
        for path, text in sorted(edits.items())
    ]
    record = {"rationale": "the agent changed these files while it worked", "edits": listed}
    text = json.dumps(record).replace("<", "\\u003c")  # so that no content ends the block
    return f"<EDITS>\n{text}\n</EDITS>"


def _text(answer: object) -> str:
    if answer is None or isinstance(answer, str):
        return answer or ""
    raise ContractError(
        f"an agent must return text; this one returned {type(answer).__name__}; return the "
        "answer's text instead of the object around it"
    )


def _stripped(answer: str) -> str:
    text = answer.strip()
    return answer if text == answer else Reply(text, **_details(answer))


def _details(answer: str) -> dict[str, Any]:
    """What is known about an answer besides its text."""
    if not isinstance(answer, Reply):
        return {}
    names = ("cut", "finish_reason", "tokens", "seconds")
    return {name: getattr(answer, name) for name in names}
