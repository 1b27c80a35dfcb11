"""Another try for completions that have none of their own."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from agentdescent.agents.completion import Completion, asking
from agentdescent.retry import Backoff, retrying

_BUGS = (TypeError, AttributeError, NameError, AssertionError, NotImplementedError)


def with_retries(
    completion: Completion, attempts: int = 3, backoff: float = 0.5
) -> Callable[[str], Awaitable[str]]:
    """`completion`, asked again when it fails; the result is a coroutine function.

    What is no matter of luck is raised at once: bugs such as a TypeError, contract errors, and
    errors that have been retried below, as those of `claude` and `openai_compatible` have been. The
    last failure is raised as it is, and nobody above tries again.

    Cancelling it ends the waits as well; the thread of a synchronous completion is abandoned.

    Args:
        completion: Any completion; a synchronous one is called in a daemon thread.
        attempts: All of them, the first included.
        backoff: Seconds before the second attempt, give or take a tenth; each further wait is twice
            as long.

    Raises:
        ValueError: If `attempts` is less than 1, or `backoff` negative.
        TypeError: If `completion` cannot be called with one prompt.
    """
    ask = asking(completion)
    patience = Backoff(attempts, backoff)
    jitter = Random()  # noqa: S311 - spreads waits

    async def complete(prompt: str) -> str:
        made = 0

        async def attempt() -> str:
            nonlocal made
            made += 1
            try:
                return await ask(prompt)
            except _BUGS as error:
                _settle(error, made)
                raise

        try:
            return await retrying(attempt, jitter, patience)
        except Exception as error:
            _settle(error, made)
            raise

    return complete


def _settle(error: Exception, attempts: int) -> None:
    """Let nobody above try again."""
    if getattr(error, "attempts_made", None) is None:
        with suppress(AttributeError):
            error.attempts_made = attempts  # pyright: ignore[reportAttributeAccessIssue]
