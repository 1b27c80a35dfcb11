"""The statistics of the acceptance gate: exact, paired, and without a random draw."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from agentdescent.core.evidence import TIE

LEAST_DELTA = 0.01
"""The accepted risk of a false commit never anneals below this."""

_UNIT = 2.0**40
_TIE_STEPS = math.ceil(TIE * _UNIT)
_GRID = 256
_MAX_EXACT = 22
_MAX_ON_GRID = 500
_ROUNDING = 1e-12
_WORTH_A_LOOK = 0.1


def probability_of_gain(before: Sequence[float], after: Sequence[float]) -> float:
    """Probability that a random half of the paired evidence still shows a gain.

    P(sum e_i d_i > 0) + P(sum e_i d_i = 0) / 2 with d = after - before and fair coins e_i. For 0/1
    rewards with w wins and l losses this is P(Beta(1 + w, 1 + l) > 1/2). As far as it is exact, it
    never falls when a reward of `after` rises.

    One minus it is the mid-p value of the sign-flip test of the mean paired difference. Mid-p is
    calibrated on average over the number m of tasks that differ; for a fixed m the rate of false
    commits can exceed the accepted risk, by a factor of 1.01 at version 1 and 1.56 at worst. The
    strictly conservative value would refuse one win without a loss for ever.

    Exact when all differences are of one size, and for at most 22 that are not zero; up to 500 they
    are rounded to 1/256 of the largest unless they lie on a coarser grid; beyond that the normal
    law is used.

    Args:
        before: Rewards of the head, one per held-out task, each in [0, 1]; shape (n,).
        after: Rewards of the candidate on the same tasks in the same order; shape (n,).

    Returns:
        A number in (0, 1]; 0.5 when no reward differs by 1e-9 or more.

    Raises:
        ValueError: If the two differ in length.
    """
    return _law([_step(old, new) for old, new in zip(before, after, strict=True)])


def accepted_risk(version: int, *, base_delta: float, half_life: float) -> float:
    """Accepted probability of a false commit at `version`: halves every `half_life` versions."""
    return max(LEAST_DELTA, base_delta * 0.5 ** (version / half_life))


def commit_bar(version: int, *, base_delta: float, half_life: float, k: int = 1) -> float:
    """What `probability_of_gain` must exceed at `version`.

    Args:
        version: Version of the artifact, 1 at registration.
        base_delta: Accepted risk at version 0, in (0, 1].
        half_life: Versions per halving of it.
        k: Candidates whose held-out rewards were compared to choose this one, at least 1. The best
            of k looks better than it is, so its bar is the k-th root of a single candidate's.
    """
    risk = accepted_risk(version, base_delta=base_delta, half_life=half_life)
    return float((1.0 - risk) ** (1.0 / k))


def may_commit(probability: float, bar: float, gain: float) -> bool:
    """The gate: `probability` above `bar`, and a total gain above 1e-9 whatever the bar is."""
    return probability > bar and gain > TIE


class PairedGate:
    """One candidate against the head, task by task, and what it can still come to.

    Tasks that are not finished count as won outright (reward 1). All quantities are exact sums, so
    they do not depend on the order in which tasks finish.
    """

    def __init__(self, head: Sequence[float], bar: float) -> None:
        """Open the gate.

        Args:
            head: Rewards of the head, one per task, each in [0, 1]; shape (n,).
            bar: What the probability of gain must exceed, from `commit_bar`.
        """
        self._head = head
        self._bar = bar
        self._steps = [_step(old, 1.0) for old in head]
        self._sizes = Counter(filter(None, self._steps))
        self._total = sum(self._steps)
        self._reach = max((*self._steps, *(_step(0.0, old) for old in head)), default=0)
        self._open = len(head)
        self._open_up = self._wins = self._sizes.total()
        self._losses = 0
        self._open_gain = self._total
        self._differ = 0
        self._squares = 0
        self._largest = 0
        self._look_below = bar + _WORTH_A_LOOK

    def learn(self, index: int, value: float) -> None:
        """Note the candidate's reward on task `index`, once per task."""
        best, step = self._steps[index], _step(self._head[index], value)
        self._steps[index] = step
        self._total += step - best
        self._open -= 1
        if best:
            self._open_up -= 1
            self._open_gain -= best
            self._wins -= 1
            self._forget(best)
        if step:
            self._differ += 1
            self._wins += step > 0
            self._losses += step < 0
            self._squares += step * step
            size = abs(step)
            self._sizes[size] += 1
            self._largest = max(self._largest, size)

    @property
    def probability(self) -> float:
        """Probability of gain if every open task were won outright; final when none is open."""
        return _law(self._steps)

    @property
    def total_gain(self) -> float:
        """Sum of the differences if every open task were won outright."""
        return self._total / _UNIT

    def is_lost(self) -> bool:
        """True when tasks are open and no way to finish them would be accepted.

        It never says so of a candidate that the full gate would accept. It may say so late: a
        costly bound is looked at again only when a cheap estimate has come closer to the bar.
        """
        if not self._open:
            return False
        if self.total_gain <= TIE:
            return True
        if self._is_one_size():
            return self._ceiling() <= self._bar
        estimate = self._normal_ceiling()
        if estimate > self._look_below:
            return False
        ceiling = self._ceiling()
        self._look_below = estimate - (ceiling - self._bar) / 2
        return ceiling <= self._bar

    def _forget(self, size: int) -> None:
        self._sizes[size] -= 1
        if not self._sizes[size]:
            del self._sizes[size]

    def _is_one_size(self) -> bool:
        """All differences are as large as rewards allow, so no rounding can change their order."""
        return self._sizes.keys() <= {self._reach}

    def _ceiling(self) -> float:
        """The probability of gain is not above this however the open tasks end."""
        most = self._differ + self._open
        if self._is_one_size():
            bound = _binomial(self._wins, self._losses)
        elif most <= _MAX_EXACT:
            bound = _law(self._steps)
        elif self._wins + self._losses > _MAX_ON_GRID:
            return 1.0
        else:
            bound = _on_grid(self._rounded_up()) + _ROUNDING
        return max(bound, self._normal_ceiling()) if most > _MAX_ON_GRID else bound

    def _rounded_up(self) -> list[int]:
        """The differences on a grid, none below what rounding in `_law` could make of it.

        That rounds to the nearest point of a grid that is no wider than this one, and is this one
        once a difference is as large as rewards allow.
        """
        half = 0 if self._largest == self._reach else self._reach

        def up(step: int) -> int:
            point = -((-2 * _GRID * step - half) // (2 * self._reach))
            return point if step > 0 else min(0, point)

        return [up(step) for step in self._steps if step]

    def _normal_ceiling(self) -> float:
        """The normal law is not above this however the open tasks end.

        Of all ways in which they gain s together, equal shares have the smallest sum of squares;
        the best s is where sum / root of squares is largest, or all there is to gain.
        """
        sure = self._total - self._open_gain
        gain = float(self._open_gain)
        if sure > 0:
            gain = min(gain, self._open_up * self._squares / sure)
        squares = self._squares + (gain * gain / self._open_up if self._open_up else 0.0)
        return _normal(sure + gain, squares) + _ROUNDING


def _step(old: float, new: float) -> int:
    """The difference as a whole number of 2^-40, so that sums are exact; 0 for a tie."""
    gain = new - old
    return 0 if abs(gain) < TIE else round(gain * _UNIT)


def _law(steps: Iterable[int]) -> float:
    """P(sum e_i s_i > 0) + P(sum e_i s_i = 0) / 2; never falls when a step rises, but for rounding.

    Exact branches agree with each other to the last bit.
    """
    moved = [step for step in steps if step]
    wins = sum(step > 0 for step in moved)
    if len({abs(step) for step in moved}) <= 1:
        return _binomial(wins, len(moved) - wins)
    if len(moved) <= _MAX_EXACT:
        return _enumerated(moved)
    if len(moved) <= _MAX_ON_GRID:
        return _on_grid(_rounded(moved))
    return _normal(sum(moved), sum(step * step for step in moved))


def _binomial(wins: int, losses: int) -> float:
    """The law of steps of one size: the chance of at most `wins` heads in wins + losses + 1."""
    n = wins + losses + 1
    tail = term = 1
    for heads in range(1, min(wins, losses) + 1):
        term = term * (n - heads + 1) // heads
        tail += term
    return (tail if wins <= losses else 2**n - tail) / 2**n


def _enumerated(steps: Sequence[int]) -> float:
    """Every subset, met in the middle: sums of one half are looked up among the other's."""
    import numpy as np  # noqa: PLC0415 - loaded on first use

    def sums(half: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        found = np.zeros(1, dtype=np.int64)
        for step in half:
            found = np.concatenate((found, found + step))
        return found

    middle = len(steps) // 2
    left, right = sums(steps[:middle]), np.sort(sums(steps[middle:]))
    below = np.searchsorted(right, _TIE_STEPS - left, side="left")
    lost = np.searchsorted(right, -_TIE_STEPS - left, side="right")
    return 1.0 - float(below.sum() + lost.sum()) / 2.0 ** (len(steps) + 1)


def _rounded(steps: Sequence[int]) -> list[int]:
    """The steps on the coarsest grid on which all of them lie, at most 256 points to the largest.

    Where there is none they are rounded to 256 points.
    """
    sizes = {abs(step) for step in steps}
    largest = max(sizes)

    def fits(grid: int) -> bool:
        return all((size * grid + grid) % largest <= 2 * grid for size in sizes)

    grid = next(filter(fits, range(1, _GRID)), _GRID)
    return [round(step * grid / largest) for step in steps]


def _on_grid(points: Iterable[int]) -> float:
    """The law of small whole steps: one pass over the distribution of the sum per step."""
    import numpy as np  # noqa: PLC0415 - loaded on first use

    moved = [point for point in points if point]
    unit = math.gcd(*moved)
    widths = sorted(abs(point) // unit for point in moved)
    ways = np.zeros(sum(widths) + 1)
    ways[0] = 1.0
    size = 1
    for width in widths:
        size += width
        ways[width:size] += ways[: size - width].copy()
    zero = -sum(point for point in moved if point < 0) // unit
    return float(ways[zero + 1 :].sum() + ways[zero] / 2) / 2.0 ** len(widths)


def _normal(total: float, squares: float) -> float:
    """The normal law with mean total / 2 and variance squares / 4."""
    return 0.5 * (1.0 + math.erf(total / math.sqrt(2.0 * squares))) if squares else 0.5
