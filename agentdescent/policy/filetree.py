"""A strategy whose artifact is a directory: one key a file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from agentdescent.core.diff import Diff, Dropped, State
from agentdescent.core.outcomes import ProposalOutcome
from agentdescent.errors import TreeError
from agentdescent.policy.filetree_edits import EDIT_PROTOCOL, Edit, parse_edits
from agentdescent.policy.filetree_paths import Places, is_protected, match_any, safe_relpath
from agentdescent.policy.filetree_sections import merge_sections, section_text, with_section
from agentdescent.policy.filetree_text import Tree, canonical, check_paths
from agentdescent.policy.line_merge import lay_over, merge_lines
from agentdescent.policy.strategies_text import diff_of

MARKDOWN = (".md", ".mdx", ".markdown")
NAMED = 10
"""So many dropped edits are named, and so many files in the instructions of a reflector."""

_LISTED_FILES = 200


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What a proposal comes to.

    Attributes:
        ops: Path to the new text, None where the file is deleted; only what changes.
        refused: Edits that were dropped because of what they would do, one line each.
        problems: Edits that could not be read or applied, one line each.
    """

    ops: Mapping[str, str | None]
    refused: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileTree:
    """A directory of text files, one key a file; the rendering is JSON that `parse_tree` reads.

    A proposal is an ``<EDITS>`` block; see `proposal_instructions`. Two workers that edit different
    files fuse; so do two that edit different sections of a Markdown file, or different lines of any
    file. Two that edit the same lines are resolved on held-out reward.

    Globs are those of `match_any`. `frozen` wins over `editable` and does not see case; a wildcard
    of `editable` does not match names that begin with a dot. ``.git`` is never editable, and
    ``.claude/settings*`` only where `editable` names the file in full.

    Attributes:
        initial_files: Path to text; what `load_tree` returns is one.
        editable: Globs of what proposals may change, create and delete.
        frozen: Globs of what they may not.
        max_files_per_diff: A proposal that changes more files is dropped as a whole.
        max_file_bytes: A larger file is refused, in bytes of UTF-8; with the default it fits into
            the trust region of a merge.
        planned_paths: Files that are not there yet and are to be written; `keys` names them.
        max_files: A tree of so many files takes no further one.
        max_total_bytes: A tree grows to so many bytes at most.

    Raises:
        TreeError: If a path is not safe, or two cannot lie beside each other.
    """

    initial_files: Mapping[str, str] = field(default_factory=dict[str, str])
    editable: Sequence[str] = ("**",)
    frozen: Sequence[str] = ()
    max_files_per_diff: int = 2
    max_file_bytes: int = 28_000
    planned_paths: Sequence[str] = ()
    _: KW_ONLY
    max_files: int = 200
    max_total_bytes: int = 2_000_000

    def __post_init__(self) -> None:
        for name in ("editable", "frozen", "planned_paths"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} must be a list of texts, got {value!r}; put it in a list")
            object.__setattr__(self, name, tuple(value))
        for name in ("max_files_per_diff", "max_file_bytes", "max_files", "max_total_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        files = {safe_relpath(path): text for path, text in self.initial_files.items()}
        planned = tuple(map(safe_relpath, self.planned_paths))
        check_paths([*files, *(path for path in planned if path not in files)])
        executable: Iterable[str] = getattr(self.initial_files, "executable", ())
        object.__setattr__(self, "initial_files", Tree(files, executable))
        object.__setattr__(self, "planned_paths", planned)

    def initial(self) -> State:
        """The files to begin with."""
        return dict(self.initial_files)

    def keys(self) -> Sequence[str]:
        """The files that may be edited, and those that are planned."""
        writable = {path for path in self.initial_files if self.writable(path)}
        return sorted({*writable, *self.planned_paths})

    def render(self, state: State, /) -> str:
        """The files as JSON; see `parse_tree`."""
        executable: Iterable[str] = getattr(self.initial_files, "executable", ())
        return canonical(state, executable)

    def writable(self, path: str) -> bool:
        """True if proposals may change `path`, which is a safe one."""
        folded = [pattern.casefold() for pattern in self.frozen]
        if is_protected(path, self.editable) or match_any(path.casefold(), folded):
            return False
        return match_any(path, self.editable, hidden=False)

    def frozen_files(self, state: State) -> dict[str, str]:
        """The files of `state` that `frozen` names."""
        folded = [pattern.casefold() for pattern in self.frozen]
        return {path: text for path, text in state.items() if match_any(path.casefold(), folded)}

    def proposal_instructions(self, state: State, /) -> str:
        """The form of a proposal, its limits, and which files there are to edit."""
        files = [path for path in sorted(state) if self.writable(path)]
        planned = [path for path in self.planned_paths if path not in state]
        others = [path for path in sorted(state) if path not in files]
        lines = [
            "The artifact is a directory of files. " + EDIT_PROTOCOL,
            "Prefer the smallest change that helps in general.",
            f"At most {self.max_files_per_diff} file(s), of {self.max_file_bytes} bytes at most.",
            _listing("Files you may edit", files),
            _listing("Files that are still to be written", planned),
            f"You may edit and create what matches: {', '.join(self.editable)}.",
            _listing("Files you must not touch", others),
            f"Never touch what matches: {', '.join(self.frozen)}." if self.frozen else "",
        ]
        return "\n".join(filter(None, lines))

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str, /
    ) -> Diff | Dropped | None:
        """Edit the files that `proposal` names; what is dropped of it, and why, is in `notes`."""
        change = self.read(state, proposal)
        dropped = _shortened([*change.refused, *change.problems])
        if not change.ops and change.refused:
            return Dropped(ProposalOutcome.CONSTRAINT, "; ".join(dropped))
        if not change.ops:
            reason = "; ".join(dropped)
            return Dropped(ProposalOutcome.UNPARSABLE, reason) if reason else None
        if len(change.ops) > self.max_files_per_diff:
            reason = (
                f"it changes {len(change.ops)} files, and max_files_per_diff="
                f"{self.max_files_per_diff}"
            )
            return Dropped(ProposalOutcome.CONSTRAINT, reason)
        made = diff_of(change.ops, "+".join(sorted(change.ops)), author, base_version, target)
        return Diff(made.diff_id, target, made.ops, author=author, notes=tuple(dropped))

    def read(self, state: State, proposal: str) -> TreeChange:
        """What `proposal` would make of `state`; every edit counts alone, in its order."""
        said = parse_edits(proposal)
        pending = _Pending(self, state)
        for edit in said.edits:
            pending.take(edit)
        return TreeChange(
            pending.ops(), tuple(pending.refused), (*said.problems, *pending.problems)
        )

    def violation(self, before: State, after: State, /) -> str | None:
        """Why the files cannot be `after`, which several proposals may make together."""
        if len(after) > max(self.max_files, len(before)):
            return f"{len(after)} files are more than max_files={self.max_files}"
        total, was = (sum(map(_size, map(str, files.values()))) for files in (after, before))
        if total > max(self.max_total_bytes, was):
            return f"{total} bytes are more than max_total_bytes={self.max_total_bytes}"
        places = Places(before.keys() & after.keys())
        for path in sorted(after.keys() - before.keys()):
            if other := places.collision(path):
                return f"{path!r} cannot lie beside {other!r} on every file system"
            places.add(path)
        return None

    def merge_values(self, key: str, base: str | None, /, *values: str) -> str | None:
        """The file with all changes: of other lines, or of other sections; None if two overlap.

        None as well if several created it, or if together they are too large.
        """
        if base is None:
            return None
        merged = merge_lines(base, *values)
        if merged is None and key.lower().endswith(MARKDOWN):
            merged = merge_sections(base, *values)
        return merged if merged is not None and _size(merged) <= self.max_file_bytes else None

    def rebase_value(self, key: str, base: str, head: str, value: str, /) -> str | None:  # noqa: ARG002 - a strategy's face
        """`value`, made of `base`, with what `head` has changed in other lines; None if too large.

        For the edits that `merge_values` cannot join with the newest file.
        """
        rebased = lay_over(base, head, value)
        return rebased if _size(rebased) <= self.max_file_bytes else None


