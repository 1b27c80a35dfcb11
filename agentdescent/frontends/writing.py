"""Putting what a run has made of a directory in its place, unless somebody has changed it."""

import json
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentdescent.core.identity import digest, utf8
from agentdescent.errors import TreeError
from agentdescent.trees import (
    Tree,
    TreeSpec,
    WritePlan,
    canonical,
    load_tree,
    parse_tree,
    write_tree,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The directory that a run began with.

    Attributes:
        path: Where it is, absolute and without links.
        fingerprint: Of the files that were loaded: 64 hex digits.
        spec: Which files those are, as the fields of a `TreeSpec`.
        ledger: The `repo_path` of the run, absolute; None if the ledger was not kept.
    """

    path: str
    fingerprint: str
    spec: Mapping[str, Any]
    ledger: str | None = None

    @classmethod
    def of(
        cls,
        path: Path,
        tree: Tree,
        spec: TreeSpec,
        repo_path: str | os.PathLike[str] | None = None,
    ) -> "Origin":
        """The directory `path`, of which `spec` selects `tree`."""
        ledger = None if repo_path is None else os.fspath(Path(repo_path).absolute())
        return cls(os.fspath(path.resolve()), fingerprint(tree), asdict(spec), ledger)

    def tree_spec(self) -> TreeSpec:
        """Which files were loaded."""
        globs: dict[str, Any] = {name: tuple(self.spec[name]) for name in ("include", "exclude")}
        return TreeSpec(**{**self.spec, **globs})


def fingerprint(tree: Tree) -> str:
    """Equal for equal files, 64 hex digits."""
    return digest(utf8(canonical(tree, tree.executable))).hex()


def put_back(
    origin: Origin,
    rendered: str,
    path: str | os.PathLike[str],
    note: Mapping[str, Any],
    *,
    backup: bool = True,
    prune: bool = False,
    dry_run: bool = False,
    spec: TreeSpec | None = None,
) -> WritePlan:
    """Write the tree `rendered` over `path`, with `note` beside the backup.

    Raises:
        TreeError: If `path` holds neither the tree of `origin` nor the new one, or cannot be
            replaced.
        OSError: If something cannot be read or written; `path` is then as it was.
    """
    tree, chosen = parse_tree(rendered), spec or origin.tree_spec()
    known = {origin.fingerprint, fingerprint(tree)}

    def check(directory: Path) -> None:
        if fingerprint(load_tree(directory, chosen)) not in known:
            raise TreeError(
                f"{os.fspath(path)} has changed since the run began, and nothing was written; "
                "write the result to a new directory, and merge the two by hand"
            )

    with _beside(path, note, wanted=backup and not dry_run) as draft:
        plan = write_tree(
            tree,
            path,
            backup=backup,
            prune=prune,
            dry_run=dry_run,
            spec=chosen,
            check=check,
        )
        if draft is not None and plan["backup"] is not None:
            draft.replace(f"{plan['backup']}.json")
    return plan


@contextmanager
def _beside(
    path: str | os.PathLike[str], note: Mapping[str, Any], *, wanted: bool
) -> Generator[Path | None]:
    """`note` in a file beside `path`, to be renamed; None if there is nothing to back up.

    It is written before anything else is, so that a full disk is found out in time.
    """
    target = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - follows no link
    if not wanted or not target.is_dir():
        yield None
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.json")
    try:
        draft.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        yield draft
    finally:
        draft.unlink(missing_ok=True)
