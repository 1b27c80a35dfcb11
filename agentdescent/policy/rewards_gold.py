"""Where the expected answer of a task stands, or a field of a structured output."""

from collections.abc import Mapping, Sequence
from typing import Any, cast


def gold_at(meta: Mapping[str, Any], key: str) -> Any:
    """What stands at `key`, or None: a key of `meta`, else a path such as "answer.text" into it."""
    return meta[key] if key in meta else at_path(meta, key)


def at_path(value: Any, path: str) -> Any:
    """What stands at "a.b.0" in nested mappings and lists, or None."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(name)
        elif isinstance(value, list | tuple) and name.isdecimal():
            items = cast("Sequence[Any]", value)
            value = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return value


def keys_of(meta: Mapping[str, Any]) -> str:
    """The keys there are, to be shown to who has named another one."""
    return f"meta has {sorted(map(str, meta))}"
