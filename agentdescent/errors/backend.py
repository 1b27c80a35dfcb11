"""Errors of models, tools and networks."""

from agentdescent.errors.caller import AgentDescentError
from agentdescent.errors.words import describe


class BackendError(AgentDescentError, RuntimeError):
    """A model, tool or network failed.

    `attempts_made` is set by a layer that has already retried; nobody retries it again.
    `retry_after_s` is set when the service asks for a wait, in seconds, before the next attempt.
    """

    attempts_made: int | None = None
    retry_after_s: float | None = None


class EvaluationFailed(BackendError):
    """A task could not be scored after its retries; the original error is `__cause__`."""

    speaks_for_its_cause = True

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
        self.attempts: int = attempts
        self.attempts_made: int | None = attempts
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
