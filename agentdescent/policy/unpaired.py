"""Acceptance by two Beta posteriors, one for the head and one for the candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentdescent.core.evidence import TIE
from agentdescent.policy.bundle import AcceptDecision, MergeContext

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

_POINTS = 20_001
_EXPONENTS = 36.0
_COMMIT_WEIGHT = 2.0
_LEAST_WEIGHT = 1e-6


@dataclass(frozen=True, slots=True)
class BetaPosterior:
    """What is believed of a success rate after some successes and failures, under a flat prior.

    Attributes:
        successes: At least 0; may be fractional.
        failures: Likewise.
    """

    successes: float = 0.0
    failures: float = 0.0

    @property
    def alpha(self) -> float:
        """First shape parameter of the Beta law."""
        return self.successes + 1.0

    @property
    def beta(self) -> float:
        """Second shape parameter of the Beta law."""
        return self.failures + 1.0

    @property
    def mean(self) -> float:
        """The expected rate."""
        return self.alpha / (self.alpha + self.beta)

    def plus(self, successes: float, failures: float) -> "BetaPosterior":
        """The belief after these, too."""
        return BetaPosterior(self.successes + successes, self.failures + failures)

    def observe(self, *, success: bool, weight: float = 1.0) -> "BetaPosterior":
        """The belief after one more observation."""
        return self.plus(weight, 0.0) if success else self.plus(0.0, weight)

    def observe_delta(self, delta: float) -> "BetaPosterior":
        """The belief after a measured gain; one of 0.25 or more counts as a whole observation."""
        weight = min(1.0, 4.0 * abs(delta)) + _LEAST_WEIGHT
        return self.observe(success=delta > 0.0, weight=weight)


def probability_above(candidate: BetaPosterior, baseline: BetaPosterior) -> float:
    """P(X > Y) for independent rates X of `candidate` and Y of `baseline`; no random draws.

    The error is below 1e-6 up to some ten thousand observations.
    """
    import numpy as np  # noqa: PLC0415 - loaded on first use

    if candidate == baseline:
        return 0.5
    bounds = [_bounds(posterior) for posterior in (candidate, baseline)]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    logits = np.linspace(low, high, _POINTS)
    step = (high - low) / (_POINTS - 1)
    x, y = (_density(posterior, logits, step) for posterior in (candidate, baseline))
    below = (np.cumsum(y) - y / 2) * step - step**2 / 12 * _slope(baseline, logits, y)
    return float((x * below).sum() * step)


def _bounds(posterior: BetaPosterior) -> tuple[float, float]:
    """Logits between which all but a negligible part of the posterior lies."""
    import numpy as np  # noqa: PLC0415 - loaded on first use

    a, b = posterior.alpha, posterior.beta
    centre, spread = float(np.log(a / b)), 9.0 * float(np.sqrt(1 / a + 1 / b))
    return centre - spread - _EXPONENTS / a, centre + spread + _EXPONENTS / b


def _density(posterior: BetaPosterior, logits: "Numbers", step: float) -> "Numbers":
    """The density of the logit of the rate, where the trapezoidal rule is all but exact."""
    import numpy as np  # noqa: PLC0415 - loaded on first use

    a, b = posterior.alpha, posterior.beta
    log = -a * np.logaddexp(0.0, -logits) - b * np.logaddexp(0.0, logits)
    density = np.exp(log - log.max())
    return density / (density.sum() * step)


def _slope(posterior: BetaPosterior, logits: "Numbers", density: "Numbers") -> "Numbers":
    import numpy as np  # noqa: PLC0415 - loaded on first use

    a, b = posterior.alpha, posterior.beta
    return density * (a - (a + b) / (1.0 + np.exp(-logits)))


@dataclass(slots=True, eq=False)
class UnpairedBeta:
    """Commit if the candidate's success rate is probably higher than the head's.

    A candidate is accepted if P(rate of the candidate > rate of the head) exceeds 1 - delta and its
    mean reward is not below the head's. Each rate has a Beta posterior: a flat prior, what earlier
    merges of the artifact came to, the counts on the held-out tasks, and for the candidate the
    gains that its proposals had on their own tasks.

    Which tasks changed is not looked at, so as the risk anneals it asks for more than the paired
    gate, and the more held-out tasks there are: with 50, half of them solved, for 6 more instead of
    3 at version 128. It does not correct for how many candidates were compared, and accepts ties
    whose proposals gained on their own tasks.
    """

    _priors: dict[str, BetaPosterior] = field(
        default_factory=dict[str, BetaPosterior], init=False, repr=False
    )

    def decide(self, context: MergeContext, /) -> AcceptDecision:
        """Judge one candidate."""
        prior = self.prior(context.artifact.id)
        baseline = prior.plus(*context.base_counts)
        candidate = prior.plus(*context.cand_counts)
        for card in context.cards:
            candidate = candidate.observe_delta(card.before_after_delta)
        p = probability_above(candidate, baseline)
        bar = 1.0 - context.delta
        if context.gain < -TIE:
            return AcceptDecision(accept=False, p_improve=p, detail=f"worse by {-context.gain:.3f}")
        comparison = f"P(better) = {p:.2f} {'>' if p > bar else '<='} {bar:.2f}"
        return AcceptDecision(accept=p > bar, p_improve=p, detail=comparison)

    def prior(self, artifact_id: str) -> BetaPosterior:
        """What earlier merges of an artifact came to."""
        return self._priors.get(artifact_id, BetaPosterior())

    def learn(self, context: MergeContext, decision: AcceptDecision, committed: bool) -> None:  # noqa: FBT001 - called by position
        """Add the end of a merge to the prior; a commit that others outran tells nothing."""
        name = context.artifact.id
        if committed:
            weight = _COMMIT_WEIGHT
            self._priors[name] = self.prior(name).observe(success=True, weight=weight)
        elif not decision.accept:
            self._priors[name] = self.prior(name).observe_delta(context.gain)

    def dump(self) -> dict[str, Any]:
        """The priors, as JSON values."""
        return {name: [prior.successes, prior.failures] for name, prior in self._priors.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._priors = {name: BetaPosterior(*counts) for name, counts in saved.items()}
