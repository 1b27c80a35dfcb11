"""Sections in a run: what a worker may edit, what is dropped, and what is counted."""

import pytest

from agentdescent import (
    ClusterParallel,
    Diff,
    KeyedRules,
    Task,
    TensorParallel,
    WorkUnit,
    async_evolve,
)
from agentdescent.core.events import ProposalMade, RolloutFinished
from agentdescent.ledger import MemoryLedger

CATS = ["route", "fmt", "tone", "unit"]


class Config:
    """Each task wants the rule of one category, and says so where it fails."""

    def __init__(self, copies=6):
        self.tasks = [
            Task(f"{category}-{copy}", "", {"wants": category})
            for copy in range(copies)
            for category in CATS
        ]

    async def run(self, rendered, task):
        return rendered

    async def reward(self, task, output):
        return float(f"## {task.meta['wants']}\n" in output)

    async def propose(self, rendered, task, output, reward):
        return f"{task.meta['wants']}: do it right"


def category_of(task_id):
    return task_id.split("-")[0]


class Heard:
    """A listener that keeps rollouts and proposals."""

    def __init__(self):
        self.rollouts, self.proposals = [], []

    def __call__(self, event):
        if isinstance(event, RolloutFinished):
            self.rollouts.append((event.worker, event.task_id))
        if isinstance(event, ProposalMade):
            self.proposals.append(event)


async def learn(parallel, world=None, **options):
    world = world or Config()
    heard = Heard()
    options = {"rounds": 4, "strategy": KeyedRules(categories=CATS), **options}
    result = await async_evolve(
        world.tasks,
        world.reward,
        run=world.run,
        propose=options.pop("propose", world.propose),
        parallel=parallel,
        asynchronous=False,
        on_event=heard,
        ledger=MemoryLedger(),
        **options,
    )
    return result, heard


@pytest.mark.asyncio
async def test_with_a_route_nobody_strays_and_every_task_is_worked_on():
    result, heard = await learn(TensorParallel(n_sections=4, route=category_of), rounds=6)

    train = {task.id for task in Config().tasks[:14]}
    assert result.final_reward == 1.0
    assert "section-violation" not in result.outcomes()
    assert {task for _, task in heard.rollouts} == train
    assert all(len({w for w, t in heard.rollouts if category_of(t) == c}) == 1 for c in CATS)


@pytest.mark.asyncio
async def test_without_a_route_violations_are_counted_and_visible():
    result, heard = await learn(TensorParallel(n_sections=4), rounds=1)

    made = len(heard.proposals)
    strayed = [event for event in heard.proposals if event.dropped == "section-violation"]
    assert made == 4
    assert len(strayed) == result.outcomes()["section-violation"] == 2
    assert result.history[0].reasons["section-violation"] == 2
    assert strayed[0].reason == "route may not be edited here; these may: fmt"


@pytest.mark.asyncio
async def test_without_a_route_everything_is_learned_all_the_same():
    result, _ = await learn(TensorParallel(n_sections=4), rounds=12)

    assert result.final_reward == 1.0
    assert result.outcomes()["section-violation"] > 0


@pytest.mark.asyncio
async def test_no_two_co_owners_work_on_one_task_in_a_round():
    plan = TensorParallel(n_sections=2, route=category_of)
    result, heard = await learn(plan, Config(copies=10), n_workers=8, rounds=5)

    rounds = [heard.rollouts[first : first + 8] for first in range(0, 40, 8)]
    assert all(len({task for _, task in one}) == 8 for one in rounds)
    assert len({task for _, task in heard.rollouts}) == 24
    assert result.final_reward == 1.0


@pytest.mark.asyncio
async def test_fewer_workers_than_sections_come_to_every_task():
    plan = TensorParallel(n_sections=4, route=category_of)
    result, heard = await learn(plan, n_workers=3, rounds=8)

    assert {task for _, task in heard.rollouts} == {task.id for task in Config().tasks[:14]}
    assert result.final_reward == 1.0


class Everything(KeyedRules):
    """A proposal `a, b: rule` sets several categories."""

    def to_diff(self, state, proposal, author, base_version, target, /):
        names, rule = proposal.split(": ")
        ops = dict.fromkeys(names.split(", "), rule)
        return Diff("d", target, ops, author=author)


