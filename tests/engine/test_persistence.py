"""Every part of a search goes on from what it has written down."""

import json
import math

from agentdescent import AggregatorConfig, Diff, DifficultyWeighted, EvidenceCard, MergeReport, Task
from agentdescent.core.outcomes import MergeOutcome
from agentdescent.engine.alerts import Alerts
from agentdescent.engine.budget import EarlyStop
from agentdescent.engine.head import Head
from agentdescent.engine.health import Health
from agentdescent.engine.journal import Solved
from agentdescent.engine.messages import Report, Snapshot, Ticket
from agentdescent.merge.buffer import EvidenceBuffer
from agentdescent.merge.promotion import Promotion
from agentdescent.policy.governance import AuditScheduler
from agentdescent.policy.parallel import WorkUnit

TASK = Task("a", "solve a")


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


def test_a_sampler_goes_on_picking_as_before():
    original, again = DifficultyWeighted(c=0.4), DifficultyWeighted(c=0.4)
    for turn, reward in enumerate((0.0, 1.0, 1.0, 0.0, 0.0)):
        original.record(original.pick("abc", turn), reward)

    again.restore(through_json(original.dump()))

    assert again.stats() == original.stats()
    assert [again.pick("abc", 9) for _ in range(9)] == [original.pick("abc", 9) for _ in range(9)]


def test_an_auditor_remembers_whom_it_trusts():
    original, again = AuditScheduler(), AuditScheduler()
    original.update_trust("skill", agreed=False)
    original.force_oracle(0.1, "skill")

    again.restore(through_json(original.dump()))

    assert again.trust("skill") == 0.5
    assert again.audits == 1


def test_patience_goes_on_being_tried():
    original, again = EarlyStop(None, 3), EarlyStop(None, 3)
    for reward in (0.5, 0.5, 0.4):
        original.observe(reward)

    again.restore(through_json(original.dump()))

    assert again.observe(0.5) == "patience"


def test_an_early_stop_that_has_seen_nothing_can_be_written_down():
    again = EarlyStop(None, 3)

    again.restore(through_json(EarlyStop(None, 3).dump()))

    assert again.best == -math.inf


def test_the_lag_of_a_diff_is_counted_across_processes():
    original, again = (Head(Snapshot(1, {}, "")) for _ in range(2))
    for version in (2, 3, 4):
        original.publish(Snapshot(version, {"k": str(version)}, ""))

    again.restore(through_json(original.dump()))

    assert again.lag(["k"], 2) == original.lag(["k"], 2) == 2


def test_a_backend_that_once_worked_is_not_taken_for_dead():
    original, again = (Health(2, 1, Alerts(), backs_off=True) for _ in range(2))
    ticket = Ticket(0, 0, Snapshot(1, {}, ""), WorkUnit(0, ["a"]), TASK)
    original.note(Report(ticket, reward=1.0))

    again.restore(through_json(original.dump()))
    again.close_round(failed=1, succeeded=0)
    again.close_round(failed=1, succeeded=0)

    assert not again.dead


def test_solved_tasks_stay_solved_while_the_head_stays():
    original, again = (Solved(frozenset("a"), 0.999, lambda: 0) for _ in range(2))
    ticket = Ticket(0, 0, Snapshot(1, {}, ""), WorkUnit(0, ["a"]), TASK)
    original.note(Report(ticket, reward=1.0), head=1)

    again.restore(through_json(original.dump()))

    assert again.everything(head=1)
    assert not again.everything(head=2)


def test_evidence_goes_on_waiting_in_its_order():
    original, again = EvidenceBuffer(), EvidenceBuffer()
    cards = [EvidenceCard(Diff(n, "t", {n: "v"}), {"t": 1}, ["t"], 0.5, []) for n in "xyz"]
    for card in cards:
        original.add(card)
    original.tick()

    again.restore(through_json(original.dump()), {})

    assert again.due(AggregatorConfig(batch_trigger=9, max_wait_rounds=1)) == ["t"]
    assert again.lease("t").cards == cards


def test_promotion_goes_on_counting():
    original, again = Promotion(None, after=3), Promotion(None, after=3)
    rejected = MergeReport("skill", category=MergeOutcome.ORACLE_REJECTED)

    async def observe():
        await original.observe([rejected])
        await original.observe([])

    _run(observe())
    again.restore(through_json(original.dump()))

    assert again.dump() == original.dump() == {"survived": {"skill": 1}, "promoted": {}}


def _run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited for something")
