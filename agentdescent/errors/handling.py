"""What is to be done about an error, and how it is told."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from agentdescent.errors.caller import AgentDescentError, ContractError
from agentdescent.errors.ledger import LedgerError


class FailureKind(StrEnum):
    """The three homes of a failure."""

    CONTRACT = "contract"
    LEDGER = "ledger"
    BACKEND = "backend"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error together with its home."""

    kind: FailureKind
    error: Exception


def classify(error: Exception) -> Failure:
    """Decide, in the one place that does, what kind of failure `error` is."""
    match error:
        case ContractError():
            return Failure(FailureKind.CONTRACT, error)
        case LedgerError():
            return Failure(FailureKind.LEDGER, error)
        case _:
            return Failure(FailureKind.BACKEND, error)


_BUGS = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    AssertionError,
    NotImplementedError,
    ArithmeticError,
    ValueError,
)


def is_plugin_bug(error: Exception) -> bool:
    """True when an aggregator that raised `error` is broken rather than unlucky.

    An OSError, a timeout, a failed evaluation and any class we do not know are worth another try.
    """
    return isinstance(error, _BUGS) and not isinstance(error, AgentDescentError | OSError)


def unwrap(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error a caller should see of a group: its only one, or the gravest.

    Contract errors come before ledger errors, those before all others.
    """
    leaves = list(_leaves(group))

    def rank(error: BaseException) -> int:
        if not isinstance(error, Exception):
            return 0
        return 1 + list(FailureKind).index(classify(error).kind)

    return min(leaves, key=rank)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _leaves(inner)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield error


@contextmanager
def ungrouped() -> Generator[None]:
    """Raise the one error behind a task group's exception group, so that `except` works."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = unwrap(group)  # pyright: ignore[reportUnknownArgumentType]
        raise error from error.__cause__
