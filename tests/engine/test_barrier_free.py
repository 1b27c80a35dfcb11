"""Without barriers: defaults that lose no evidence, and warnings for what means something else."""

import math
import warnings

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
from agentdescent.core.events import Committed, RolloutFinished
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
