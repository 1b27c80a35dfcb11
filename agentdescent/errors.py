"""Every error this package raises, and which home each has.

* AgentDescentError
    * ContractError                 the caller's code broke a promise: raised at once
        * RewardContractError       a reward is not a finite number in [0, 1] (also ValueError)
        * ProposalContractError     `propose` returned something else than text or None (TypeError)
        * AggregatorContractError   `step` returned something else than merge reports (TypeError)
        * GovernanceError           a frozen artifact was about to change
        * ContractRejected          an artifact's contract differs from the registered one
        * PluginError               a strategy, sampler, plan or aggregator has a bug
        * UnpricedModelError        there is a budget of dollars, and no price (also ValueError)
    * BackendError                  a model, tool or network failed: retried, absorbed, reported
        * EvaluationFailed          a held-out task could not be scored, original as `__cause__`
        * JudgeError                a model that judges gave no verdict
        * FetchError                a download failed, or the network is off limits
        * AgentError                an agent or another program behind a command line failed
            * CommandNotStarted     there is no such program, or it could not be started
            * CommandTimeout        it ran for too long, and was ended
            * CommandFailed         it ended with another status than 0, or without an answer
        * ProviderError             a model's API failed; says where, how often, what to turn
            * ProviderAuthError     401, 403, or there is no key to send
            * UnknownModel          404
            * BadRequest            400, 422 and other requests that a server does not take
            * ProviderTimeout       no whole reply in time, or 408
            * ProviderUnreachable   refused, reset, no such host, closed without a reply
            * RateLimited           429
            * Overloaded            503, 529
            * ServerError           other 5xx, and the 409 and 425 of a server that is not ready
            * MalformedReply        a reply that is none
                * NotJson           a web page, or another type of content
                * CutReply          a body, its JSON or a stream that ends too early
                * WrongShape        JSON without the fields of a reply
                * Redirected        3xx: the model lives elsewhere
                * EmptyReply        no text, though the model stopped of its own accord
    * LedgerError                   the git store failed: the run ends, the artifact is kept
        * CASConflict               another writer was first; the evidence is filed again
        * LedgerBusy                the lock could not be had in time; worth another try
        * LedgerFull                no space is left
        * LedgerReadOnly            the store cannot be written
        * LedgerPermission          the store belongs to somebody else
        * LedgerDamaged             nothing intact was found
        * LedgerRefused             the path is not a ledger, or a newer one
        * LedgerClosed              used after `close()`
        * NotInLedger               there is no such artifact, version or branch (also KeyError)
        * GitError                  any other failure of git
    * TreeError                     a path, directory or text cannot be a tree (also ValueError)
    * RunningLoopError              `evolve` was called from a running event loop
* EvolutionInterrupted              Ctrl-C in `evolve`; a KeyboardInterrupt with the partial result

`classify` is the only place that decides which home an error has.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class AgentDescentError(Exception):
    """Base of every error this package raises."""


class ContractError(AgentDescentError):
    """The caller broke a contract; the run is meaningless, so it stops."""

    partial_result: Any = None
    """What the run had when it stopped, if anything was committed before; else None."""


class RewardContractError(ContractError, ValueError):
    """A reward is not a finite number in [0, 1]."""


class ProposalContractError(ContractError, TypeError):
    """`propose` returned something that is neither text nor None."""


class AggregatorContractError(ContractError, TypeError):
    """A custom aggregator's `step` returned something else than a list of merge reports."""


class GovernanceError(ContractError):
    """A frozen artifact was named or about to be changed."""


class ContractRejected(ContractError):
    """A commit carries another contract than the one its artifact was registered with."""


class PluginError(ContractError):
    """A strategy, sampler, plan or aggregator raised; the original error is `__cause__`."""


class UnpricedModelError(ContractError, ValueError):
    """A model whose price is not known was to be paid out of a budget of dollars."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"max_cost cannot be kept: the price of model {model!r} is not known; give prices="
            f"{{{model!r}: Price(input=..., output=...)}} in USD per million tokens, 0.0 for a "
            "model of your own, or drop max_cost"
        )
        self.model = model


class BackendError(AgentDescentError, RuntimeError):
    """A model, tool or network failed.

    `attempts_made` is set by a layer that has already retried; nobody retries it again.
    `retry_after_s` is set when the service asks for a wait, in seconds, before the next attempt.
    """

    attempts_made: int | None = None
    retry_after_s: float | None = None


class EvaluationFailed(BackendError):
    """A task could not be scored after its retries; the original error is `__cause__`."""

    def __init__(self, task_id: str, cause: BaseException) -> None:
        super().__init__(f"task {task_id!r} could not be scored: {describe(cause)}")
        self.task_id = task_id
        self.__cause__: BaseException | None = cause


class AgentError(BackendError):
    """An agent, or another program behind a command line, failed."""


class CommandNotStarted(AgentError):
    """A program could not be started; the operating system's reason is `__cause__`."""


class CommandTimeout(AgentError):
    """A program was ended because it ran for too long; `stdout`, `stderr` is what it had said."""

    stdout: str = ""
    stderr: str = ""


