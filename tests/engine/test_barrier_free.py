"""Without barriers: defaults that lose no evidence, and warnings for what means something else."""

import math
import warnings
from dataclasses import dataclass, field

import anyio
import pytest

from agentdescent import (
    DataParallel,
    RoundRobin,
    SingleSlot,
    Task,
    async_evolve,
    evolve,
    get_policy,
)
from agentdescent.core.events import Committed, MergeDecided, ProposalMade, RolloutFinished
from agentdescent.engine.barrier_free import PATIENCE
from agentdescent.ledger import MemoryLedger
from support.router import RouterWorld
from support.toy import HiddenRules

SEEDS = range(10)


async def route(seed, n_workers, **options):
    world = RouterWorld(seed=seed, clusters=24)  # at least one for every worker
    return await async_evolve(
        **world.parts,
        n_workers=n_workers,
        target_reward=0.98,
        ledger=MemoryLedger(),
        **options,
    )


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("n_workers", [4, 8, 16])
async def test_the_router_reaches_its_target_on_every_seed_with_hardly_a_stale_card(n_workers):
    results = [await route(seed, n_workers) for seed in SEEDS]

    assert [result.stop_reason for result in results] == ["target_reward"] * len(SEEDS)
    discarded = sum(result.stale_discarded for result in results)
    assert discarded < 0.10 * sum(result.stale_considered for result in results)


class OnePrompt(HiddenRules):
    """A single prompt must come to name every rule; each proposal rewrites all of it."""

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        await anyio.sleep(self.run_s)
        return f"{rendered}\n- {task.meta['rule']}"


async def rewrite(seed, **options):
    world = OnePrompt(rules=5, per_rule=8, run_s=0.05)
    return await async_evolve(
        **world.parts,
        strategy=SingleSlot("Follow these rules:"),
        shuffle=True,
        seed=seed,
        target_reward=1.0,
        ledger=MemoryLedger(),
        **options,
    )


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_single_slot_converges_on_every_seed_though_lag_is_real():
    results = [
        await rewrite(seed, async_ratio=1, staleness_policy=get_policy("guarded")) for seed in SEEDS
    ]

    assert [result.stop_reason for result in results] == ["target_reward"] * len(SEEDS)
    assert sum(result.stale_considered for result in results) > 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_stale_share_of_a_single_slot_is_known_for_every_async_ratio(capsys):
    shares = {}
    for ratio in range(9):
        results = [await rewrite(seed, async_ratio=ratio) for seed in range(3)]
        seen = sum(result.stale_considered for result in results)
        shares[ratio] = round(sum(result.stale_discarded for result in results) / seen, 2)

    with capsys.disabled():
        print("\nstale share by async_ratio:", shares)
    assert all(0.0 <= share < 1.0 for share in shares.values())


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_run_that_mostly_discards_its_evidence_says_what_to_turn():
    class DiscardAll:
        name = "discard-all"

        def decide(self, eta, alpha, contract_breaking):
            return "discard"

    world = HiddenRules(run_s=0.1)
    with pytest.warns(RuntimeWarning, match="discarded as stale; lower async_ratio"):
        result = await async_evolve(
            **world.parts,
            max_iters=30,
            staleness_policy=DiscardAll(),
            ledger=MemoryLedger(),
        )

    assert (result.stale_rate(), result.version) == (1.0, 1)
    assert result.outcomes() == {"all-stale": len(result.history)}


class AlwaysTheFirst:
    def pick(self, keys, round_index):
        return keys[0]

    def record(self, task_id, score):
        pass


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize(
    ("n_workers", "sampler"), [(1, RoundRobin()), (1, AlwaysTheFirst()), (2, None)]
)
async def test_a_task_is_not_rolled_out_again_while_its_diff_is_not_judged(n_workers, sampler):
    world = HiddenRules(rules=2, per_rule=4, run_s=1.0)
    events = []

    await async_evolve(
        **world.parts,
        held_out_frac=0.75,
        n_workers=n_workers,
        task_sampler=sampler,
        eval_concurrency=1,  # a merge takes six seconds
        target_reward=1.0,
        max_seconds=math.inf,
        on_event=events.append,
        ledger=MemoryLedger(),
    )

    kinds = [type(event) for event in events]
    before = events[: kinds.index(Committed)]
    rolled_out = [event.task_id for event in before if isinstance(event, RolloutFinished)]
    assert sorted(rolled_out) == ["t0-0", "t0-1"]


