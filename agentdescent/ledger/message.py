"""Commit messages: a history that people read and `git interpret-trailers` parses.

Everything that came from a model or a state key passes `clean`, and the trailers are a block of our
own at the end, so no proposal can forge one.
"""

from collections.abc import Iterable, Mapping

from agentdescent.core.store import CommitNote

TRAILER = "AgentDescent-"
_SHORT, _LONG = 72, 120
_MAX_LINES, _MAX_NAMES = 40, 12


def clean(text: str, limit: int = _SHORT) -> str:
    """One printable line of at most `limit` characters, whatever `text` is."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 8 * limit])
    line = " ".join(printable.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def committed(
    artifact_id: str,
    base: int,
    note: CommitNote,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> str:
    """The message of a commit that takes an artifact from `base` to the next version.

    Args:
        artifact_id: The artifact.
        base: Its version before the commit.
        note: What the merger says of it.
        before: Its state, key to value, at `base`; values are only compared.
        after: Its new state.
    """
    versions = f"(v{base} -> v{base + 1})"
    what = clean(note.subject).lstrip("-# ") or "update"
    subject = f"{what} into {clean(artifact_id)} {versions}"
    trailers = {
        "Artifact": clean(artifact_id),
        "Version": str(base + 1),
        "Base": str(base),
        "Category": clean(note.category),
        "Round": "" if note.round is None else str(note.round),
    }
    if note.reward is not None:
        old, new = note.reward
        subject += f": {old:.3f} -> {new:.3f}"
        trailers["Reward"] = f"{old:g} {new:g}"
    return _message(subject, _body(note.body) + _changes(before, after), trailers)


def registered(artifact_id: str) -> str:
    """The message of the commit that adds an artifact."""
    name = clean(artifact_id)
    return _message(f"register {name}", "", {"Artifact": name, "Version": "1"})


def promoted(artifact_id: str, version: int, dev: str) -> str:
    """The message of the commit that takes an artifact from commit `dev` to stable."""
    name = clean(artifact_id)
    trailers = {"Artifact": name, "Version": str(version), "Dev": dev}
    return _message(f"promote {name} to stable v{version}", "", trailers)


def rolled_back(
    artifact_id: str,
    base: int,
    to: int,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> str:
    """The message of the commit on `base` that gives an artifact the state of version `to`.

    Args:
        artifact_id: The artifact.
        base: Its version before the commit.
        to: The version whose state it gets.
        before: Its state, key to value, at `base`; values are only compared.
        after: Its state at `to`.
    """
    name = clean(artifact_id)
    trailers = {
        "Artifact": name,
        "Version": str(base + 1),
        "Base": str(base),
        "Restores": str(to),
    }
    return _message(f"rollback {name} to v{to}", _changes(before, after), trailers)


def subject_of(message: str) -> str:
    """The first line of a message."""
    return message.partition("\n")[0]


def _message(subject: str, body: str, trailers: Mapping[str, str]) -> str:
    block = "".join(f"{TRAILER}{name}: {value}\n" for name, value in trailers.items() if value)
    return "\n\n".join(part for part in (subject, body.strip("\n"), block) if part)


def _body(text: str) -> str:
    lines = [clean(line, _LONG) for line in text.strip().splitlines()]
    more = [f"... {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else []
    return "".join(f"{_inert(line)}\n" for line in [*lines[:_MAX_LINES], *more])


def _inert(line: str) -> str:
    """Indent what git or a reader could take for a trailer, a divider or a comment."""
    return f"  {line}" if line.lower().startswith((TRAILER.lower(), "---", "#")) else line


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    both = before.keys() & after.keys()
    kinds = {
        "changed": [key for key in both if before[key] != after[key]],
        "added": after.keys() - both,
        "removed": before.keys() - both,
    }
    return "    ".join(f"{kind}  {_listed(names)}" for kind, names in kinds.items() if names)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    shown = [clean(name) for name in ordered[:_MAX_NAMES]]
    more = [f"and {len(ordered) - _MAX_NAMES} more"] if len(ordered) > _MAX_NAMES else []
    return ", ".join([*shown, *more])
