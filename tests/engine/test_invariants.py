"""What holds of every run, whatever the world and the settings: runs drawn at random."""

import asyncio
import math
from random import Random

import anyio
import pytest

from agentdescent import AppendRules, MergeOutcome, ProposalOutcome, StopReason
from agentdescent.core.events import (
    Committed,
    MergeDecided,
    ProposalMade,
    RolloutFinished,
    RoundEnded,
    RunEnded,
)
from agentdescent.core.store import CommitNote, Stored
from agentdescent.core.task import split_held_out
from agentdescent.result import mean
from support.chaos import Chance, ChaosWorld, Readable, settings

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.looptime(start=0),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

MERGES, PROPOSALS = set(MergeOutcome), set(ProposalOutcome)


class Trial:
    """One run, all that was told of it, and what it should have come to."""

    def __init__(self, chance, schedule, ledger):
        self.world, self.ledger = ChaosWorld(chance), ledger
        self.options = settings(chance, schedule)
        _, self.held_out = split_held_out(
            self.world.tasks, 0.4, shuffle=self.options.get("shuffle", False)
        )
        least = len(self.held_out) * self.options.get("eval_repeats", 1)
        if self.options.get("max_calls", least) < least:
            self.options["max_calls"] = least
        self.strategy = self.options.get("strategy", AppendRules())
        self.told, self.heads, self.result = [], [], None

    async def run(self, evolve):
        world = self.world
        self.result = await evolve(
            world.tasks,
            world.reward,
            run=world.run,
            propose=world.propose,
            ledger=self.ledger,
            on_event=self.told.append,
            on_round=self._note_head,
            **self.options,
        )

    async def _note_head(self, info):
        self.heads.append((await self.ledger.read())["artifact"].state)

    def worth(self, state):
        """The mean reward of an artifact over the held-out tasks."""
        rendered = self.strategy.render(dict(state))
        return mean([self.world.worth(rendered, task) for task in self.held_out])

    def events(self, kind):
        return [event for event in self.told if isinstance(event, kind)]

    def check(self):
        """What holds also of a run that was cancelled."""
        [ended] = self.events(RunEnded)
        result = ended.result
        assert self.told[-1] is ended
        assert self.result in (None, result)
        assert (self.result is None) == (result.stop_reason == "interrupted")
        assert self.world.under_way == 0
        assert result.stop_reason in set(StopReason)
        assert (result.error is None) == (result.stop_reason != "error")
        assert result.actor_calls == self.world.calls <= self.options.get("max_calls", math.inf)
        assert result.rollouts <= self.options.get("max_rollouts", math.inf)
        assert result.rendered == self.strategy.render(dict(result.state))
        self.check_rewards(result)
        self.check_history(result)
        return result

    def check_rewards(self, result):
        if result.initial_reward is not None:
            assert result.initial_reward == self.worth(self.strategy.initial())
        unknown = any("could not be measured" in warning for warning in result.warnings)
        if result.stop_reason not in ("error", "interrupted") and not unknown:
            assert result.final_reward == self.worth(result.state)

    def check_history(self, result):
        outcomes = result.outcomes()
        assert set(outcomes) <= MERGES | PROPOSALS
        for number, info in enumerate(result.history):
            merges = {name: n for name, n in info.reasons.items() if name in MERGES}
            assert info.round == number
            assert info.committed == merges.get("committed", 0) >= info.fused
            assert info.rejected == sum(merges.values()) - info.committed
            assert info.screened == info.reasons.get("no-gain", 0)
            dropped = info.discarded_stale + info.conflicts_dropped + info.screened
            assert dropped <= info.considered
        for figure in ("elapsed_s", "rollouts", "calls"):
            figures = [getattr(info, figure) for info in result.history]
            assert figures == sorted(figures)

    def check_alone(self):
        """What holds of a run that had its ledger to itself."""
        result = self.check()
        assert result.outcomes().get("committed", 0) == result.version - 1
        for info, head in zip(result.history, self.heads, strict=False):
            if info is not result.history[-1]:
                assert info.held_out_reward == self.worth(head)
                assert info.n_items == len(head)
        return result

    def check_story(self):
        """The events of a run that was not cancelled tell what its result says."""
        result, outcomes = self.result, self.result.outcomes()
        rewards = [event.reward for event in self.events(RolloutFinished)]
        assert sum(reward is not None for reward in rewards) == result.rollouts
        dropped = [event.dropped for event in self.events(ProposalMade) if event.dropped]
        assert sorted(dropped) == sorted(
            name for name, n in outcomes.items() if name in PROPOSALS for _ in range(n)
        )
        merges = [event.report.category for event in self.events(MergeDecided)]
        assert len(merges) == sum(n for name, n in outcomes.items() if name in MERGES)
        assert len(self.events(Committed)) == outcomes.get("committed", 0)
        assert [event.info.round for event in self.events(RoundEnded)] == [
            info.round for info in result.history
        ]


async def interrupted(chance, attempt):
    """Make the attempt; one in four is cancelled on its way, a scope or a bare task."""
    if not chance.of(0.25):
        await attempt()
        return
    seconds = 20 * chance.random.random()
    if chance.of(0.5):
        with anyio.move_on_after(seconds):
            await attempt()
        return
    task = asyncio.ensure_future(attempt())
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None


@pytest.mark.parametrize("seed", range(120))
async def test_of_a_run_alone(evolve_under, schedule, seed):
    chance = Chance(Random(f"{schedule} {seed}"))
    ledger = Readable(delay=chance.among(0, 0, 0.3, 10))
    trial = Trial(chance, schedule, ledger)
    began = anyio.current_time()

    await interrupted(chance, lambda: trial.run(evolve_under))

    result = trial.check_alone()
    stored = (await ledger.read())["artifact"]
    assert (stored.version, stored.state) == (result.version, result.state)
    lasted = anyio.current_time() - began
    assert lasted <= trial.options.get("max_seconds", math.inf) + ledger.delay + 1e-6
    if trial.result is not None:
        trial.check_story()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("seed", range(30))
async def test_of_runs_that_share_a_ledger_with_each_other_and_a_stranger(
    evolve_under, schedule, seed
):
    chance = Chance(Random(f"{schedule} {seed} together"))
    ledger = Readable(delay=chance.among(0, 0.1, 2))
    trials = [Trial(chance, schedule, ledger) for _ in range(2)]
    for trial in trials:
        trial.options.pop("strategy", None)
        trial.strategy = AppendRules()
        trial.options.pop("blast_radius", None)
    foreign = 0

    async def interfere():
        nonlocal foreign
        for number in range(chance.among(0, 1, 4)):
            await anyio.sleep(3 * chance.random.random())
            async with ledger.locked():
                [old] = (await ledger.read()).values()
                state = {**old.state, f"theirs{number}": "noop"}
                entry = Stored(old.artifact_id, state, 0, old.blast_radius, old.contract)
                await ledger.commit(entry, old.version, CommitNote("theirs"))
                foreign += 1

    await ledger.open()
    async with anyio.create_task_group() as group:
        for trial in trials:
            group.start_soon(trial.run, evolve_under)
        group.start_soon(interfere)

    commits = 0
    for trial in trials:
        result = trial.check()
        trial.check_story()
        commits += result.outcomes().get("committed", 0)
    assert (await ledger.read())["artifact"].version == 1 + commits + foreign
