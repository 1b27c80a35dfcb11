"""Ready-made constraints: what an edit must not do, whatever it would be worth.

Each is a function ``(before, after) -> reason or None`` of two states, for ``constraints=[...]``.
Where `keys` is given, it is globs of the keys that are looked at; see `match_any`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agentdescent.core.diff import State
from agentdescent.core.protocols import Constraint
from agentdescent.core.task import Task
from agentdescent.policy.filetree_paths import match_any

EVERY = ("**",)

_WORD = re.compile(r"\w+")


def max_chars(
    each: int | None = None, total: int | None = None, keys: Sequence[str] = EVERY
) -> Constraint:
    """No value grows beyond `each` characters, and all of them together not beyond `total`.

    What is too large already may shrink.
    """

    def check(before: State, after: State) -> str | None:
        old, new = (
            {key: len(str(value)) for key, value in state.items() if _is_seen(key, keys)}
            for state in (before, after)
        )
        for key, size in new.items():
            if each is not None and size > max(each, old.get(key, 0)):
                return f"{key!r} would have {size} characters, and {each} are allowed"
        size = sum(new.values())
        if total is not None and size > max(total, sum(old.values())):
            return f"the values would have {size} characters together, and {total} are allowed"
        return None

    return check


def required(*texts: str, keys: Sequence[str] = EVERY) -> Constraint:
    """Each of `texts`, such as a heading, stays in some value that has it.

    White space does not matter, case does.
    """
    wanted = {text: _flat(text) for text in texts}

    def check(before: State, after: State) -> str | None:
        old, new = ([*map(_flat, _texts(state, keys).values())] for state in (before, after))
        for text, flat in wanted.items():
            if any(flat in value for value in old) and not any(flat in value for value in new):
                return f"{text!r:.80} would be gone, and is required"
        return None

    return check


def protected(*patterns: str, keys: Sequence[str] = EVERY) -> Constraint:
    """Lines that match one of `patterns` stay as they are, in the value that has them.

    Args:
        patterns: Regular expressions to find in a line; default ``DO NOT``, ``NEVER`` and ``MUST
            NOT``, in capitals.
        keys: What to look at.
    """
    marks = [re.compile(pattern) for pattern in patterns or (r"\b(?:DO NOT|NEVER|MUST NOT)\b",)]

    def check(before: State, after: State) -> str | None:
        for key, text in _texts(before, keys).items():
            kept = {_flat(line) for line in str(after.get(key) or "").splitlines()}
            for line in text.splitlines():
                if any(mark.search(line) for mark in marks) and _flat(line) not in kept:
                    return f"the protected line {line.strip()!r:.80} of {key!r} would be gone"
        return None

    return check


def forbidden(*patterns: str, keys: Sequence[str] = EVERY) -> Constraint:
    """No value comes to match one of `patterns`, which are regular expressions, more often."""
    marks = [re.compile(pattern) for pattern in patterns]

    def check(before: State, after: State) -> str | None:
        for key, text in _changed(before, after, keys).items():
            for mark in marks:
                found = mark.findall(text)
                if len(found) > len(mark.findall(str(before.get(key) or ""))):
                    return f"{key!r} would match {mark.pattern!r:.80}, which is forbidden"
        return None

    return check


def structured(kind: Any, keys: Sequence[str] = EVERY) -> Constraint:
    """Values are JSON of the type `kind`: a pydantic model, a dataclass, ``dict[str, int]``, ...

    A value that is text is read as JSON; any other is taken as it is.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def check(before: State, after: State) -> str | None:
        for key, value in _new_values(before, after, keys).items():
            try:
                if isinstance(value, str):
                    adapter.validate_json(value)
                else:
                    adapter.validate_python(value)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                return f"{key!r} is not of the required form: {first['msg']} {where}".rstrip()
        return None

    return check


def parses(keys: Sequence[str] = EVERY) -> Constraint:
    """What can be parsed stays so: ``.py``, ``.json`` and ``.toml``, by the end of the key.

    Nothing is executed.
    """

    def check(before: State, after: State) -> str | None:
        for key, text in _changed(before, after, keys).items():
            parse = _PARSERS.get(key.rpartition(".")[2].lower())
            problem = _problem(parse, text) if parse else ""
            if problem:
                return f"{key!r} cannot be parsed: {problem}"
        return None

    return check


def no_copies(tasks: Iterable[Task], words: int = 20, keys: Sequence[str] = EVERY) -> Constraint:
    """No value takes over so many `words` in a row from the prompt of one of `tasks`.

    Give it all tasks, those held out included. Case and punctuation do not matter; what was there
    before may stay.

    Raises:
        ValueError: If `words` is not positive.
    """
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}; it is the length of a copy")
    runs = {run: task.id for task in tasks for run in _runs(task.prompt, words)}

    def check(before: State, after: State) -> str | None:
        for key, text in _changed(before, after, keys).items():
            old = _runs(str(before.get(key) or ""), words)
            for run in _runs(text, words):
                if run in runs and run not in old:
                    return f"{key!r} would copy {words} words of task {runs[run]!r}: {run:.80}"
        return None

    return check


def _is_seen(key: str, keys: Sequence[str]) -> bool:
    return keys == EVERY or match_any(key, keys)


def _texts(state: State, keys: Sequence[str]) -> dict[str, str]:
    return {key: str(value) for key, value in state.items() if _is_seen(key, keys)}


def _new_values(before: State, after: State, keys: Sequence[str]) -> dict[str, Any]:
    """The values that are new or different."""
    return {
        key: value
        for key, value in after.items()
        if before.get(key) != value and _is_seen(key, keys)
    }


def _changed(before: State, after: State, keys: Sequence[str]) -> dict[str, str]:
    return {key: str(value) for key, value in _new_values(before, after, keys).items()}


def _flat(text: str) -> str:
    return " ".join(text.split())


def _runs(text: str, words: int) -> dict[str, None]:
    """Every run of so many words, in order."""
    found = _WORD.findall(text.casefold())
    starts = range(len(found) - words + 1)
    return dict.fromkeys(" ".join(found[at : at + words]) for at in starts)


def _compiled(text: str) -> object:
    return compile(text, "the new text", "exec", dont_inherit=True)


def _problem(parse: Callable[[str], object], text: str) -> str:
    try:
        parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "py": _compiled,
    "json": json.loads,
    "toml": tomllib.loads,
}