class _Pending:
    """A state with the edits of a proposal, one after another."""

    def __init__(self, tree: FileTree, state: State) -> None:
        self._tree = tree
        self._state = state
        self._files: dict[str, str] = {path: str(text) for path, text in state.items()}
        self._places = Places(state)
        self._total = sum(map(_size, self._files.values()))
        self.refused: list[str] = []
        self.problems: list[str] = []

    def ops(self) -> dict[str, str | None]:
        """What is different now."""
        files, state = self._files, self._state
        gone = dict.fromkeys(sorted(state.keys() - files.keys()))
        return {path: text for path, text in files.items() if state.get(path) != text} | gone

    def take(self, edit: Edit) -> None:
        """Apply `edit`, or note why not."""
        try:
            path, heading = self._located(edit.path)
            reason = self._forbidden(path)
            text = None if reason else self._edited(edit, path, heading)
            reason = reason or self._too_much(path, text)
        except TreeError as error:
            self.refused.append(str(error))
        except LookupError as error:
            self.problems.append(f"{edit.path!r:.200}: {error.args[0]}")
        else:
            if reason:
                self.refused.append(f"{path!r}: {reason}")
            else:
                self._put(path, text)

    def _located(self, address: str) -> tuple[str, str]:
        """The file, and the heading of the section in it, or ""."""
        path, mark, heading = address.partition("#")
        if not mark or not path.strip().lower().endswith(MARKDOWN):
            return safe_relpath(address), ""
        whole = address.strip()
        if whole in self._files:
            return whole, ""
        if not heading.strip("# "):
            raise LookupError("no heading follows the '#'")
        return safe_relpath(path), heading.strip()

    def _forbidden(self, path: str) -> str:
        if not self._tree.writable(path):
            return "it may not be edited"
        if path not in self._files and (other := self._places.collision(path)):
            return f"it cannot lie beside {other!r} on every file system"
        return ""

    def _edited(self, edit: Edit, path: str, heading: str) -> str | None:
        """The new text of the file; None if it is deleted.

        Raises:
            LookupError: If what the edit is about is not there, or not only once.
        """
        old = self._files.get(path)
        if edit.search is not None:
            content = _replaced(old, heading, edit.search, edit.replace)
        else:
            content = edit.content
        if old is None and (content is None or heading):
            raise LookupError("there is no such file")
        return with_section(old or "", heading, content) if heading else content

    def _too_much(self, path: str, text: str | None) -> str:
        tree = self._tree
        if text is None:
            return ""
        size = _size(text)
        if size > tree.max_file_bytes:
            return f"{size} bytes are more than max_file_bytes={tree.max_file_bytes}"
        if "\0" in text or not _is_utf8(text):
            return "it is binary, or no text that UTF-8 can carry"
        if path not in self._files and len(self._files) >= tree.max_files:
            return f"there are {len(self._files)} files, and max_files={tree.max_files}"
        grown = size - _size(self._files.get(path, ""))
        if grown > 0 and self._total + grown > tree.max_total_bytes:
            return f"the tree would have more than max_total_bytes={tree.max_total_bytes}"
        return ""

    def _put(self, path: str, text: str | None) -> None:
        self._total += _size(text or "") - _size(self._files.get(path, ""))
        if text is None:
            del self._files[path]
            self._places = Places(self._files)
        else:
            self._files[path] = text
            self._places.add(path)


def _replaced(old: str | None, heading: str, search: str, replace: str) -> str:
    text = section_text(old, heading) if old is not None and heading else old
    if text is None:
        raise LookupError("there is nothing to search in")
    if "\r\n" in text and "\r" not in search:
        search, replace = search.replace("\n", "\r\n"), replace.replace("\n", "\r\n")
    at = text.find(search) if search else -1
    if at < 0 or text.find(search, at + 1) >= 0:
        problem = "does not occur" if at < 0 else "occurs more than once"
        raise LookupError(f"the text {search!r:.80} {problem}")
    return text[:at] + replace + text[at + len(search) :]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listing(title: str, paths: Sequence[str]) -> str:
    more = [f"and {len(paths) - _LISTED_FILES} more"] if len(paths) > _LISTED_FILES else []
    return f"{title}: {', '.join([*paths[:_LISTED_FILES], *more])}." if paths else ""


def _shortened(reasons: Iterable[str]) -> list[str]:
    listed = list(reasons)
    more = [f"and {len(listed) - NAMED} more"] if len(listed) > NAMED else []
    return [*listed[:NAMED], *more]
