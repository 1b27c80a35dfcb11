"""Several awaits at once."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from agentdescent.errors import ungrouped

S = TypeVar("S")
T = TypeVar("T")


async def together(function: Callable[[S], Awaitable[T]], items: Iterable[S]) -> list[T]:
    """Await `function` of every item at once; the results in the items' order.

    The first error cancels the others and is raised as it is, not in a group.
    """
    listed = list(items)
    if len(listed) < 2:
        return [await function(item) for item in listed]
    results: dict[int, T] = {}

    async def one(index: int, item: S) -> None:
        results[index] = await function(item)

    with ungrouped():
        async with anyio.create_task_group() as group:
            for index, item in enumerate(listed[1:], 1):
                group.start_soon(one, index, item)
            await one(0, listed[0])  # begins before them, in this task
    return [results[index] for index in range(len(listed))]
