"""Sections of a Markdown text: addressed by their heading, and merged one by one.

A section is a heading with what follows it up to the next heading of any level. What comes before
the first heading is the first section; its heading is "".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentdescent.policy.line_merge import lines_of, merge_lines

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_APART = "\n\n"


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        heading: What its heading says.
        text: All of it, heading included, without the line ends at its end.
        ends: Those line ends.
    """

    heading: str
    text: str
    ends: str


_BY_HEADING = Mapping[str, Section]


def sections(text: str) -> list[Section]:
    """The sections of `text`, in order; there is at least the one before the first heading."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    in_matter = text.startswith("---\n")
    for number, line in enumerate(lines_of(text)):
        heading = None
        mark = _FENCE.match(line)
        if in_matter:
            in_matter = number == 0 or line.rstrip() != "---"
        elif fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            heading = _heading(line)
        if heading is not None:
            blocks.append((heading, []))
        blocks[-1][1].append(line)
    return [_section(heading, "".join(lines)) for heading, lines in blocks]


def joined(parts: Sequence[Section]) -> str:
    """The text that `parts` are the sections of."""
    return "".join(part.text + part.ends for part in parts)


def section_text(text: str, heading: str) -> str | None:
    """The section under `heading`, or None.

    Raises:
        LookupError: If there are several.
    """
    parts = sections(text)
    at = _find(parts, heading)
    return None if at is None else parts[at].text


def with_section(text: str, heading: str, content: str | None) -> str:
    """`text` with the section under `heading` replaced by `content`; without it if that is None.

    Content that does not begin with the heading is what stands below it. A section that is not
    there yet is added at the end.

    Raises:
        LookupError: If several sections have this heading, or there is none to delete.
    """
    parts = sections(text)
    at = _find(parts, heading)
    if content is None and at is None:
        raise LookupError(f"there is no section {heading!r}")
    ends = parts[-1].ends
    if at is None:
        ends = "\n"
        parts = [*(part for part in parts if part.text), Section(heading, f"## {heading}", "\n")]
        parts = _apart(parts, len(parts) - 2)
        at = len(parts) - 1
    new = [] if content is None else [replace(parts[at], text=_titled(parts[at].text, content))]
    return joined(_ending([*parts[:at], *new, *parts[at + 1 :]], ends))


def merge_sections(base: str, *sides: str) -> str | None:
    """The text with the changes that each of `sides` makes to `base`; None if two overlap.

    Changes of different sections do not overlap, nor do new sections under different headings; the
    changes of one section are merged line by line. None also if a heading occurs twice, or if
    sections have changed places. The order of `sides` does not matter.
    """
    old = _by_heading(base)
    new = [found for side in sides if (found := _by_heading(side)) is not None]
    if old is None or len(new) < len(sides) or not all(_in_order(old, side) for side in new):
        return None
    merged: list[Section] = []
    for heading, section in old.items():
        kept = _kept(section, [side.get(heading) for side in new])
        fresh = _inserted([_fresh(old, heading, side) for side in new])
        if kept is None or fresh is None:
            return None
        merged += kept
        merged = _apart([*merged, *fresh], len(merged) - 1) if fresh else merged
    if len({folded(part.heading) for part in merged}) < len(merged):
        return None
    return joined(_ending(merged, max((sections(side)[-1].ends for side in sides), key=len)))


def folded(heading: str) -> str:
    """The form in which headings are compared."""
    return " ".join(heading.casefold().split())


def _heading(line: str) -> str | None:
    """What `line` says if it is a heading."""
    bare = line.strip()
    title = bare.lstrip("#")
    level = len(bare) - len(title)
    indent = len(line) - len(line.lstrip(" "))
    if not 1 <= level <= 6 or indent > 3 or title[:1].strip():
        return None
    title = title.strip()
    without = title.rstrip("#")
    return without.rstrip() if not without or without[-1].isspace() else title


def _section(heading: str, text: str) -> Section:
    bare = text.rstrip("\n")
    return Section(heading, bare, text[len(bare) :])


def _find(parts: Sequence[Section], heading: str) -> int | None:
    """Where the section under `heading` is; the one before all headings cannot be addressed."""
    name = folded(heading.lstrip("# "))
    found = [at for at, part in enumerate(parts) if at and folded(part.heading) == name]
    if len(found) > 1:
        raise LookupError(f"{len(found)} sections have the heading {heading!r}")
    return found[0] if found else None


def _titled(old: str, content: str) -> str:
    """`content` as a section that takes the place of `old`."""
    body = content.strip("\r\n")
    title, _, _ = old.partition("\n")
    first, _, _ = body.partition("\n")
    opens = _heading(first)
    if opens is not None and folded(opens) == folded(_heading(title) or ""):
        return body
    return f"{title}{_APART}{body}" if body else title


def _apart(parts: Sequence[Section], start: int) -> list[Section]:
    """`parts` with an empty line after each from `start` on."""
    return [
        replace(part, ends=max(part.ends, _APART, key=len)) if at >= start and part.text else part
        for at, part in enumerate(parts)
    ]


def _ending(parts: Sequence[Section], ends: str) -> list[Section]:
    return [*parts[:-1], *(replace(part, ends=ends) for part in parts[-1:])]


def _by_heading(text: str) -> _BY_HEADING | None:
    """The sections by folded heading; None if one occurs twice."""
    parts = sections(text)
    found = {folded(part.heading) if at else "": part for at, part in enumerate(parts)}
    return found if len(found) == len(parts) else None


def _in_order(old: _BY_HEADING, new: _BY_HEADING) -> bool:
    return [name for name in old if name in new] == [name for name in new if name in old]


def _kept(old: Section, new: Sequence[Section | None]) -> list[Section] | None:
    """What is left of a section; None if its changes overlap."""
    there = [section for section in new if section is not None]
    if len(there) < len(new):
        return None if any(section.text != old.text for section in there) else []
    text = merge_lines(old.text, *(section.text for section in there))
    if text is None:
        return None
    return [replace(old, text=text, ends=max((section.ends for section in there), key=len))]


def _inserted(groups: Sequence[Mapping[str, Section]]) -> list[Section] | None:
    """The new sections at one place, of all sides; None if they overlap."""
    merged: dict[str, Section] = {}
    for group in sorted(groups, key=lambda group: [part.text for part in group.values()]):
        if any(merged[name].text != group[name].text for name in merged.keys() & group.keys()):
            return None
        merged = {**merged, **group}
    return list(merged.values())


def _fresh(old: _BY_HEADING, after: str, new: _BY_HEADING) -> dict[str, Section]:
    found: dict[str, Section] = {}
    at = ""
    for name, section in new.items():
        if name in old:
            at = name
        elif at == after:
            found[name] = section
    return found
