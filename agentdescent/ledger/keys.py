"""State keys as git paths: safe everywhere, reversible, and tame keys keep their own name.

`%XX` is one escaped byte, a component `%` is the empty one, a trailing bare `%` marks a key that is
also a directory of another key, and `%~<sha256>` is a directory that stands for a long key: its
file `value` is the value and its file `key` the key.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

LONG = "%~"
VALUE, KEY = "/value", "/key"

_UNSAFE = re.compile(
    r"""
    [\x00-\x1f\x7f-\x9f%~\\:*?"<>|\ud800-\udfff]        # controls, specials, lone surrogates
    | [\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e]    # invisible, or they turn the text round
    | [\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]
    | \A(?=[-\ ]|\.git                                  # options, git's own names and devices
        |(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)).
    | [.\ ]\Z
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_MAX_NAME, _MAX_PATH, _MAX_DEPTH = 200, 1000, 16


def directory(name: str) -> str:
    """One path component for any `name`, a slash in it included; not reversible."""
    component = _component(name).replace("/", "%2F")
    return component if len(component.encode()) <= _MAX_NAME else _long(name)


def place(artifact_id: str) -> str:
    """The directory of an artifact in the tree of a commit."""
    return f"artifacts/{directory(artifact_id)}"


def paths(keys: Iterable[str]) -> dict[str, str]:
    """The path of each key: a function of the set of keys, so that equal sets lie alike.

    A path that begins with `LONG` ends in `VALUE`; its sibling `KEY` has to hold the key.
    """
    found = {key: _path(key) for key in keys}
    folders = {folder for path in found.values() if "/" in path for folder in _folders(path)}
    if folders:
        return {key: f"{path}%" if path in folders else path for key, path in found.items()}
    return found


@lru_cache(maxsize=16_384)
def key_of(path: str) -> str:
    """The key of a path that does not begin with `LONG`.

    Raises:
        ValueError: If no key has this path.
    """
    *above, name = path.split("/")
    if name.endswith("%") and name != "%":
        name = name[:-1]
    key = "/".join(map(_name, [*above, name]))
    if _path(key) != "/".join([*above, name]):
        raise ValueError(f"no key is stored at {path!r}")
    return key


def key_of_long(path: str, key: str) -> str:
    """`key`, once it is certain that `path` is that of this long key.

    Raises:
        ValueError: If it is not.
    """
    if path != _path(key):
        raise ValueError(f"the long key beside {path!r} is not the one of its hash")
    return key


@lru_cache(maxsize=16_384)
def _path(key: str) -> str:
    names = [_component(part) for part in key.split("/")]
    path = "/".join(names)
    fits = len(names) <= _MAX_DEPTH and len(path.encode()) <= _MAX_PATH
    if fits and all(len(name.encode()) <= _MAX_NAME for name in names):
        return path
    return _long(key) + VALUE


def _long(key: str) -> str:
    return LONG + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _folders(path: str) -> Iterable[str]:
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


def _component(text: str) -> str:
    return _UNSAFE.sub(_escape, text) if text else "%"


def _escape(unsafe: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in unsafe.group().encode("utf-8", "surrogatepass"))


def _name(component: str) -> str:
    if component == "%":
        return ""
    raw = _ESCAPED.sub(lambda escaped: bytes.fromhex(escaped.group(1).decode()), component.encode())
    return raw.decode("utf-8", "surrogatepass")
