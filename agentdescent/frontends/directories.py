"""Front ends for agents that read a directory: of a skill, or of agent definitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentdescent.agents.completion import Completion
from agentdescent.core.protocols import Reward, WorkspaceAgent
from agentdescent.dataloader import Dataset
from agentdescent.frontends.evolved import Evolved
from agentdescent.frontends.job import Job, blocking, in_three, planned, scorer
from agentdescent.frontends.sources import Source, StrPath, apart, job_of
from agentdescent.runners import PROMPT_TEMPLATE, Isolation, tree_runner
from agentdescent.runners.staging import Fixtures
from agentdescent.trees import TreeSpec


async def async_evolve_skill_dir(  # noqa: PLR0913 - one line of a call each
    path: StrPath,
    data: Iterable[Any] | Dataset[Any],
    *,
    agent: WorkspaceAgent,
    score: str | Reward = "contains",
    reflect_with: Completion | None = None,
    prompt: str = "prompt",
    gold: str = "gold",
    split: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    name: str | None = None,
    layout: str = "claude_skill",
    spec: TreeSpec | None = None,
    editable: Sequence[str] = ("**",),
    frozen: Sequence[str] = (),
    max_files_per_diff: int = 2,
    prompt_template: str = PROMPT_TEMPLATE,
    fixtures: Fixtures | None = None,
    answer_file: str | None = None,
    isolation: Isolation | None = None,
    workspace_root: StrPath | None = None,
    blast_radius: float = 0.2,
    write_back: bool = False,
    **options: Any,
) -> Evolved:
    """Evolve the directory of a skill against examples, in one call.

    The examples are split in three: workers learn from the first part, merges are judged by the
    second, and the third is touched by nobody until the run is over. Then the directory as it is
    and what has become of it are compared on it.

    The directory itself is read once, and never written while the run goes on.

    Args:
        path: The directory.
        data: Rows (mappings of columns), tasks, or a `Dataset` with three parts of its own. The
            column ``fixtures`` (``meta["fixtures"]``) holds the files of a task, by their path.
        agent: Works on files: has `in_workspace(path)`, as `cli_agent(...)` and `claude_code()`.
        score: "contains", "exact", "last_number", "numeric_close", or a reward of your own.
        reflect_with: A completion that looks at failures and edits the files; by default the agent.
            An agent that works on files does so in an empty directory.
        prompt: The column with the prompt, or a template of several; for rows.
        gold: The column with the expected answer; for rows.
        split: The shares of training, held-out and test tasks.
        seed: Of the split, and as of `async_evolve`.
        name: What the directory is called in the workspace; by default as it is called now.
        layout: Where it is put, as of `tree_runner`.
        spec: Which files are the tree; the others are not looked at.
        editable: Globs of what may be changed, created and deleted.
        frozen: Globs of what may not; those files are put back before each rollout.
        max_files_per_diff: A proposal that changes more files is dropped.
        prompt_template: What the agent is told, as of `tree_runner`.
        fixtures: Gives the files of a task, instead of its `meta`.
        answer_file: A file in the workspace that holds the answer, if the agent writes it.
        isolation: Between the agent and your machine; by default none.
        workspace_root: Where workspaces are made; by default where temporary files are.
        blast_radius: As of `async_evolve`.
        write_back: Replace the directory by what has been learned if the test reward is not lower
            and nobody has changed it meanwhile. The old one becomes ``<path>.bak-N``.
        **options: Any other argument of `async_evolve`. By default it works in rounds, 6 at most,
            with up to 4 workers at once and without verifying proposals on their own task, and ends
            at a held-out reward of 0.98 or after 3 rounds without progress. Budgets hold for the
            run; the test takes two more rollouts a test task.

    Returns:
        The result of the run, with `test` and `written`; ``result.write_to()`` writes later. Always
        check `error` and `stop_reason`.

    Raises:
        TreeError: If the directory cannot be loaded, or the ledger at `repo_path` went on from
            other files.
        ValueError: If there is no data, or an argument cannot be honoured.
        TypeError: If a callable has not the form it needs, or an argument is unknown.

    Cancelling it cancels the run, as in `async_evolve`.
    """
    return await (await planned(_plan, dict(locals()))).carry_out()


async def async_evolve_agent_dir(  # noqa: PLR0913 - as above
    path: StrPath,
    data: Iterable[Any] | Dataset[Any],
    *,
    agent: WorkspaceAgent,
    score: str | Reward = "contains",
    reflect_with: Completion | None = None,
    prompt: str = "prompt",
    gold: str = "gold",
    split: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    name: str | None = None,
    layout: str = "claude_agent",
    spec: TreeSpec | None = None,
    editable: Sequence[str] = ("**",),
    frozen: Sequence[str] = (),
    max_files_per_diff: int = 2,
    prompt_template: str = PROMPT_TEMPLATE,
    fixtures: Fixtures | None = None,
    answer_file: str | None = None,
    isolation: Isolation | None = None,
    workspace_root: StrPath | None = None,
    blast_radius: float = 0.6,
    write_back: bool = False,
    **options: Any,
) -> Evolved:
    """Evolve a directory of agent definitions against examples, in one call.

    As `async_evolve_skill_dir`, but the files are put where agents look for definitions of agents,
    and every merge is audited, for a bad definition breaks more than a bad skill.
    """
    return await (await planned(_plan, dict(locals()))).carry_out()


def _plan(  # noqa: PLR0913 - as above
    path: StrPath,
    data: Iterable[Any] | Dataset[Any],
    *,
    agent: WorkspaceAgent,
    score: str | Reward,
    reflect_with: Completion | None,
    prompt: str,
    gold: str,
    split: tuple[float, float, float],
    seed: int,
    name: str | None,
    layout: str,
    spec: TreeSpec | None,
    editable: Sequence[str],
    frozen: Sequence[str],
    max_files_per_diff: int,
    prompt_template: str,
    fixtures: Fixtures | None,
    answer_file: str | None,
    isolation: Isolation | None,
    workspace_root: StrPath | None,
    blast_radius: float,
    write_back: bool,
    options: Mapping[str, Any],
) -> Job:
    source = Source.load(path, spec, editable, frozen, max_files_per_diff)
    reward = scorer(score)
    parts = in_three(data, prompt=prompt, gold=gold, split=split, seed=seed, reward=reward)
    run = tree_runner(
        agent,
        layout=layout,
        name=name or source.name,
        prompt_template=prompt_template,
        overlay=source.overlay,
        frozen=frozen,
        fixtures=fixtures,
        answer_file=answer_file,
        isolation=isolation,
        workspace_root=workspace_root,
    )
    given = {"run": run, "blast_radius": blast_radius, "seed": seed, **options}
    reflect = apart(agent, isolation, workspace_root) if reflect_with is None else reflect_with
    return job_of(source, parts, reward, reflect, given, write_back=write_back)


evolve_skill_dir = blocking(async_evolve_skill_dir, _plan)
evolve_agent_dir = blocking(async_evolve_agent_dir, _plan)
