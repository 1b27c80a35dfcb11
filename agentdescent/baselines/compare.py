"""Comparing arms that have spent the same: by the test reward, seed by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean, stdev

from agentdescent.baselines.arms import Arm
from agentdescent.baselines.workload import Unit

LEAST_SEEDS = 3
"""Fewer seeds say nothing about the spread."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds, and the 95 % interval of Student's law around it."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """The sign of the mean is no accident; only then is there anything to claim."""
        return self.low > 0.0 or self.high < 0.0

    def __str__(self) -> str:
        """E.g. "0.812 [0.790, 0.834]"."""
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interval(values: Sequence[float]) -> Interval:
    """The mean of `values`, one for each seed, and its 95 % interval.

    Raises:
        ValueError: For fewer than 3 values.
    """
    n = len(values)
    if n < LEAST_SEEDS:
        raise ValueError(f"{n} seed(s) say nothing about the spread; take {LEAST_SEEDS} or more")
    centre, half = mean(values), _student(n - 1) * stdev(values) / math.sqrt(n)
    return Interval(centre, centre - half, centre + half)


def _student(degrees: int) -> float:
    """The 97.5 % quantile of Student's law: exact for 2 degrees, to 0.2 % for more."""
    p = 0.975
    if degrees == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / degrees**power for power, term in enumerate(terms))


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read off what an arm has come to.

    Attributes:
        name: The arm, and for forks which of them is meant.
        rewards: Mean rewards on the test tasks, one for each seed.
        rollouts: Measured rollouts, on average over seeds.
        calls: Calls of `run` and `propose`, on average over seeds.
    """

    name: str
    rewards: Sequence[float]
    rollouts: float
    calls: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Arms side by side; print it.

    Attributes:
        fixed: The unit in which all arms had the same.
        amount: How much each had on each seed.
        readings: One for each arm; two for one that forks, which might be read either way: by the
            fork that was selected on the dev tasks, and by the one that is best on the test tasks.
    """

    fixed: Unit
    amount: int
    readings: Sequence[Reading]

    def interval(self, name: str) -> Interval:
        """What a reading earns; raises as `difference`."""
        return interval(self._rewards(name))

    def difference(self, one: str, other: str) -> Interval:
        """How much more the first reading earns than the second, seed by seed.

        Raises:
            KeyError: If there is no reading of that name.
        """
        pairs = zip(self._rewards(one), self._rewards(other), strict=True)
        return interval([a - b for a, b in pairs])

    def _rewards(self, name: str) -> Sequence[float]:
        return {reading.name: reading.rewards for reading in self.readings}[name]

    def __str__(self) -> str:
        """A table, and what the last reading has over each of the others."""
        confound = "rollouts" if self.fixed == "calls" else "calls"
        n_seeds = len(self.readings[0].rewards)
        wide = max(len(reading.name) for reading in self.readings)
        lines = [
            f"fixed: {self.amount} {self.fixed} for every arm on each of {n_seeds} seeds",
            f"not fixed, so it confounds: {confound}",
            f"{'':{wide}}  test reward, 95 % interval  rollouts  calls",
        ]
        for reading in self.readings:
            line = f"{reading.name:{wide}}  {interval(reading.rewards)!s:27}"
            lines.append(f"{line}  {reading.rollouts:8.0f}  {reading.calls:5.0f}")
        *others, last = self.readings
        for other in others:
            difference = self.difference(last.name, other.name)
            verdict = "" if difference.excludes_zero else ": no claim"
            lines.append(f"{last.name} - {other.name}: {difference}{verdict}")
        return "\n".join(lines)


def compare(*arms: Arm, fixed: Unit) -> Comparison:
    """Put arms side by side that had the same of one unit.

    Args:
        arms: At least two, over the same seeds. Name the one that is in question last.
        fixed: The unit that is equal. The other one is printed beside it, since it is not.

    Raises:
        ValueError: If an arm was given, or has spent, more or less of the unit than another, or had
            other seeds, or there are fewer than 3 seeds.
    """
    if len(arms) < 2:
        raise ValueError(f"{len(arms)} arm(s) cannot be compared; give two or more")
    amounts = {arm.name: getattr(arm.budget, fixed) for arm in arms}
    amount = amounts[arms[0].name]
    if amount is None or len(set(amounts.values())) > 1:
        raise ValueError(
            f"the arms were not given the same number of {fixed}: {amounts}; run them with one "
            f"Budget({fixed}=...)"
        )
    seeds = {arm.name: [trial.seed for trial in arm.trials] for arm in arms}
    if any(found != seeds[arms[0].name] for found in seeds.values()):
        raise ValueError(f"the arms were not run on the same seeds: {seeds}")
    if len(arms[0].trials) < LEAST_SEEDS:
        raise ValueError(f"seeds={seeds[arms[0].name]}: take {LEAST_SEEDS} or more")
    for arm in arms:
        _refuse_unspent(arm, fixed, amount)
    return Comparison(fixed, amount, [reading for arm in arms for reading in _readings(arm)])


def _refuse_unspent(arm: Arm, fixed: Unit, amount: int) -> None:
    for trial in arm.trials:
        if getattr(trial, fixed) != amount:
            raise ValueError(
                f"{arm.name} spent {getattr(trial, fixed)} of {amount} {fixed} on seed "
                f"{trial.seed}, so it had less than the others; let no other limit end its runs"
            )


def _readings(arm: Arm) -> list[Reading]:
    spent = mean(t.rollouts for t in arm.trials), mean(t.calls for t in arm.trials)
    test, best = [t.test for t in arm.trials], [t.best for t in arm.trials]
    if not arm.forks:
        return [Reading(arm.name, test, *spent)]
    return [
        Reading(f"{arm.name}, selected on dev", test, *spent),
        Reading(f"{arm.name}, best on test", best, *spent),
    ]
