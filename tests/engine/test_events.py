"""The event stream: told once, to everyone, without slowing anybody."""

import subprocess

import anyio
import pytest

from agentdescent import KeyedRules
from agentdescent.core.events import (
    Committed,
    EvaluationFinished,
    MergeDecided,
    ProposalMade,
    RolloutFinished,
    RoundEnded,
    RunEnded,
    RunStarted,
)
from support.toy import HiddenRules


async def heard(evolve, world, *listeners, **options):
    events = []
    result = await evolve(
        **world.parts,
        on_event=[events.append, *listeners],
        **options,
    )
    return events, result


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_stream_accounts_for_everything_in_the_result(evolve_under):
    world = HiddenRules(run_s=0.1)

    events, result = await heard(evolve_under, world)

    assert isinstance(events[0], EvaluationFinished)
    assert [event.initial_reward for event in of(RunStarted, events)] == [0.0]
    assert len(of(RolloutFinished, events)) == result.rollouts
    assert len(of(ProposalMade, events)) == world.count("propose")
    verified = [event for event in of(ProposalMade, events) if event.delta is not None]
    in_rollouts = result.rollouts + len(verified)
    assert len(of(EvaluationFinished, events)) == world.count("run") - in_rollouts
    assert [event.info for event in of(RoundEnded, events)] == result.history
    committed = [event.report.category == "committed" for event in of(MergeDecided, events)]
    assert len(of(Committed, events)) == sum(committed)
    assert [event.version for event in of(Committed, events)][-1] == result.version
    assert events[-1] == RunEnded(events[-1].at, result)
    assert [event.at for event in events] == sorted(event.at for event in events)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_listener_that_raises_is_reported_once_and_the_run_goes_on(evolve_under):
    world = HiddenRules()

    def broken(event):
        raise KeyError("no such panel")

    with pytest.warns(RuntimeWarning, match="an event listener raised KeyError") as caught:
        events, result = await heard(evolve_under, world, broken)

    assert len(caught) == 1
    assert result.error is None
    assert of(RunEnded, events)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_slow_listener_loses_events_instead_of_slowing_workers(evolve_under, looptime):
    world = HiddenRules(run_s=0.01)
    seen = []

    async def slow(event):
        seen.append(event)
        await anyio.sleep(1)

    events, result = await heard(evolve_under, world, slow, rounds=300, n_workers=8)

    assert result.wallclock < 60
    assert len(seen) < len(events)
    assert isinstance(seen[-1], RunEnded)
    assert result.events_dropped == len(events) - len(seen)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_listener_that_does_not_wait_misses_nothing_of_an_instantaneous_run(evolve_under):
    world = HiddenRules(rules=10, per_rule=300)

    async def run(rendered, task):
        return rendered

    world.run = run
    events, result = await heard(evolve_under, world, n_workers=64, rounds=3)

    held_out = 1200
    assert len(of(EvaluationFinished, events)) > 2 * held_out
    assert result.events_dropped == 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_cancelled_run_still_tells_everything_that_happened(evolve_under):
    world = HiddenRules(run_s=1.0)
    events = []

    with anyio.move_on_after(10.5):
        await evolve_under(
            **world.parts,
            rounds=100,
            on_event=events.append,
        )

    assert len(of(RunEnded, events)) == 1
    assert events[-1].result.version == 1 + len(of(Committed, events))


@pytest.mark.asyncio
async def test_commits_name_their_round_and_reports_their_numbers(evolve_under, tmp_path):
    world = HiddenRules(rules=2, run_s=0.001)

    events, result = await heard(evolve_under, world, repo_path=tmp_path, n_workers=1)

    message = subprocess.run(
        ["git", "-C", tmp_path, "log", "-1", "--format=%B", "dev"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [*_, last] = [info.round for info in result.history if info.committed]
    assert f"AgentDescent-Round: {last}\n" in message
    reasons = [e.report.reason for e in of(MergeDecided, events) if e.report.accepted]
    assert reasons[0] == "P(delta>0) = 0.88 > 0.51; 0.000 -> 0.400"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_listeners_hear_why_a_proposal_was_dropped(evolve_under):
    world = HiddenRules(rules=1, per_rule=10)

    async def propose(rendered, task, output, reward):
        return "fmt:"

    world.propose = propose
    events, _ = await heard(
        evolve_under, world, strategy=KeyedRules(["fmt"]), n_workers=1, rounds=1
    )

    assert [(e.dropped, bool(e.reason)) for e in of(ProposalMade, events)] == [("unparsable", True)]
