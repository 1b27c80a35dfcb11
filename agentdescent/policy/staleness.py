"""Staleness policies: what becomes of a diff made against an older version.

An up-to-date diff is accepted; a contract-breaking one that lags is discarded. In between:

| policy       | within the tolerance | beyond it |
|--------------|----------------------|-----------|
| `full`       | accept               | accept    |
| `guarded`    | rebase               | discard   |
| `reflective` | rebase               | rebase    |
"""

from typing import ClassVar

from agentdescent.core.protocols import StaleAction, StalenessPolicy


class _Policy:
    """One row of the table."""

    name: ClassVar[str]
    _within: ClassVar[StaleAction]
    _beyond: ClassVar[StaleAction]

    def decide(self, eta: int, alpha: int, contract_breaking: bool, /) -> StaleAction:  # noqa: FBT001 - the protocol is positional
        """Judge a diff that lags `eta` commits where `alpha` are tolerated.

        A negative lag counts as none.
        """
        if eta <= 0:
            return StaleAction.ACCEPT
        if contract_breaking:
            return StaleAction.DISCARD
        return self._within if eta <= alpha else self._beyond

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Full(_Policy):
    """Use lagging diffs as they are: the most throughput, the least care."""

    name = "full"
    _within = _beyond = StaleAction.ACCEPT


class Guarded(_Policy):
    """Rebase what lags within the tolerance, discard what lags further. The default."""

    name = "guarded"
    _within, _beyond = StaleAction.REBASE, StaleAction.DISCARD


class Reflective(_Policy):
    """Rebase whatever lags: it is verified again, and kept if its gain still holds."""

    name = "reflective"
    _within = _beyond = StaleAction.REBASE


_POLICIES = {policy.name: policy for policy in (Full, Guarded, Reflective)}


def get_policy(name: str) -> StalenessPolicy:
    """The staleness policy called `name`: "full", "guarded" or "reflective".

    Raises:
        ValueError: For any other name.
    """
    if name not in _POLICIES:
        raise ValueError(f"unknown staleness policy {name!r}; choose one of {', '.join(_POLICIES)}")
    return _POLICIES[name]()
