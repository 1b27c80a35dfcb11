"""Two rewards for one artifact: a cheap one that ranks, and the one that decides."""

import pytest

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.reply import Reply
from agentdescent.core.scored import Scored
from agentdescent.errors import RewardContractError
from agentdescent.evaluate import measure
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import Sweep
from agentdescent.evaluate.verifier import Verifier
from support.lab import Lab, tasks_named

ABC = tasks_named("abc")


class Twice(Lab):
    """A lab with a cheap reward: half of what the reward says."""

    def __init__(self, **options):
        super().__init__(**options)
        self.scored = []

    async def reward(self, task, output, leash=None):
        self.scored.append(("full", task.id))
        return await super().reward(task, output)

    async def cheap(self, task, output, leash=None):
        self.scored.append(("cheap", task.id))
        return await super().reward(task, output) / 2

    def pool(self, **options):
        return super().pool(cheap=(self.cheap, Memo(self.run, self.cheap)), **options)


@pytest.mark.asyncio
async def test_an_output_is_run_once_and_scored_by_both():
    lab = Twice()
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC, cheap=True) == [0.5, 0.5, 0.5]
        assert await pool.values("x", ABC) == [1.0, 1.0, 1.0]
        assert await pool.values("x", ABC, cheap=True) == [0.5, 0.5, 0.5]
    assert sorted(lab.calls) == ["a", "b", "c"]
    assert sorted(lab.scored) == [(kind, name) for kind in ("cheap", "full") for name in "abc"]
    assert (pool.cache_misses, pool.cache_hits) == (6, 3)


@pytest.mark.asyncio
async def test_it_does_not_matter_which_reward_comes_first():
    lab = Twice()
    async with lab.pool(repeats=2).open() as pool:
        assert await pool.values("x", ABC[:1]) == [1.0]
        assert await pool.values("x", ABC[:1], cheap=True) == [0.5]
    assert lab.calls == ["a", "a"]


@pytest.mark.asyncio
async def test_a_cheap_reward_is_no_reward():
    lab = Twice()
    async with lab.pool().open() as pool:
        await pool.values("x", ABC, cheap=True)

    assert pool.known("x", ABC) is None


@pytest.mark.asyncio
async def test_fresh_measurements_are_run_anew():
    lab = Twice()
    values = [0.0]
    async with lab.pool().open() as pool:
        await pool.values("x", ABC[:1], cheap=True)
        with Sweep(pool, values.__setitem__) as sweep:
            sweep.ask("x", ABC[:1], fresh=1)
            await sweep.finished()
    assert lab.calls == ["a", "a"]


@pytest.mark.asyncio
async def test_half_an_answer_is_nothing_to_both():
    lab = Twice()

    async def cut(rendered, task, leash=None):
        return Reply(rendered, cut=True)

    async with lab.pool(run=cut).open() as pool:
        assert await pool.values("x", ABC[:1], cheap=True) == [0.0]
        assert await pool.values("x", ABC[:1]) == [0.0]
    assert lab.scored == []


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_reward_that_fails_is_asked_again_about_the_same_output():
    lab = Twice()
    lab.rewards = {("x", "a"): [0.5, "?", 1.0]}
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC[:1], cheap=True) == [0.25]
        with pytest.raises(RewardContractError):
            await pool.values("x", ABC[:1])
        assert await pool.values("x", ABC[:1]) == [1.0]
    assert lab.calls == ["a"]


@pytest.mark.asyncio
async def test_outputs_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(measure, "OUTPUTS_KEPT", 2)
    lab = Twice()
    async with lab.pool(width=1).open() as pool:
        await pool.values("x", ABC, cheap=True)
        await pool.values("x", ABC[::-1])
    assert lab.calls == ["a", "b", "c", "a"]


@pytest.mark.asyncio
async def test_the_head_is_kept_by_both():
    class Head:
        rendered = "head"

    lab = Twice()
    pool = lab.pool()
    pool.follow_head(Head())

    assert pool.memo._pinned == pool.cheap.memo._pinned != b""


@pytest.mark.asyncio
async def test_listeners_can_tell_the_two_apart():
    events = []
    lab = Twice()
    async with lab.pool(emit=events.append).open() as pool:
        await pool.values("x", ABC[:1], cheap=True)
        await pool.values("x", ABC[:1])

    assert [(event.reward, event.cheap) for event in events] == [(0.5, True), (1.0, False)]


class Text:
    def initial(self):
        return {}

    def render(self, state):
        return state["text"]

    def to_diff(self, *_):
        return None


@pytest.mark.asyncio
async def test_rivals_are_ranked_by_the_cheap_reward_and_gated_by_the_other():
    lab = Twice()
    head, candidate = (EvolvingArtifact("s", {"text": t}, strategy=Text()) for t in "xy")
    lab.rewards = {("x", name): 0.0 for name in "abc"}
    async with lab.pool().open() as pool:
        verifier = Verifier(pool, ABC, cheap_tasks=2, oracle_budget=1)
        assert await verifier.cheap_total(candidate) == 1.0
        assert await verifier.cheap_eval(candidate) == 0.5
        assert await verifier.oracle_eval(candidate) == 1.0
        assert await verifier.oracle_eval(candidate) == 0.5
        verdict = await verifier.gate(head, candidate, 0.5)
    assert (verdict.before, verdict.after, verdict.accepted) == (0.0, 1.0, True)
    assert len([kind for kind, _ in lab.scored if kind == "cheap"]) == 2
    assert lab.count("a") == 2


@pytest.mark.asyncio
async def test_parts_are_kept_beside_the_value():
    lab = Lab()
    lab.rewards = {("x", "a"): Scored(0.5, "", {"depth": 1}), ("x", "b"): Scored(0.25)}
    async with lab.pool().open() as pool:
        assert await pool.values("x", ABC[:2]) == [0.5, 0.25]

    assert pool.memo.parts("x", ABC) == {"depth": 1.0}


@pytest.mark.asyncio
async def test_a_part_that_is_no_number_is_a_contract_error():
    lab = Lab(default=Scored(0.5, "", {"depth": "deep"}))
    async with lab.pool().open() as pool:
        with pytest.raises(RewardContractError, match="'depth'"):
            await pool.values("x", ABC[:1])
