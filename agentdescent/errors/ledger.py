"""Errors of the git store."""

from agentdescent.errors.caller import AgentDescentError


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
