"""The one retry policy: three attempts at what nobody below has tried again already."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import anyio

from agentdescent.errors import ContractError

T = TypeVar("T")

ATTEMPTS = 3

FIRST_WAIT = 0.2
"""Seconds before the second attempt, up to the jitter; each further wait is twice as long."""

JITTER = 0.1
"""A wait is longer or shorter by at most this share."""


async def retrying(attempt: Callable[[], Awaitable[T]], rng: Random) -> T:
    """Await `attempt()`, up to twice more if it fails.

    The last failure is raised as it is. What is no matter of luck is raised at once: contract
    errors, errors whose `attempts_made` says that they have been retried, and whatever is no
    Exception. Cancellation ends it, also between attempts.

    Args:
        attempt: What to do; each call is one attempt.
        rng: Draws the jitter of the waits.
    """
    try:
        return await attempt()
    except Exception as error:
        if not is_worth_another_try(error):
            raise
        first = error
    return await _again(attempt, first, rng)


def is_worth_another_try(error: BaseException) -> bool:
    """True of a failure that may have been bad luck and that no lower layer has retried."""
    return (
        isinstance(error, Exception)
        and not isinstance(error, ContractError)
        and getattr(error, "attempts_made", None) is None
    )


async def _again(attempt: Callable[[], Awaitable[T]], first: Exception, rng: Random) -> T:
    import tenacity  # noqa: PLC0415 - loaded on the first failure

    def wait(state: tenacity.RetryCallState) -> float:
        return FIRST_WAIT * 2 ** (state.attempt_number - 1) * rng.uniform(1 - JITTER, 1 + JITTER)

    attempts = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=wait,
        retry=tenacity.retry_if_exception(is_worth_another_try),
        sleep=anyio.sleep,
        reraise=True,
    )
    failures = iter((first,))

    async def replayed() -> T:
        for failure in failures:
            raise failure
        return await attempt()

    return await attempts(replayed)
