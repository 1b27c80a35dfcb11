"""The one retry policy: three attempts at what nobody below has tried again already."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TypeVar

import anyio

from agentdescent.errors import ContractError

T = TypeVar("T")

ATTEMPTS = 3

FIRST_WAIT = 0.2
"""Seconds before the second attempt, up to the jitter; each further wait is twice as long."""

LONGEST_WAIT = 60.0
"""Seconds that a service may ask us to wait; when it asks for more, we give up at once."""

JITTER = 0.1
"""A wait is longer or shorter by at most this share."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often something is tried, and how long the waits in between are.

    Attributes:
        attempts: All of them, the first included; 1 means never again.
        first_wait_s: Seconds before the second attempt; each further wait is twice as long. An
            error's `retry_after_s` makes a wait longer, never shorter.
        longest_wait_s: No wait is longer; an error that asks for more is raised at once.

    Raises:
        ValueError: If there is no attempt, or a wait is negative.
    """

    attempts: int = ATTEMPTS
    first_wait_s: float = FIRST_WAIT
    longest_wait_s: float = LONGEST_WAIT

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {self.attempts!r}")
        if min(self.first_wait_s, self.longest_wait_s) < 0:
            raise ValueError(f"waits must not be negative, got {self}")


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    rng: Random,
    backoff: Backoff = Backoff(),
) -> T:
    """Await `attempt()`, up to twice more if it fails.

    The last failure is raised as it is. What is no matter of luck is raised at once: contract
    errors, errors whose `attempts_made` says that they have been retried, and whatever is no
    Exception. Cancellation ends it, also between attempts.

    Args:
        attempt: What to do; each call is one attempt.
        rng: Draws the jitter of the waits.
        backoff: Other numbers of attempts and waits.
    """
    try:
        return await attempt()
    except Exception as error:
        if backoff.attempts == 1 or not _may_pass(error, backoff):
            raise
        first = error
    return await _again(attempt, first, rng, backoff)


def is_worth_another_try(error: BaseException) -> bool:
    """True of a failure that may have been bad luck and that no lower layer has retried."""
    return (
        isinstance(error, Exception)
        and not isinstance(error, ContractError)
        and getattr(error, "attempts_made", None) is None
    )


def retry_after_s(header: str, now: datetime | None = None) -> float | None:
    """The seconds that a `Retry-After` header asks for: a number, or a date from `now` on.

    None if it says neither.
    """
    try:
        is_number = header.strip().replace(".", "", 1).isdecimal()
        return float(header) if is_number else _until(header, now)
    except (ValueError, OverflowError):
        return None


def _until(date: str, now: datetime | None) -> float:
    when = parsedate_to_datetime(date)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def _asked_wait(error: BaseException | None) -> float:
    return getattr(error, "retry_after_s", None) or 0.0


def _may_pass(error: BaseException, backoff: Backoff) -> bool:
    return is_worth_another_try(error) and _asked_wait(error) <= backoff.longest_wait_s


async def _again(
    attempt: Callable[[], Awaitable[T]], first: Exception, rng: Random, backoff: Backoff
) -> T:
    import tenacity  # noqa: PLC0415 - loaded on the first failure

    def wait(state: tenacity.RetryCallState) -> float:
        own = backoff.first_wait_s * 2 ** (state.attempt_number - 1)
        jitter = rng.uniform(1 - JITTER, 1 + JITTER)
        error = state.outcome.exception() if state.outcome is not None else None
        return min(backoff.longest_wait_s, max(own * jitter, _asked_wait(error)))

    attempts = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(backoff.attempts),
        wait=wait,
        retry=tenacity.retry_if_exception(lambda error: _may_pass(error, backoff)),
        sleep=anyio.sleep,
        reraise=True,
    )
    failures = iter((first,))

    async def replayed() -> T:
        for failure in failures:
            raise failure
        return await attempt()

    return await attempts(replayed)
