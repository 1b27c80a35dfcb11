"""When two items are the same."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from agentdescent.core.task import Task


def content_key(item: object) -> object:
    """Something hashable that is equal for items with equal content.

    A task's content is its prompt and meta, whatever its id. What can neither be hashed nor looked
    into is equal to itself alone.
    """
    match item:
        case Task():
            return (Task, item.prompt, content_key(item.meta))
        case Mapping():
            cells = cast("Mapping[Any, Any]", item).items()
            return (Mapping, frozenset((key, content_key(cell)) for key, cell in cells))
        case list() | tuple():
            return (Iterable, *map(content_key, cast("Iterable[Any]", item)))
        case _:
            return (type(item), item if _is_hashable(item) else id(item))


def _is_hashable(item: object) -> bool:
    try:
        hash(item)
    except TypeError:
        return False
    return True
