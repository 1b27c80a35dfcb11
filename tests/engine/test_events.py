"""The event stream: told once, to everyone, without slowing anybody."""

import anyio
import pytest

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
        world.tasks,
        world.reward,
        run=world.run,
        propose=world.propose,
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
