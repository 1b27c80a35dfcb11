"""Plug-ins that are careless with what they are given, or with what they give."""

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from agentdescent import Aggregator, AggregatorContractError, AppendRules, Diff, PluginError
from agentdescent.core.store import CommitNote
from agentdescent.testing import MemoryLedger
from support.refusals import broken
from support.worlds import World, solved_by

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


SOLVED = solved_by(0, 1, 2, 3)


class Readable(MemoryLedger):
    """A ledger that can still be read when the run has closed it."""

    async def close(self):
        pass


@pytest.fixture
def evolve_world(evolve_under):
    async def attempt(world=None, **options):
        world = world or World()
        return await evolve_under(
            world.tasks, world.reward, run=world.run, propose=world.propose, **options
        )

    return attempt


class AsDocument(AppendRules):
    """Takes the state for the plain dict that it is."""

    def render(self, state):
        assert isinstance(state, dict)
        copy.deepcopy(state)
        return super().render(json.loads(json.dumps(state)))

    def to_diff(self, state, *args):
        assert isinstance(state, dict)
        return super().to_diff(copy.deepcopy(state), *args)


async def test_a_strategy_may_treat_the_state_as_a_plain_dict(evolve_world):
    result = await evolve_world(strategy=AsDocument())

    assert result.final_reward == 1.0


class InPlace(AppendRules):
    """Edits the state that it is shown, besides saying what to edit."""

    def render(self, state):
        text = super().render(state)
        state["junk"] = "left by render"
        return text

    def to_diff(self, state, *args):
        diff = super().to_diff(state, *args)
        state.update(diff.ops if diff else {})
        return diff


async def test_what_a_strategy_does_to_the_state_it_is_shown_has_no_effect(evolve_world):
    ledger, first = Readable(), {"r": "rule0"}

    result = await evolve_world(strategy=InPlace(), ledger=ledger, initial_state=first)

    assert first == {"r": "rule0"}
    assert result.final_reward == 1.0
    assert sorted(result.state.values()) == ["rule0", "rule1", "rule2", "rule3"]
    assert (await ledger.read())["artifact"].state == result.state


@pytest.mark.parametrize("self_verify", [True, False])
async def test_a_diff_whose_keys_are_no_text_breaks_the_strategy(evolve_world, self_verify):
    class Numbered(AppendRules):
        def to_diff(self, state, proposal, author, base_version, target):
            return Diff(f"{author}:{base_version}", target, {7: proposal}, author=author)

    error = await broken(PluginError, evolve_world(strategy=Numbered(), self_verify=self_verify))

    assert "strategy.to_diff must return a Diff whose keys are text, got int 7" in str(error)


async def test_reports_that_only_look_like_reports_are_refused(evolve_world):
    class Lookalikes(Aggregator):
        async def step(self):
            return [SimpleNamespace(committed_version=None)]

    error = await broken(AggregatorContractError, evolve_world(aggregator_factory=Lookalikes))

    assert "step must return a list of MergeReport, got list" in str(error)


async def test_attributes_with_the_names_of_optional_methods_are_no_methods(evolve_world):
    class Own:
        def __init__(self, ledger, verifier, audit, config, staleness_policy):
            self.pending, self.flush, self.finalize = [], False, None

        async def ingest(self, card):
            self.pending.append(card)

        async def step(self):
            self.pending.clear()
            return []

    result = await evolve_world(aggregator_factory=Own, stop_when_solved=True)

    assert result.error is None
    assert result.rollouts == 24


@pytest.mark.parametrize("value", [None, [], "none"])
async def test_a_count_of_pending_cards_that_is_no_number_is_refused(evolve_world, value):
    class Own(Aggregator):
        def pending(self):
            return value

    error = await broken(
        AggregatorContractError,
        evolve_world(aggregator_factory=Own, stop_when_solved=True, initial_state=SOLVED),
    )

    assert str(error).startswith("pending must be a plain function that returns how many cards ")


async def test_a_count_of_pending_cards_that_raises_breaks_the_aggregator(evolve_world):
    class Own(Aggregator):
        def pending(self):
            raise LookupError("no such bucket")

    error = await broken(
        PluginError,
        evolve_world(aggregator_factory=Own, stop_when_solved=True, initial_state=SOLVED),
    )

    assert str(error).startswith("aggregator failed in ")
    assert isinstance(error.__cause__, LookupError)


async def test_commits_of_a_step_that_never_reported_them_are_counted_one_by_one(evolve_world):
    class Hasty(Aggregator):
        async def step(self):
            for name in ("rule0", "rule1") if self.ledger.artifact.version == 1 else ():
                head = self.ledger.artifact
                edit = Diff("hasty", head.id, {name: name})
                await self.ledger.commit(head.apply(edit), {head.id: head.version})
            raise ConnectionError("no answer")

        async def flush(self):
            return []

    result = await evolve_world(aggregator_factory=Hasty, rounds=1)

    assert result.version == 3
    assert result.outcomes()["committed"] == 2


async def test_a_foreign_commit_that_a_failing_step_came_upon_is_not_counted(evolve_world):
    ledger = Readable()

    class Curious(Aggregator):
        async def step(self):
            [stored] = (await ledger.read()).values()
            if stored.version == 1:
                entry = replace(stored, state={"r": "theirs"})
                await ledger.commit(entry, 1, CommitNote("theirs"))
            await self.ledger.refresh()
            raise ConnectionError("no answer")

        async def flush(self):
            return []

    result = await evolve_world(aggregator_factory=Curious, rounds=1, ledger=ledger)

    assert result.version == 2
    assert "committed" not in result.outcomes()


async def test_a_ledger_that_cannot_tell_its_log_costs_the_log_alone(evolve_world):
    class Forgetful(MemoryLedger):
        async def log(self, branch="dev", limit=20):
            raise ConnectionError("no answer")

    result = await evolve_world(ledger=Forgetful())

    assert result.ledger_log == []
    assert (result.error, result.final_reward) == (None, 1.0)
