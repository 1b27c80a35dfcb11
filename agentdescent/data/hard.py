"""Which items are worth working on: those that are not solved yet."""

import math
import warnings
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import TypeVar

import anyio

from agentdescent.core.contracts import SOLVED
from agentdescent.errors import ungrouped
from agentdescent.threads import in_thread, is_async

T = TypeVar("T")


async def aselect_hard(
    items: Iterable[T],
    score: Callable[[T], float | Awaitable[float]],
    *,
    keep: int | None = None,
    threshold: float = SOLVED,
    samples: int = 2,
    min_items: int = 12,
    concurrency: int = 8,
) -> list[T]:
    """The items that `score` fails on each time it is asked, in their order.

    An item that fails is scored again, up to `samples` times in all: of those that failed once,
    some had bad luck, and a start measured on these would improve without any learning. For the
    same reason, measure the start of a run afresh instead of reusing these scores.

    Where fewer than `min_items` are hard it warns (RuntimeWarning) and adds the other items, those
    with the least mean score first; when none is hard, all items are returned, in their order.

    Args:
        items: What to choose from.
        score: The reward of an item, plain or `async`; a plain one runs in threads.
        keep: The most items to return; None for no limit.
        threshold: A score from here on is a success.
        samples: How often an item must fail to be hard.
        min_items: The fewest items to return, as far as there are so many and `keep` allows.
        concurrency: How many are scored at a time.

    Raises:
        ValueError: If a count is not positive, or a score is no finite number.
        Exception: What `score` raises. The other calls are cancelled, or abandoned in threads.
    """
    for name, count in (("samples", samples), ("concurrency", concurrency), ("keep", keep)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count!r}")
    everything = list(items)
    scores = await _scores(everything, score, threshold, samples, concurrency)
    is_hard = [max(drawn) < threshold for drawn in scores]
    hard = [item for item, failed in zip(everything, is_hard, strict=True) if failed]
    if not hard:
        return everything[:keep]
    missing = min(min_items, len(everything), keep or min_items) - len(hard)
    if missing > 0:
        warnings.warn(
            f"only {len(hard)} of {len(everything)} items are hard; {missing} others were added to "
            "have min_items; give more items, or a lower min_items",
            RuntimeWarning,
            stacklevel=2,
        )
        others = [place for place, failed in enumerate(is_hard) if not failed]
        others.sort(key=lambda place: math.fsum(scores[place]) / len(scores[place]))
        hard += [everything[place] for place in others[:missing]]
    return hard[:keep]


async def _scores(
    items: list[T],
    score: Callable[[T], float | Awaitable[float]],
    threshold: float,
    samples: int,
    concurrency: int,
) -> list[list[float]]:
    """Per item its scores, up to the first that is a success."""
    scores: list[list[float]] = [[] for _ in items]
    turn = anyio.CapacityLimiter(concurrency)
    on_the_loop = is_async(score)

    async def draw(place: int) -> None:
        async with turn:
            drawn = scores[place]
            while len(drawn) < samples and (not drawn or drawn[-1] < threshold):
                value = score(items[place]) if on_the_loop else await in_thread(score, items[place])
                drawn.append(_finite(await value if isawaitable(value) else value, items[place]))

    with ungrouped():
        async with anyio.create_task_group() as group:
            for place in range(len(items)):
                group.start_soon(draw, place)
    return scores


def _finite(value: float, item: object) -> float:
    if not math.isfinite(value):
        raise ValueError(f"score returned {value!r} for {item!r:.80}; return a finite number")
    return float(value)
