"""The verifier: what an aggregator asks about artifacts, answered by the evaluation pool."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.evidence import TIE
from agentdescent.core.merging import Verdict
from agentdescent.core.task import Task
from agentdescent.errors import ContractError, EvaluationFailed, PluginError, describe
from agentdescent.evaluate.memo import mean
from agentdescent.evaluate.pool import EvaluationPool, Sweep
from agentdescent.policy.stats import PairedGate, may_commit
from agentdescent.threads import either

_TEXTS_KEPT = 64


@dataclass
class VerifierBudget:
    """How often the ground truth may be asked."""

    oracle_calls_remaining: int = 200
    oracle_calls_used: int = 0

    def can_spend(self) -> bool:
        """True while a call is left."""
        return self.oracle_calls_remaining > 0

    def spend(self) -> bool:
        """Use one call; False, and nothing happens, when none is left."""
        if not self.can_spend():
            return False
        self.oracle_calls_remaining -= 1
        self.oracle_calls_used += 1
        return True


class Verifier:
    """Measures artifacts on the held-out tasks.

    Its methods are awaited on the event loop and block in a hook thread. Cancelling one withdraws
    what nobody else waits for.

    Attributes:
        held_out: The held-out tasks.
        confirm: Fresh measurements of head and candidate on each task where they differ, before a
            candidate is accepted; 0 for none.
        budget: What `oracle_eval` may spend.
        ranking: The held-out tasks that rivals are compared on: those with most to win over the
            head of the first comparison that knew the head's values; fixed from then on.
    """

    def __init__(
        self,
        pool: EvaluationPool,
        held_out: Sequence[Task],
        *,
        eval_waves: int = 2,
        confirm: int = 0,
        cheap_tasks: int | None = None,
        oracle_budget: int = 200,
    ) -> None:
        """Measure through `pool`.

        Args:
            pool: Runs and remembers the measurements.
            held_out: At least one task.
            eval_waves: 2 to score the tasks that can be won first, 1 to score all at once.
            confirm: See the attribute.
            cheap_tasks: Size of the ranking subset; None for all held-out tasks.
            oracle_budget: How many calls of `oracle_eval` look at all held-out tasks.
        """
        self.held_out: tuple[Task, ...] = tuple(held_out)
        self.confirm = confirm
        self.budget: VerifierBudget = VerifierBudget(oracle_budget)
        self._pool = pool
        self._eval_waves = eval_waves
        self._n_ranking = cheap_tasks or len(self.held_out)
        self.ranking: tuple[Task, ...] = self._with_headroom([0.0] * len(self.held_out))[
            : self._n_ranking
        ]
        self._is_ranked = False
        self._texts: dict[int, tuple[EvolvingArtifact, str]] = {}

    @either
    async def gate(
        self,
        head: EvolvingArtifact,
        candidate: EvolvingArtifact,
        bar: float,
        *,
        curtail: bool = True,
        along: Sequence[tuple[EvolvingArtifact, Task]] = (),
    ) -> Verdict:
        """Compare the two on the held-out tasks.

        Tasks that can be won are scored first. With `curtail` it stops as soon as no outcome of the
        rest could be accepted. A task that cannot be scored leaves the verdict undecided.

        Args:
            head: What `candidate` would replace.
            candidate: What is judged.
            bar: What the probability of a gain must exceed.
            curtail: Stop early; otherwise every task is scored.
            along: What to measure together with the last wave, while the candidate has lost no
                task; for whoever wants these values once it is accepted.
        """
        text = self._rendered(candidate)
        trial: _Trial | None = None
        try:
            before = await self.evaluate(head, self.held_out)
            trial = _Trial(self._with_headroom(before), sorted(before), bar)
            ahead = [(self._rendered(artifact), task) for artifact, task in along]
            await self._compare(trial, text, ahead, curtail=curtail)
            verdict = trial.verdict()
            return await self._confirmed(verdict, head, candidate) if verdict.accepted else verdict
        except EvaluationFailed as failed:
            seen = (trial or _Trial((), (), bar)).verdict()
            return replace(seen, accepted=False, total=len(self.held_out), undecided=str(failed))

    @either
    async def evaluate(self, artifact: EvolvingArtifact, tasks: Sequence[Task]) -> list[float]:
        """The reward of each of `tasks`.

        Raises:
            EvaluationFailed: If one could not be scored after its retries.
        """
        return await self._pool.values(self._rendered(artifact), tasks)

    @either
    async def second(self, artifact: EvolvingArtifact, tasks: Sequence[Task]) -> list[float]:
        """A second reward of each of `tasks`, which owes nothing to the first.

        It is measured once, and from then on the value of a task is the mean of both. Raises as
        `evaluate`.
        """
        found = [0.0] * len(tasks)
        with Sweep(self._pool, found.__setitem__) as sweep:
            sweep.ask(self._rendered(artifact), tasks, second=True)
            await sweep.finished()
        return found

    @either
    async def score(self, artifact: EvolvingArtifact, tasks: Sequence[Task]) -> float:
        """The mean reward over `tasks`, of which there is at least one; raises as `evaluate`."""
        return mean(await self.evaluate(artifact, tasks))

    @either
    async def cheap_total(self, artifact: EvolvingArtifact, fraction: float = 1.0) -> float:
        """The summed reward over the first `fraction` of the ranking subset; raises as `evaluate`.

        It is the cheap reward, if there is one. A fraction of a task counts as a whole one.
        """
        ranking = self._ranked()
        tasks = ranking[: math.ceil(fraction * len(ranking))]
        return sum(await self._pool.values(self._rendered(artifact), tasks, cheap=True))

    @either
    async def cheap_eval(self, artifact: EvolvingArtifact) -> float:
        """The mean reward over the ranking subset, the cheap one if any; raises as `evaluate`."""
        return mean(await self._pool.values(self._rendered(artifact), self._ranked(), cheap=True))

    @either
    async def eval_counts(self, artifact: EvolvingArtifact) -> tuple[float, float]:
        """(successes, failures) over the held-out tasks; raises as `evaluate`."""
        reward = sum(await self.evaluate(artifact, self.held_out))
        return reward, len(self.held_out) - reward

    @either
    async def oracle_eval(self, artifact: EvolvingArtifact) -> float:
        """The mean over all held-out tasks while the budget lasts, then as `cheap_eval`."""
        if not self.budget.spend():
            return await self.cheap_eval(artifact)
        return await self.score(artifact, self.held_out)

    async def _compare(
        self, trial: "_Trial", text: str, along: Sequence[tuple[str, Task]], *, curtail: bool
    ) -> None:
        """Score the candidate, wave by wave, until all is known or nothing can be won any more."""
        first = len(trial.tasks)
        if curtail and self._eval_waves == 2:
            first = sum(1.0 - value > TIE for value in trial.before)
        ahead = Sweep(self._pool, _ignore)

        def learn(index: int, value: float) -> bool:
            trial.learn(index, value)
            if trial.loses(index):
                ahead.end()
            return curtail and trial.gate.is_lost()

        if curtail and trial.gate.is_lost():
            return
        with ahead, Sweep(self._pool, learn) as sweep:
            sweep.ask(text, trial.tasks[:first])
            await sweep.finished()
            if first < len(trial.tasks) and not trial.gate.is_lost():
                sweep.ask(text, trial.tasks[first:])
                for other, task in along:
                    ahead.ask(other, [task])
                await sweep.finished()
                with suppress(EvaluationFailed):  # whoever wants the value is told
                    await ahead.finished()

    async def _confirmed(
        self, verdict: Verdict, head: EvolvingArtifact, candidate: EvolvingArtifact
    ) -> Verdict:
        """Judge an accepted candidate again by fresh measurements alone, if that is asked for.

        Rewards in the verdict are the means of all measurements, old and fresh.
        """
        if not self.confirm:
            return verdict
        tasks = (*verdict.won, *verdict.lost)
        fresh = [0.0] * (2 * len(tasks))
        with Sweep(self._pool, fresh.__setitem__) as sweep:
            sweep.ask(self._rendered(head), tasks, fresh=self.confirm)
            sweep.ask(self._rendered(candidate), tasks, fresh=self.confirm)
            await sweep.finished()
        again = _Trial(tasks, fresh[: len(tasks)], verdict.bar, fresh[len(tasks) :]).verdict()
        before = await self.evaluate(head, self.held_out)
        after = await self.evaluate(candidate, self.held_out)
        whole = _Trial(self.held_out, before, verdict.bar, after).verdict()
        return replace(whole, accepted=again.accepted, probability=again.probability)

    def dump(self) -> dict[str, Any]:
        """What it ranks rivals on, and what of its budget is spent, as JSON values."""
        return {
            "ranking": [task.id for task in self.ranking] if self._is_ranked else None,
            "oracle": self.budget.oracle_calls_used,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave, with the same held-out tasks."""
        self.budget.oracle_calls_used += saved["oracle"]
        self.budget.oracle_calls_remaining -= saved["oracle"]
        if saved["ranking"] is not None:
            by_id = {task.id: task for task in self.held_out}
            self.ranking = tuple(by_id[name] for name in saved["ranking"])
            self._is_ranked = True

    def _ranked(self) -> Sequence[Task]:
        """The ranking subset, chosen now if the head's values are known."""
        if not self._is_ranked and self._pool.head is not None:
            before = self._pool.known(self._pool.head, self.held_out)
            if before is not None:
                self.ranking = self._with_headroom(before)[: self._n_ranking]
                self._is_ranked = True
        return self.ranking

    def _with_headroom(self, values: Sequence[float]) -> tuple[Task, ...]:
        """The held-out tasks, those with most to win over `values` first; ties by id."""
        pairs = sorted(
            zip(values, self.held_out, strict=True), key=lambda pair: (pair[0], pair[1].id)
        )
        return tuple(task for _, task in pairs)

    def _rendered(self, artifact: EvolvingArtifact) -> str:
        """The text of `artifact`, rendered once per object while it is in use.

        Raises:
            PluginError: If its strategy raises.
        """
        known = self._texts.get(id(artifact))
        if known is None:
            if len(self._texts) == _TEXTS_KEPT:
                self._texts.clear()
            known = self._texts[id(artifact)] = (artifact, _render(artifact))
        return known[1]


