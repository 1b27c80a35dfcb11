"""The protocol in which models propose edits to a tree of files, read tolerantly."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentdescent.policy.filetree_json import NotJsonText, read_value

MAX_PROPOSAL_CHARS = 4_000_000
"""Longer proposals are not read."""

MAX_PROBLEMS = 50
"""After so many broken blocks no further one is looked for."""

MAX_PASSES = 4
"""No part of a proposal without blocks, or of a broken block, is read more often than that."""

EDIT_PROTOCOL = """\
Reply with one block of this form, and nothing else:

<EDITS>
{"rationale": "why this helps in general",
 "edits": [
  {"path": "SKILL.md", "content": "the complete new text of the file"},
  {"path": "SKILL.md#Heading", "content": "the new text of that one section"},
  {"path": "rules.md", "search": "text that occurs exactly once", "replace": "new text"},
  {"path": "old.md", "delete": true}]}
</EDITS>

It is JSON: in strings write a line break as \\n, a quote as \\" and a backslash as \\\\. To \
change a file, prefer a search and replacement, or a section (a Markdown heading with the text up \
to the next heading): they leave the rest alone. `content` with a plain path replaces or creates \
the whole file."""
"""What a reflector is told about the form of a proposal."""

_MARK = re.compile(
    r"(?P<edits><\s*edits\s*>)|^[ \t]*(?P<thought><think(?:ing)?>)|</think(?:ing)?>[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BLOCK = re.compile(r"<\s*edits\s*>", re.IGNORECASE)
_CLOSED = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_OPENING = re.compile(r"\{|\[\s*\{")
_BRACE = re.compile(r"\{")
_ITEM = re.compile(r"(?<=[\[,}])\s*\{")
_PATH = ("path", "file", "filename", "file_path")
_LISTED = ("edits", "replacements")
_SEARCH = ("search", "old_string", "old")
_REPLACE = ("replace", "new_string", "new")


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit, as it was proposed.

    Attributes:
        path: What it is about: a path, or a path, `#` and a heading; not checked yet.
        content: The new text of all of it; None for a deletion, or if `search` is given.
        search: Text that must occur there exactly once ...
        replace: ... and what takes its place.
    """

    path: str
    content: str | None = None
    search: str | None = None
    replace: str = ""


@dataclass(frozen=True, slots=True)
class Edits:
    """What a proposal says.

    Attributes:
        edits: The edits, in order.
        rationale: Why, in the model's words.
        problems: What could not be read, one line each.
    """

    edits: tuple[Edit, ...] = ()
    rationale: str = ""
    problems: tuple[str, ...] = ()


def parse_edits(proposal: str) -> Edits:
    """Read a proposal; never raises.

    Every ``<EDITS>`` block is read, else every JSON object that has edits in it, in a fence or
    not. Thinking is skipped. The end of a block is where its JSON ends, whatever that holds.
    """
    if len(proposal) > MAX_PROPOSAL_CHARS:
        reason = f"{len(proposal)} characters are more than {MAX_PROPOSAL_CHARS}"
        return Edits(problems=(reason,))
    values, problems, spoken = _blocks(proposal)
    if not values and not problems:
        values = list(_loose(spoken, _BRACE, 0, len(spoken)))
    edits: list[Edit] = []
    rationales: list[str] = []
    for value in values:
        rationales += _rationale(value)
        found = [one for item in _listed(value) for one in _read(item)]
        edits += [one for one in found if isinstance(one, Edit)]
        problems += [one for one in found if isinstance(one, str)]
    if not edits and not problems:
        problems = ["it has no EDITS block and no JSON object with edits"]
    return Edits(tuple(edits), " ".join(rationales), tuple(problems))


def render_edits(edits: Sequence[Edit], rationale: str = "") -> str:
    """The proposal that `parse_edits` reads as `edits`."""
    record = {"rationale": rationale, "edits": [_record(edit) for edit in edits]}
    return f"<EDITS>\n{json.dumps(record, indent=1)}\n</EDITS>"


def _blocks(text: str) -> tuple[list[Any], list[str], str]:
    """The JSON of all blocks, what was wrong with others, and the text outside of thoughts."""
    values: list[Any] = []
    problems: list[str] = []
    spoken: list[str] = []
    at = 0
    while mark := _MARK.search(text, at):
        spoken.append(text[at : mark.start()])
        at = mark.end()
        if mark["edits"]:
            at = _block(text, at, values, problems)
        elif mark["thought"]:
            end = _CLOSED.search(text, at)
            at = end.end() if end else len(text)
        else:  # the end of a thought whose beginning is not there
            values, problems, spoken = [], [], []
    return values, problems, "".join([*spoken, text[at:]])


def _block(text: str, at: int, values: list[Any], problems: list[str]) -> int:
    """Read the JSON of the block that begins at `at`; where to go on.

    Of broken JSON the edits are kept that are whole.
    """
    following = _BLOCK.search(text, at)
    limit = following.start() if following else len(text)
    opening = _OPENING.search(text, at, limit)
    if opening is None:
        problems += [] if following else ["the EDITS block has no JSON in it"]
        return at
    try:
        value, end = read_value(text, opening.start())
    except NotJsonText as error:
        line = text.count("\n", 0, error.at) + 1
        problems.append(f"the EDITS block is no JSON: {error}, in line {line} of the reply")
        values += _loose(text, _ITEM, opening.start(), limit)
        return at if len(problems) < MAX_PROBLEMS else len(text)
    values.append(value)
    return end


def _loose(text: str, opening: re.Pattern[str], at: int, limit: int) -> Iterator[Any]:
    """Objects with edits, wherever `opening` is found between `at` and `limit`."""
    left = MAX_PASSES * (limit - at)
    while left >= 0 and (brace := opening.search(text, at, limit)):
        start = brace.end() - 1
        try:
            value, at = read_value(text, start)
        except NotJsonText as error:
            left -= error.read_to - start
            at = brace.end()
            continue
        if _has_edits(value):
            yield value


def _has_edits(value: Any) -> bool:
    return isinstance(value, dict) and not {"edits", *_PATH}.isdisjoint(
        cast("dict[str, Any]", value)
    )


def _rationale(value: Any) -> list[str]:
    why: object = cast("dict[str, Any]", value).get("rationale") if isinstance(value, dict) else ""
    return [why] if isinstance(why, str) and why else []


def _read(item: Any, path: str = "") -> Iterator[Edit | str]:
    """The edits that `item` is, several if it lists several; text says what is wrong with one."""
    if not isinstance(item, dict):
        yield f"an edit must be an object, not {item!r:.60}"
        return
    record = cast("dict[str, Any]", item)
    name = _first(record, _PATH) or path
    inner = _first(record, _LISTED)
    if not isinstance(name, str):
        yield f"the path of an edit must be text, not {name!r:.60}"
    elif isinstance(inner, list | dict):
        for one in _listed(inner):
            yield from _read(one, name)
    elif not name:
        yield f"an edit names no path: {record!r:.60}"
    else:
        yield _one(record, name)


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _one(record: dict[str, Any], path: str) -> Edit | str:
    search, replace = _first(record, _SEARCH), _first(record, _REPLACE)
    content = _content(record)
    if record.get("delete") in (True, "true", "True"):
        return Edit(path)
    if isinstance(search, str) and isinstance(replace, str):
        return Edit(path, search=search, replace=replace)
    if content is not None:
        return Edit(path, content)
    return f"{path!r:.200}: it has neither content, nor a search and replacement, nor a deletion"


def _first(record: dict[str, Any], names: Sequence[str]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _content(record: dict[str, Any]) -> str | None:
    content = record.get("content")
    if isinstance(content, list):
        lines = cast("list[Any]", content)
        return "\n".join(lines) if all(isinstance(line, str) for line in lines) else None
    return content if isinstance(content, str) else None


def _record(edit: Edit) -> dict[str, Any]:
    if edit.search is not None:
        return {"path": edit.path, "search": edit.search, "replace": edit.replace}
    if edit.content is None:
        return {"path": edit.path, "delete": True}
    return {"path": edit.path, "content": edit.content}
