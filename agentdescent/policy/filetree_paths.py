"""Paths of a tree of files: which are safe, which meet on some file system, which match a glob."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from agentdescent.errors import TreeError

PROTECTED = ("**/.git/**", "**/.claude/settings*")
"""What no proposal may touch; settings only if `editable` names them in full."""

MAX_PATH, MAX_NAME, MAX_DEPTH = 1000, 240, 24

_FORBIDDEN = re.compile(r'[<>:"|?*]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|\Z)")
_SHORT = re.compile(r"(?:git|claude)~[0-9]+")
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_MAGIC = re.compile(r"[*?\[\\]")


def safe_relpath(path: str) -> str:
    """`path` as a key of a tree: relative, POSIX, NFC, without `.` and doubled slashes.

    Raises:
        TreeError: If it could leave the tree, or is not a file name on every file system; it says
            why.
    """
    cleaned = unicodedata.normalize("NFC", path.strip(" \t\r\n")).replace("\\", "/")
    reason = _absolute(cleaned)
    parts = [part for part in cleaned.split("/") if part not in ("", ".")]
    reason = reason or ("" if parts else "it names no file")
    reason = reason or next(chain.from_iterable(map(_wrong, parts)), "") or _too_long(parts)
    if reason:
        raise TreeError(f"the path {path!r:.200} is refused: {reason}")
    return "/".join(parts)


class Places:
    """Paths that lie in one tree, all of them safe.

    Two collide if they, or directories above them, differ in nothing but case, or if one is a
    directory of the other.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._names: dict[str, str] = {}
        self._files: set[str] = set()
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        """Let `path` lie among them."""
        self._files.add(path)
        for above in _prefixes(path):
            self._names.setdefault(fold(above), above)

    def collision(self, path: str) -> str | None:
        """What `path` cannot lie beside on every file system, or None."""
        for above in _prefixes(path):
            there = self._names.get(fold(above))
            if there is not None and (there != above or (above in self._files) != (above == path)):
                return there
        return None


def fold(path: str) -> str:
    """Text that is equal for names that are one name where case does not count."""
    return unicodedata.normalize("NFC", path.casefold())


def match_any(path: str, patterns: Iterable[str], *, hidden: bool = True) -> bool:
    """True if one of `patterns` matches `path`.

    ``*`` and ``?`` stay within a name, ``**`` crosses directories, ``[abc]`` and ``[!abc]`` are one
    character, and a backslash takes the meaning off what follows. A pattern without any of these
    also matches everything below it, as one that ends in a slash does. Case counts.

    Args:
        path: A safe path.
        patterns: Globs.
        hidden: Let wildcards match a dot at the beginning of a name.
    """
    return any(_compiled(pattern, hidden).fullmatch(path) for pattern in patterns)


def is_protected(path: str, editable: Iterable[str]) -> bool:
    """True if no proposal may touch `path`, whatever is editable."""
    folded = fold(path)
    if match_any(folded, PROTECTED[:1]) or folded == ".git" or folded.endswith("/.git"):
        return True
    return match_any(folded, PROTECTED[1:]) and path not in editable


def _prefixes(path: str) -> Iterator[str]:
    """The directories above `path`, and `path`."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)
    yield path


def _absolute(path: str) -> str:
    if path.startswith("/"):
        return "it is absolute; give it relative to the tree"
    if re.match(r"[A-Za-z]:", path):
        return "it begins with a drive letter; give it relative to the tree"
    if path.startswith("~"):
        return "it begins with '~', which shells expand"
    return ""


def _wrong(name: str) -> Iterator[str]:
    """Why no file should have this name."""
    if name == "..":
        yield "'..' leaves the tree"
    if any(unicodedata.category(char) in _INVISIBLE for char in name):
        yield f"{name!r} has control or invisible characters"
    if name.startswith("-"):
        yield f"{name!r} begins with '-' and reads as an option"
    if name[-1] in ". " or name != name.strip():
        yield f"{name!r} begins or ends with a space, or ends with a dot"
    if found := _FORBIDDEN.search(name):
        yield f"{name!r} has the character {found[0]!r}"
    if _DEVICE.match(name.casefold()):
        yield f"{name!r} is a device name"
    if _SHORT.fullmatch(name.casefold()):
        yield f"{name!r} is another name of .git or .claude"


def _too_long(parts: list[str]) -> str:
    if len(parts) > MAX_DEPTH:
        return f"it is more than {MAX_DEPTH} directories deep"
    if any(len(part.encode()) > MAX_NAME for part in parts):
        return f"a name in it has more than {MAX_NAME} bytes"
    if len("/".join(parts).encode()) > MAX_PATH:
        return f"it has more than {MAX_PATH} bytes"
    return ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str, hidden: bool) -> re.Pattern[str]:  # noqa: FBT001 - cached by position
    pattern = unicodedata.normalize("NFC", pattern).removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    below = rf"(?:/{_visible(hidden=hidden)}[^/]+)*" if not _MAGIC.search(pattern) else ""
    names = re.split(r"/+", re.sub(r"\*\*(?:/+\*\*)+", "**", pattern))
    return re.compile("".join(_pieces(names, hidden=hidden)) + below, re.DOTALL)


def _pieces(names: list[str], *, hidden: bool) -> Iterable[str]:
    visible = _visible(hidden=hidden)
    for at, name in enumerate(names):
        last = at == len(names) - 1
        if name == "**":
            yield f"{visible}[^/]+(?:/{visible}[^/]+)*" if last else f"(?:{visible}[^/]+/)*"
        else:
            yield _name(name, visible) + ("" if last else "/")


def _visible(*, hidden: bool) -> str:
    return "" if hidden else r"(?!\.)"


def _name(name: str, visible: str) -> str:
    """The regular expression of one name of a pattern."""
    out = [visible if name[:1] in ("*", "?", "[") else ""]
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        closing = name.find("]", at + 1 + (name[at : at + 1] in ("!", "^"))) if char == "[" else -1
        if char == "*":
            at += len(name[at:]) - len(name[at:].lstrip("*"))
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif closing > 0:
            out.append(_class(name[at:closing]))
            at = closing + 1
        else:
            if char == "\\" and at < len(name):
                char = name[at]
                at += 1
            out.append(re.escape(char))
    return "".join(out)


def _class(body: str) -> str:
    """The regular expression of ``[body]``; a range that is none matches its characters."""
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    pairs = re.findall(r"(.)-(.)|(.)", body, re.DOTALL)
    parts = [
        f"{re.escape(low)}-{re.escape(high)}"
        if low and low <= high
        else re.escape(one or f"{low}-{high}")
        for low, high, one in pairs
    ]
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"