class _Trial:
    """One candidate on some tasks, in the order they are scored."""

    def __init__(
        self,
        tasks: Sequence[Task],
        before: Sequence[float],
        bar: float,
        after: Sequence[float] = (),
    ) -> None:
        self.tasks = tasks
        self.before = before
        self.gate = PairedGate(before, bar)
        self._bar = bar
        self._after: dict[int, float] = {}
        for index, value in enumerate(after):
            self.learn(index, value)

    def learn(self, index: int, value: float) -> None:
        """Note the candidate's reward on one task."""
        self.gate.learn(index, value)
        self._after[index] = value

    def loses(self, index: int) -> bool:
        """True if the candidate earned less on that task than the head."""
        return self._after[index] - self.before[index] <= -TIE

    def verdict(self) -> Verdict:
        """What the tasks finished so far say."""
        finished = sorted(self._after)
        gains = {index: self._after[index] - self.before[index] for index in finished}
        probability = self.gate.probability
        return Verdict(
            accepted=may_commit(probability, self._bar, self.gate.total_gain),
            probability=probability,
            bar=self._bar,
            before=mean([self.before[index] for index in finished]),
            after=mean([self._after[index] for index in finished]),
            finished=len(finished),
            total=len(self.tasks),
            won=tuple(self.tasks[index] for index in finished if gains[index] >= TIE),
            lost=tuple(self.tasks[index] for index in finished if gains[index] <= -TIE),
        )


def _ignore(index: int, value: float) -> None:
    """Learn nothing: the memo remembers."""
    del index, value


def _render(artifact: EvolvingArtifact) -> str:
    try:
        return artifact.render()
    except ContractError:
        raise
    except Exception as error:
        raise PluginError(
            f"strategy failed in render: {describe(error)}; mend it, a retry would not help"
        ) from error