async def solved_rollouts(eval_concurrency):
    """When a task that the head solves was rolled out: until the first proposal, until its merge.

    One second each; a merge takes seven seconds' work.
    """
    world = HiddenRules(rules=2, per_rule=4, run_s=1.0)
    events = []

    await async_evolve(
        **world.parts,
        initial_state={"known": "rule1"},
        held_out_frac=0.75,
        n_workers=2,
        eval_concurrency=eval_concurrency,
        target_reward=1.0,
        max_seconds=math.inf,
        on_event=events.append,
        ledger=MemoryLedger(),
    )

    kinds = [type(event) for event in events]
    proposed, committed = events[kinds.index(ProposalMade)], events[kinds.index(Committed)]
    ends = [e.at for e in events if isinstance(e, RolloutFinished) and e.task_id == "t0-1"]
    return (
        [at - proposed.at for at in ends if at <= proposed.at],
        [at - proposed.at for at in ends if proposed.at < at <= committed.at],
        committed.at - proposed.at,
    )


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_what_the_head_solves_is_not_rolled_out_again_while_a_diff_is_not_judged():
    before, meanwhile, merge = await solved_rollouts(eval_concurrency=2)

    assert before == [-1.0, 0.0]
    assert meanwhile == []
    assert 3.0 < merge <= 5.0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_merge_is_waited_for_no_longer_than_six_rollouts_take():
    _, meanwhile, merge = await solved_rollouts(eval_concurrency=1)

    assert meanwhile == [PATIENCE + 1.0]
    assert merge == 7.0


@dataclass
class Paced(HiddenRules):
    """Each task takes a time of its own."""

    seconds: dict[str, float] = field(default_factory=dict)

    async def run(self, rendered: str, task: Task) -> str:
        await anyio.sleep(self.seconds.get(task.id, 0.0))
        return rendered


async def first_merge(**seconds):
    """When the first merge of five workers, with a task each, was decided, and of how many diffs.

    Only training tasks take any time: to roll one out, to try its diff, and to try all together.
    """
    world = Paced(rules=5, per_rule=2)
    world.seconds = {f"t0-{place}": took for place, took in enumerate(seconds.values())}
    merges = []
    await async_evolve(
        **world.parts,
        held_out_frac=0.5,
        n_workers=5,
        eval_concurrency=10,
        target_reward=1.0,
        max_seconds=1000.0,
        on_event=lambda event: merges.append(event) if isinstance(event, MergeDecided) else None,
        ledger=MemoryLedger(),
    )
    return merges[0].at, merges[0].report.considered


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_merge_waits_until_half_of_the_crew_has_reported():
    assert await first_merge(a=10.0, b=11.0, c=12.0, d=13.0, e=14.0) == (24.0 + 12.0, 3)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_merge_waits_no_longer_than_its_first_diff_took_to_run():
    assert await first_merge(a=1.0, b=1.25, c=400.0, d=400.0, e=400.0) == (3.0 + 1.25, 2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"max_seconds": 1.0, "max_iters": 4}, []),
        ({"max_iters": 4}, ["max_seconds=None becomes 20.0 seconds"]),
        ({"max_seconds": 1.0, "rounds": 2}, ["reinterpreted as a budget of 8 rollouts"]),
        ({"max_seconds": 1.0, "rounds": 2, "max_rollouts": 4}, []),
        ({"max_seconds": 1.0, "max_iters": 4, "max_concurrency": 4}, ["ignores max_concurrency="]),
        ({"max_seconds": 1.0, "max_iters": 4, "round_timeout": 9}, ["ignores round_timeout="]),
        (
            {"max_seconds": 1.0, "max_iters": 4, "refresh_interval": 2},
            ["ignores refresh_interval="],
        ),
        ({"max_seconds": math.inf, "max_iters": 4, "parallel": "DP"}, ["ignores parallel="]),
    ],
)
def test_a_script_is_warned_about_exactly_what_means_something_else(arguments, expected):
    world = HiddenRules()
    if "parallel" in arguments:
        arguments = {**arguments, "parallel": DataParallel()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evolve(
            **world.parts,
            asynchronous=True,
            ledger=MemoryLedger(),
            **arguments,
        )

    messages = [str(warning.message) for warning in caught]
    assert len(messages) == len(expected)
    assert all(part in message for part, message in zip(expected, messages, strict=True))
    assert result.warnings == messages
