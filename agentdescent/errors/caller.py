"""Errors that are the caller's to mend, and those that belong to nobody else."""

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


class TreeError(AgentDescentError, ValueError):
    """A path, a directory or a rendering cannot be (part of) a tree of files."""


class RunningLoopError(AgentDescentError, RuntimeError):
    """`evolve` was called where an event loop is already running."""


class EvolutionInterrupted(KeyboardInterrupt):
    """Ctrl-C ended `evolve`; `result` holds what it had reached."""

    def __init__(self, result: Any) -> None:
        super().__init__("evolve() was interrupted; the partial result is in .result")
        self.result = result
