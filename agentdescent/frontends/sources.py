"""Directories to begin with, and the jobs that are made of them."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from agentdescent.agents.completion import Completion
from agentdescent.agents.tree_reflector import tree_reflector
from agentdescent.core.protocols import Reward, WorkspaceAgent
from agentdescent.core.task import Task
from agentdescent.dataloader import Dataset
from agentdescent.errors import LedgerError, TreeError
from agentdescent.frontends.job import Job, completed
from agentdescent.frontends.writing import Origin
from agentdescent.ledger import Ledger
from agentdescent.policy.filetree import FileTree
from agentdescent.runners import Isolation, tree_runner
from agentdescent.trees import Tree, TreeSpec, canonical, load_tree

StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Source:
    """A directory, loaded.

    Attributes:
        path: Where it is.
        tree: Its files.
        spec: Which files those are.
        strategy: Makes them the artifact.
    """

    path: Path
    tree: Tree
    spec: TreeSpec
    strategy: FileTree

    @classmethod
    def load(
        cls,
        path: StrPath,
        spec: TreeSpec | None,
        editable: Sequence[str],
        frozen: Sequence[str],
        max_files_per_diff: int,
    ) -> Self:
        """Read the directory `path`.

        Raises:
            TreeError: If it cannot be loaded.
            ValueError: If `max_files_per_diff` is below 1.
        """
        place, spec = Path(path).expanduser().absolute(), spec or TreeSpec()
        tree = load_tree(place, spec)
        strategy = FileTree(
            tree,
            editable,
            frozen,
            max_files_per_diff,
            spec.max_file_bytes,
            max_files=spec.max_files,
            max_total_bytes=spec.max_total_bytes,
        )
        return cls(place, tree, spec, strategy)

    @property
    def name(self) -> str:
        """The name of the directory, as it can name an artifact."""
        cleaned = re.sub(r"[^A-Za-z0-9_.\-]+", "-", self.path.resolve().name)
        return cleaned.strip(".-") or "artifact"

    @property
    def overlay(self) -> Mapping[str, str]:
        """The frozen files, as they are now."""
        return self.strategy.frozen_files(self.tree)


def job_of(
    source: Source,
    parts: Dataset[Task],
    reward: Reward,
    reflect_with: Completion | None,
    options: Mapping[str, Any],
    *,
    write_back: bool,
) -> Job:
    """The job of evolving `source`; `options` are those of `async_evolve`, `run` among them.

    Raises:
        ValueError: If nobody reflects, or it cannot be written back in the end.
        TreeError: If the ledger at `repo_path` went on from other files.
    """
    given: dict[str, Any] = {"artifact_id": source.name, "strategy": source.strategy, **options}
    if "propose" not in given:
        if reflect_with is None:
            raise ValueError("nobody reflects on failures; give reflect_with=, or propose=")
        if isinstance(reflect_with, WorkspaceAgent):
            reflect_with = apart(reflect_with)
        given["propose"] = tree_reflector(reflect_with, strategy=given["strategy"])
    if write_back:
        _refuse_in_vain(source, parts)
    repo_path = given.get("repo_path")
    if repo_path is not None:
        _refuse_other_beginning(source, repo_path, given["artifact_id"])
    defaults = {"self_verify": False, "cheap_eval_tasks": 4}
    ready = completed(
        {**defaults, **given},
        seed=given["seed"],
        rounds=6,
        most_workers=4,
        n_train=len(parts.train),
    )
    origin = Origin.of(source.path, source.tree, source.spec, repo_path)
    return Job(parts, reward, ready, origin, write_back)


def apart(
    agent: WorkspaceAgent,
    isolation: Isolation | None = None,
    workspace_root: StrPath | None = None,
) -> Completion:
    """`agent` as a completion, at work in an empty directory: it cannot touch what it speaks of."""
    run = tree_runner(
        agent,
        layout="root",
        prompt_template="{prompt}",
        isolation=isolation,
        workspace_root=workspace_root,
    )

    async def complete(prompt: str) -> str:
        return await run(canonical({}), Task("reflect", prompt))

    return complete


def _refuse_in_vain(source: Source, parts: Dataset[Task]) -> None:
    """Say now what would keep the result from being written back."""
    if not parts.test:
        raise ValueError(
            "write_back=True needs a test split, which has no task here; give split= a third share "
            "above 0, or use result.write_to() once you have seen the result"
        )
    if Path.cwd().is_relative_to(source.path.resolve()):
        raise ValueError(
            f"write_back=True cannot replace {source.path}: it is the current directory, or above "
            "it; start from elsewhere"
        )


def _refuse_other_beginning(source: Source, repo_path: StrPath, artifact_id: str) -> None:
    """Refuse a ledger none of whose versions is the directory as it is now.

    What the run would go on from is the ledger's newest version, so that changes of the directory
    would be left out, and undone by writing the result back.
    """
    ledger = Ledger(repo_path)
    try:
        newest = ledger.artifacts().get(artifact_id, 0)
        states = (ledger.at(number, artifact_id) for number in range(newest, 0, -1))
        if not newest or any(dict(state) == source.tree for state in states):
            return
    except LedgerError:
        return  # there is none yet, or the run will say what is wrong with it
    raise TreeError(
        f"the ledger in {os.fspath(repo_path)} has never held what {source.path} holds now, so the "
        "run would go on from other files; give a new repo_path"
    )
