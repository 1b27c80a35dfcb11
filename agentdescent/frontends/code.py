"""Front end for programs: a directory that is run, behind the gate of its own tests."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from agentdescent.agents.completion import Completion
from agentdescent.core.protocols import Reward
from agentdescent.dataloader import Dataset
from agentdescent.frontends.evolved import Evolved
from agentdescent.frontends.job import Job, blocking, in_three, planned, scorer
from agentdescent.frontends.sources import Source, StrPath, job_of
from agentdescent.runners import Isolation, code_runner, zero_if_failed
from agentdescent.runners.staging import Fixtures
from agentdescent.trees import TreeSpec

PYTEST = (sys.executable, "-m", "pytest", "-q")
"""What judges a candidate unless something else is named."""

TESTS = (
    "tests/**",
    "**/conftest.py",
    "**/sitecustomize.py",
    "pytest.*",
    "pytest/**",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
)
"""What a candidate may not touch unless something else is named: tests, and what steers them."""


async def async_evolve_agent_code(  # noqa: PLR0913 - one line of a call each
    path: StrPath,
    data: Iterable[Any] | Dataset[Any],
    *,
    entrypoint: Sequence[StrPath],
    score: str | Reward = "contains",
    reflect_with: Completion | None = None,
    prompt: str = "prompt",
    gold: str = "gold",
    split: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    spec: TreeSpec | None = None,
    editable: Sequence[str] = ("**",),
    frozen: Sequence[str] = TESTS,
    max_files_per_diff: int = 2,
    test_cmd: Sequence[StrPath] | None = PYTEST,
    setup_cmd: Sequence[StrPath] | None = None,
    timeout: float = 120.0,  # noqa: ASYNC109 - of each command
    env: Mapping[str, str] | None = None,
    env_passthrough: Iterable[str] = (),
    fixtures: Fixtures | None = None,
    isolation: Isolation | None = None,
    workspace_root: StrPath | None = None,
    write_back: bool = False,
    **options: Any,
) -> Evolved:
    """Evolve a program against examples, in one call; a candidate that fails its tests scores 0.

    As `async_evolve_skill_dir`, but the directory is a program that is run. Its blast radius is
    0.6, so that every merge is audited.

    Args:
        path: The directory.
        data: As of `async_evolve_skill_dir`, as all that is not named here.
        entrypoint: The program; it runs in the directory, the prompt is its last argument, and what
            it prints is the output.
        score: "contains", "exact", "last_number", "numeric_close", or a reward of your own.
        reflect_with: A completion that looks at failures and edits the files; or give ``propose=``.
        prompt: The column with the prompt, or a template of several; for rows.
        gold: The column with the expected answer; for rows.
        split: The shares of training, held-out and test tasks.
        seed: Of the split, and as of `async_evolve`.
        spec: Which files are the program.
        editable: Globs of what may be changed, created and deleted.
        frozen: Globs of what may not; by default the tests, and what could steer them.
        max_files_per_diff: A proposal that changes more files is dropped.
        test_cmd: Judges a candidate, once, however many tasks it is evaluated on; by default
            pytest. None for no tests.
        setup_cmd: Prepares each workspace.
        timeout: Seconds that each command may take.
        env: Variables to set.
        env_passthrough: Names of variables of ours to hand on.
        fixtures: Gives the files of a task, instead of its `meta`.
        isolation: Between the program and your machine; by default none.
        workspace_root: Where workspaces are made; by default where temporary files are.
        write_back: As of `async_evolve_skill_dir`.
        **options: As of `async_evolve_skill_dir`.

    Raises:
        ValueError: If nobody reflects, or pytest is to judge and is not installed; besides as in
            `async_evolve_skill_dir`.
    """
    return await (await planned(_plan, dict(locals()))).carry_out()


def _plan(  # noqa: PLR0913 - as above
    path: StrPath,
    data: Iterable[Any] | Dataset[Any],
    *,
    entrypoint: Sequence[StrPath],
    score: str | Reward,
    reflect_with: Completion | None,
    prompt: str,
    gold: str,
    split: tuple[float, float, float],
    seed: int,
    spec: TreeSpec | None,
    editable: Sequence[str],
    frozen: Sequence[str],
    max_files_per_diff: int,
    test_cmd: Sequence[StrPath] | None,
    setup_cmd: Sequence[StrPath] | None,
    timeout: float,
    env: Mapping[str, str] | None,
    env_passthrough: Iterable[str],
    fixtures: Fixtures | None,
    isolation: Isolation | None,
    workspace_root: StrPath | None,
    write_back: bool,
    options: Mapping[str, Any],
) -> Job:
    if test_cmd == PYTEST and find_spec("pytest") is None:
        raise ValueError(
            "pytest is to judge candidates and is not installed; install it, or name another "
            "command (test_cmd=, --test-command)"
        )
    source = Source.load(path, spec, editable, frozen, max_files_per_diff)
    reward = zero_if_failed(scorer(score))
    parts = in_three(data, prompt=prompt, gold=gold, split=split, seed=seed, reward=reward)
    run = code_runner(
        entrypoint,
        setup_cmd=setup_cmd,
        test_cmd=test_cmd,
        overlay=source.overlay,
        frozen=frozen,
        fixtures=fixtures,
        timeout=timeout,
        env=env,
        env_passthrough=env_passthrough,
        isolation=isolation,
        workspace_root=workspace_root,
    )
    given = {"run": run, "blast_radius": 0.6, "seed": seed, **options}
    return job_of(source, parts, reward, reflect_with, given, write_back=write_back)


evolve_agent_code = blocking(async_evolve_agent_code, _plan)
