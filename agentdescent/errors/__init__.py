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

from agentdescent.errors.backend import (
    AgentError,
    BackendError,
    BadRequest,
    CommandFailed,
    CommandNotStarted,
    CommandTimeout,
    CutReply,
    EmptyReply,
    EvaluationFailed,
    FetchError,
    JudgeError,
    MalformedReply,
    NotJson,
    Overloaded,
    ProviderAuthError,
    ProviderError,
    ProviderTimeout,
    ProviderUnreachable,
    RateLimited,
    Redirected,
    ServerError,
    UnknownModel,
    WrongShape,
)
from agentdescent.errors.caller import (
    AgentDescentError,
    AggregatorContractError,
    ContractError,
    ContractRejected,
    EvolutionInterrupted,
    GovernanceError,
    PluginError,
    ProposalContractError,
    RewardContractError,
    RunningLoopError,
    TreeError,
    UnpricedModelError,
)
from agentdescent.errors.handling import (
    Failure,
    FailureKind,
    classify,
    is_plugin_bug,
    ungrouped,
    unwrap,
)
from agentdescent.errors.ledger import (
    CASConflict,
    GitError,
    LedgerBusy,
    LedgerClosed,
    LedgerDamaged,
    LedgerError,
    LedgerFailure,
    LedgerFull,
    LedgerPermission,
    LedgerReadOnly,
    LedgerRefused,
    NotInLedger,
)
from agentdescent.errors.words import describe, kind_of, raised_at

__all__ = [
    "AgentDescentError",
    "AgentError",
    "AggregatorContractError",
    "BackendError",
    "BadRequest",
    "CASConflict",
    "CommandFailed",
    "CommandNotStarted",
    "CommandTimeout",
    "ContractError",
    "ContractRejected",
    "CutReply",
    "EmptyReply",
    "EvaluationFailed",
    "EvolutionInterrupted",
    "Failure",
    "FailureKind",
    "FetchError",
    "GitError",
    "GovernanceError",
    "JudgeError",
    "LedgerBusy",
    "LedgerClosed",
    "LedgerDamaged",
    "LedgerError",
    "LedgerFailure",
    "LedgerFull",
    "LedgerPermission",
    "LedgerReadOnly",
    "LedgerRefused",
    "MalformedReply",
    "NotInLedger",
    "NotJson",
    "Overloaded",
    "PluginError",
    "ProposalContractError",
    "ProviderAuthError",
    "ProviderError",
    "ProviderTimeout",
    "ProviderUnreachable",
    "RateLimited",
    "Redirected",
    "RewardContractError",
    "RunningLoopError",
    "ServerError",
    "TreeError",
    "UnknownModel",
    "UnpricedModelError",
    "WrongShape",
    "classify",
    "describe",
    "is_plugin_bug",
    "kind_of",
    "raised_at",
    "ungrouped",
    "unwrap",
]