@pytest.mark.asyncio
async def test_of_a_mixed_edit_what_lies_in_the_section_is_kept_and_one_violation_counted():
    async def propose(rendered, task, output, reward):
        return f"{task.meta['wants']}, elsewhere, {'fmt' if reward else 'unit'}: do it right"

    result, heard = await learn(
        TensorParallel(n_sections=4, route=category_of),
        propose=propose,
        strategy=Everything(categories=CATS),
        rounds=1,
    )

    assert sorted(result.state) == ["fmt", "route", "tone", "unit"]
    assert result.outcomes() == {"committed": 1, "section-violation": 4}
    reasons = [event.reason for event in heard.proposals]
    assert "elsewhere, unit may not be edited here; these may: fmt" in reasons
    assert all(event.dropped == "" for event in heard.proposals)


@pytest.mark.asyncio
async def test_what_is_left_of_a_mixed_edit_may_be_nothing_new():
    async def propose(rendered, task, output, reward):
        return f"{task.meta['wants']}, elsewhere: rule"

    async def never(task, output):
        return 0.0

    world = Config()
    world.reward = never
    result, _ = await learn(
        TensorParallel(n_sections=4, route=category_of),
        world,
        propose=propose,
        strategy=Everything(categories=CATS),
        initial_state=dict.fromkeys(CATS, "rule"),
        rounds=1,
    )

    assert result.outcomes() == {"no-op": 4, "section-violation": 4}


@pytest.mark.asyncio
async def test_tasks_that_are_routed_nowhere_are_warned_of():
    route = {f"tone-{copy}": "zzz" for copy in range(6)}

    with pytest.warns(RuntimeWarning, match=r"3 of 14 .* routed to none of the keys 'route'"):
        result, heard = await learn(
            TensorParallel(4, route=lambda name: route.get(name, category_of(name)))
        )

    assert not any(task.startswith("tone") for _, task in heard.rollouts)
    assert set(result.state) == {"route", "fmt", "unit"}


@pytest.mark.asyncio
async def test_a_plan_of_ones_own_may_have_sections():
    class Mine:
        name = "mine"
        section_map = {"route": 0, "fmt": 1, "tone": 0, "unit": 1}  # noqa: RUF012 - of a test

        def plan(self, n_workers, round_index, keys):
            return [WorkUnit(worker, keys, section=worker % 2) for worker in range(n_workers)]

    result, _ = await learn(Mine(), rounds=1)

    assert result.outcomes()["section-violation"] == 2
    assert list(result.state) == ["route"]


@pytest.mark.asyncio
async def test_barrier_free_a_plan_means_nothing_and_is_not_even_looked_at():
    world = Config()
    with pytest.warns(RuntimeWarning, match="ignores parallel="):
        result = await async_evolve(
            world.tasks,
            world.reward,
            run=world.run,
            propose=world.propose,
            parallel=TensorParallel(9),
            max_iters=20,
            max_seconds=60,
            ledger=MemoryLedger(),
        )

    assert result.error is None
    assert "section-violation" not in result.outcomes()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "plan",
    [
        lambda: TensorParallel(n_sections=3, route=category_of),
        lambda: ClusterParallel(category_of),
    ],
)
async def test_a_run_is_the_same_at_every_width(plan):
    def essence(learned):
        result, heard = learned
        return sorted(heard.rollouts), result.state, result.outcomes(), result.ledger_log

    runs = [
        essence(await learn(plan(), rounds=6, n_workers=4, max_concurrency=width))
        for width in (1, 3, 4)
    ]

    assert runs[0] == runs[1] == runs[2]


@pytest.mark.asyncio
async def test_clusters_that_teach_are_worked_on_more():
    class Lopsided(Config):
        async def reward(self, task, output):
            return float(not task.id.startswith("tone"))

    _, heard = await learn(
        ClusterParallel(category_of, c=0.1),
        Lopsided(),
        propose=lambda *_: None,
        n_workers=1,
        rounds=40,
    )

    spent = [category_of(task) for _, task in heard.rollouts]
    assert set(spent) == {*CATS}
    assert spent.count("tone") > 12


@pytest.mark.asyncio
async def test_a_cluster_plan_learns_the_threshold_of_the_run():
    plan = ClusterParallel(category_of)
    world = Config()

    async def half(task, output):
        return 0.5

    world.reward = half
    await learn(plan, world, rounds=1, solved_threshold=0.4)

    assert all(cluster["pass_rate"] > 0.5 for cluster in plan.dump().values())
