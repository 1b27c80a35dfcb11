"""One rollout: run, reward, propose, diff, and the diff tried on its own task."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from agentdescent.core.constraints import violation
from agentdescent.core.contracts import check_proposal, check_reward
from agentdescent.core.diff import Diff, Dropped, State, apply_ops
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.leash import Leash
from agentdescent.core.outcomes import MergeOutcome, ProposalOutcome
from agentdescent.core.protocols import Constraint, CourseDoor, Door, Strategy
from agentdescent.core.reflection import Attempt
from agentdescent.core.reply import is_cut
from agentdescent.core.scored import Scored, feedback_of
from agentdescent.core.spend import Exhausted
from agentdescent.core.task import Task
from agentdescent.core.turns import Course, Cut
from agentdescent.engine.experience import Experience
from agentdescent.engine.messages import Report, Step, Ticket
from agentdescent.engine.plugins import render, to_diff
from agentdescent.errors import classify
from agentdescent.threads import now

_CUT = Scored(0.0, "The reply was cut off at its length limit, so it was not scored.")


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Performs rollouts; holds what they all need and no state of any.

    Attributes:
        run: The actor's first half, behind the executor.
        turns: The same, for a rollout that may be cut after any turn; None if it exposes none.
        is_overdue: Whether a rollout that has taken so many seconds is to be cut at its next turn.
        reward: The scorer.
        propose: The actor's second half; it takes a reflection if there is experience.
        experience: Makes reflections; None where `propose` takes four arguments.
        strategy: Turns proposals into diffs.
        constraints: What a diff must not break.
        sections: The section of each key, where work units have sections.
        artifact_id: The target of those diffs.
        solved_threshold: From this reward on, no proposal is asked for.
        self_verify: Try each diff on its own task before a merge sees it.
        slots: How many rollouts may be under way at once; None for no bound.
        leashed: Rollouts can be called off one by one.
    """

    run: Door
    turns: CourseDoor | None
    is_overdue: Callable[[Task, float], bool]
    reward: Door
    propose: Door
    experience: Experience | None
    strategy: Strategy
    constraints: Sequence[Constraint]
    sections: Mapping[str, int]
    artifact_id: str
    solved_threshold: float
    self_verify: bool
    slots: anyio.CapacityLimiter | None
    leashed: bool

    async def __call__(self, ticket: Ticket) -> Report:
        """Perform the rollout of `ticket`. Every ending but cancellation is a report."""
        report = Report(ticket)
        try:
            if self.leashed:
                await self._on_leash(report)
            else:
                await self._in_slot(report)
        except Exhausted:
            report.exhausted = True
        except Cut:
            report.checkpoint = ticket.checkpoint()
        except Exception as error:  # noqa: BLE001 - the one place where a worker's failures end
            report.failure = classify(error)
        return report

    async def _on_leash(self, report: Report) -> None:
        with anyio.CancelScope() as scope:
            report.ticket.leash = Leash(scope.cancel)
            await self._in_slot(report)
        if scope.cancelled_caught:
            report.checkpoint = report.ticket.checkpoint()
            if report.checkpoint is None:
                report.failure = classify(report.ticket.late())

    def _in_slot(self, report: Report) -> Coroutine[Any, Any, None]:
        return self._roll_out(report) if self.slots is None else self._once_free(self.slots, report)

    async def _once_free(self, slots: anyio.CapacityLimiter, report: Report) -> None:
        async with slots:
            await self._roll_out(report)

    async def _roll_out(self, report: Report) -> None:
        ticket = report.ticket
        task = ticket.task
        began = now()
        output = await self._output(ticket)
        report.step = Step.REWARD
        scored = await self._score(task, output, ticket.leash)
        earned = check_reward(task, scored)
        report.seconds = now() - began
        report.reward = earned
        if earned >= self.solved_threshold:
            if self.experience is not None:
                self.experience.note_success(ticket, Attempt(task, output, earned))
            return
        report.step = Step.PROPOSE
        answer = await self._ask(ticket, output, earned, feedback_of(scored))
        report.proposal = check_proposal(task, answer)
        diff = await self._diff_of(report)
        if isinstance(diff, Dropped):
            report.dropped, report.reason = diff.category, diff.reason
            return
        report.reason = "; ".join(diff.notes)
        report.step = Step.VERIFY
        await self._weigh(report, diff, earned)

    def _output(self, ticket: Ticket) -> Awaitable[object]:
        """What the actor makes of the task, from where the ticket goes on."""
        rendered, task = ticket.snapshot.rendered, ticket.task
        if self.turns is None:
            return self.run(rendered, task, leash=ticket.leash)
        return self._take_turns(self.turns, ticket)

    async def _take_turns(self, turns: CourseDoor, ticket: Ticket) -> object:
        rendered, task = ticket.snapshot.rendered, ticket.task
        began = now()
        ticket.course = Course(
            task.id,
            ticket.snapshot.version,
            ticket.resume,
            lambda: self.is_overdue(task, now() - began),
        )
        output = await turns(rendered, task, leash=ticket.leash, course=ticket.course)
        ticket.course = None
        return output

    async def _score(self, task: Task, output: object, leash: Leash | None) -> object:
        """What the scorer says; half an answer earns nothing, and is not shown to it."""
        return _CUT if is_cut(output) else await self.reward(task, output, leash=leash)

    async def _ask(self, ticket: Ticket, output: object, earned: float, feedback: str) -> object:
        """What the actor's second half says about a failure."""
        rendered, task = ticket.snapshot.rendered, ticket.task
        if self.experience is None:
            return await self.propose(rendered, task, output, earned, leash=ticket.leash)
        attempt = Attempt(task, output, earned, feedback)
        return await self.propose(self.experience.reflection(ticket, attempt), leash=ticket.leash)

    async def _diff_of(self, report: Report) -> Diff | Dropped:
        """The edit that was proposed, or why there is none."""
        if report.proposal is None or not report.proposal.strip():
            return Dropped(ProposalOutcome.NO_PROPOSAL)
        ticket = report.ticket
        head = ticket.snapshot
        made = await to_diff(
            self.strategy,
            head.state,
            report.proposal,
            f"w{ticket.worker}",
            head.version,
            self.artifact_id,
        )
        if made is None or (isinstance(made, Diff) and not _changes(head.state, made.ops)):
            return Dropped(ProposalOutcome.NO_OP)
        if isinstance(made, Dropped):
            return made
        inside = self._inside(report, made)
        return inside if isinstance(inside, Dropped) else self._permitted(head.state, inside)

    def _inside(self, report: Report, diff: Diff) -> Diff | Dropped:
        """What of `diff` lies in the section of the work unit."""
        section = report.ticket.unit.section
        if section is None or not self.sections:
            return diff
        foreign = [key for key in diff.ops if self.sections.get(key) != section]
        if not foreign:
            return diff
        own = [key for key, owner in self.sections.items() if owner == section]
        reason = f"{', '.join(foreign)} may not be edited here; these may: {', '.join(own)}"
        if len(foreign) == len(diff.ops):
            return Dropped(MergeOutcome.SECTION_VIOLATION, reason)
        report.strayed = True
        ops = {key: value for key, value in diff.ops.items() if key not in foreign}
        kept = replace(diff, ops=ops, notes=(*diff.notes, reason))
        state = report.ticket.snapshot.state
        return kept if _changes(state, ops) else Dropped(ProposalOutcome.NO_OP, reason)

    def _permitted(self, state: State, diff: Diff) -> Diff | Dropped:
        if not self.constraints:
            return diff
        broken = violation(self.constraints, state, apply_ops(state, diff.ops))
        return Dropped(ProposalOutcome.CONSTRAINT, broken) if broken else diff

    async def _weigh(self, report: Report, diff: Diff, before: float) -> None:
        ticket = report.ticket
        gain, feedback = 0.0, ""
        if self.self_verify:
            edited = apply_ops(ticket.snapshot.state, diff.ops)
            rendered = render(self.strategy, edited)
            output = await self.run(rendered, ticket.task, leash=ticket.leash)
            value = await self._score(ticket.task, output, ticket.leash)
            gain, feedback = check_reward(ticket.task, value) - before, feedback_of(value)
        report.card = EvidenceCard(
            diff=diff,
            base_version={self.artifact_id: ticket.snapshot.version},
            touched=[self.artifact_id],
            before_after_delta=gain,
            trajectory_refs=[ticket.task],
            order=ticket.order,
            verified=self.self_verify,
            base_values={key: ticket.snapshot.state.get(key) for key in diff.ops},
            cost_wallclock=report.seconds,
        )
        if not report.card.is_candidate:
            report.dropped = ProposalOutcome.NO_GAIN
            report.reason = feedback or report.reason


def _changes(state: Mapping[str, object], ops: Mapping[str, object]) -> bool:
    return any(state.get(key) != value for key, value in ops.items())
