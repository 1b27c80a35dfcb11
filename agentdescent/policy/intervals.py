"""Intervals that hold for few observations: exact, and without a random draw."""

import math
from collections import Counter
from collections.abc import Sequence

RISK = 0.05
"""The chance that an interval misses what it is for, unless another one is asked for."""

_BETS = 32
_HALVINGS = 60


def mean_interval(values: Sequence[float], risk: float = RISK) -> tuple[float, float]:
    """Bounds of the expected value of independent observations in [-1, 1].

    Whatever the law of the observations and however few there are, the interval misses their
    expected value with probability `risk` at most. It is the set of means against which nobody gets
    rich: of bets on each observation, fair if the mean is m, a fixed mixture multiplies the stake
    by 2 / risk with probability risk / 2 at most, so an m against which it has done so is ruled
    out.

    Args:
        values: Such as paired differences of rewards; shape (n,), n at least 1.
        risk: In (0, 1).

    Returns:
        (lower, upper), with -1 <= lower <= mean <= upper <= 1.

    Raises:
        ValueError: If there are no values, one is not in [-1, 1], or `risk` is not in (0, 1).
    """
    if not values:
        raise ValueError("values is empty; an interval needs at least one observation")
    if not 0.0 < risk < 1.0:
        raise ValueError(f"risk must lie between 0 and 1, got {risk}; 0.05 gives 95 % intervals")
    outside = [value for value in values if not -1.0 <= value <= 1.0]
    if outside:
        raise ValueError(f"values must lie in [-1, 1], got {outside[0]}; scale them")
    shares = [(1.0 + value) / 2.0 for value in values]
    lower = _lower(shares, risk / 2.0)
    upper = 1.0 - _lower([1.0 - share for share in shares], risk / 2.0)
    return 2.0 * lower - 1.0, 2.0 * upper - 1.0


def _lower(shares: Sequence[float], risk: float) -> float:
    """The largest mean, in [0, 1], that is too small for observations in [0, 1]."""
    counts = Counter(shares)
    target = -math.log(risk)
    low, high = 0.0, math.fsum(shares) / len(shares)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle > 0.0 and _log_wealth(counts, middle) >= target:
            low = middle
        else:
            high = middle
    return low


def _log_wealth(counts: Counter[float], mean: float) -> float:
    """The logarithm of what a stake of 1 has become by betting on more than `mean`.

    The bets are the stakes of a universal portfolio: many small and many bold ones.
    """
    bets = [math.sin(math.pi * (2 * k + 1) / (4 * _BETS)) ** 2 for k in range(_BETS)]
    logs = [
        math.fsum(n * math.log1p(bet * (share / mean - 1.0)) for share, n in counts.items())
        for bet in bets
    ]
    best = max(logs)
    return best + math.log(math.fsum(math.exp(log - best) for log in logs) / _BETS)