class CommandFailed(AgentError):
    """A program ended with another status than 0, or without an answer.

    `returncode` is its status, or minus the number of the signal that ended it.
    """

    returncode: int = 0


class JudgeError(BackendError):
    """A model that judges gave no verdict, also when it was asked again."""


class FetchError(BackendError):
    """A download failed, or the network is off limits and the cache does not have it."""


class ProviderError(BackendError):
    """A request to a model's API failed, after all the attempts that made sense.

    Attributes:
        endpoint: The base URL, without credentials.
        model: As it was asked for.
        status: The HTTP status of the last reply, or None if there was none.
        attempts: Requests that were made; `attempts_made` is the same.
        hint: What to do about it, or "".
    """

    def __init__(
        self,
        problem: str,
        *,
        endpoint: str = "",
        model: str = "",
        status: int | None = None,
        attempts: int = 1,
        hint: str = "",
    ) -> None:
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        whole = f"{model or 'the model'} at {endpoint or 'its endpoint'}: {problem} ({tries})"
        super().__init__(f"{whole}; {hint}" if hint else whole)
        self.endpoint = endpoint
        self.model = model
        self.status = status
        self.attempts = self.attempts_made = attempts
        self.hint = hint


class ProviderAuthError(ProviderError):
    """The API does not take the key, or there is none, and then no request was made."""


class UnknownModel(ProviderError):
    """The API has no such model, or no such path."""


class BadRequest(ProviderError):
    """The API refuses the request as it stands."""


class ProviderTimeout(ProviderError):
    """There was no whole reply within `timeout`, or no turn before the deadline."""


class ProviderUnreachable(ProviderError):
    """The connection could not be made, or broke before there was a reply."""


class RateLimited(ProviderError):
    """The API answered "too many requests" until the deadline, or the quota is used up."""


class Overloaded(ProviderError):
    """The API said until the deadline that it is overloaded."""


class ServerError(ProviderError):
    """The API failed on its own side."""


class MalformedReply(ProviderError):
    """The API's reply is none."""


class NotJson(MalformedReply):
    """The reply is a web page, or of another content type than JSON."""


class CutReply(MalformedReply):
    """The reply ended too early, or is broken JSON."""


class WrongShape(MalformedReply):
    """The reply is JSON, but has no message in it."""


class Redirected(MalformedReply):
    """The reply points to another address, which is not followed."""


class EmptyReply(MalformedReply):
    """The model stopped of its own accord without having said anything."""


class LedgerError(AgentDescentError, RuntimeError):
    """The git store failed.

    Attributes:
        operation: What was being done, e.g. "commit".
        repo_path: The repository, or None when there is none.
        hint: What to do about it, or "".
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        repo_path: str | None = None,
        hint: str = "",
    ) -> None:
        where = f" in git repository {repo_path}" if repo_path else " in the git ledger"
        what = f"{operation} failed{where}: {message}" if operation else message
        super().__init__(f"{what}; {hint}" if hint else what)
        self.operation = operation
        self.repo_path = repo_path
        self.hint = hint


class CASConflict(LedgerError):
    """Another writer moved the artifact first; the evidence is filed again."""


class LedgerBusy(LedgerError):
    """The ledger stayed locked for longer than the lock timeout."""


class LedgerFull(LedgerError):
    """The file system of the ledger has no space left."""


class LedgerReadOnly(LedgerError):
    """The ledger cannot be written."""


class LedgerPermission(LedgerError):
    """The ledger belongs to another user or may not be accessed."""


class LedgerDamaged(LedgerError):
    """The ledger holds nothing intact to go on from."""


class LedgerRefused(LedgerError):
    """The path is not a ledger of ours, or one of a newer format; nothing was touched."""


class LedgerClosed(LedgerError):
    """The ledger was used after it had been closed."""


class NotInLedger(LedgerError, KeyError):
    """The ledger has no such artifact, version or branch; the message names those it has."""

    __str__ = Exception.__str__  # that of KeyError puts the message in quotes


class GitError(LedgerError):
    """Any other failure of git."""


LedgerFailure = LedgerError


class TreeError(AgentDescentError, ValueError):
    """A path, a directory or a rendering cannot be (part of) a tree of files."""


class RunningLoopError(AgentDescentError, RuntimeError):
    """`evolve` was called where an event loop is already running."""


class EvolutionInterrupted(KeyboardInterrupt):
    """Ctrl-C ended `evolve`; `result` holds what it had reached."""

    def __init__(self, result: Any) -> None:
        super().__init__("evolve() was interrupted; the partial result is in .result")
        self.result = result


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


def describe(error: BaseException) -> str:
    """The form in which results report an error: `<Type>: <message>`.

    A failed evaluation is described by what the caller's code raised.
    """
    cause = error.__cause__ if isinstance(error, EvaluationFailed) else None
    return describe(cause) if cause is not None else f"{type(error).__name__}: {error}"


def kind_of(description: str) -> str:
    """The type in what `describe` gave, without the message, which may quote anything."""
    kind = description.partition(":")[0]
    return kind if kind.isidentifier() or not description else "Error"


def raised_at(error: BaseException) -> str:
    """The place that raised `error`: "(file.py:12)", or "" if it was never raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


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
