"""Who works on which task, and when: `parallel=`, `task_sampler=`, `max_concurrency=`."""

import anyio
import pytest

from agentdescent import (
    AppendRules,
    DataParallel,
    DifficultyWeighted,
    KeyedRules,
    PipelineParallel,
    RoundRobin,
    TensorParallel,
    WorkUnit,
    evolve,
)
from agentdescent.core.events import RolloutFinished
from agentdescent.ledger import MemoryLedger
from agentdescent.parallel import PipelineChain
from support.pens import agent, reward, tasks

TRAIN = [task.id for task in tasks[:12]]


class Worked:
    """A listener that keeps (worker, task) of every rollout."""

    def __init__(self):
        self.rollouts = []

    def __call__(self, event):
        if isinstance(event, RolloutFinished):
            self.rollouts.append((event.worker, event.task_id))


def test_tasks_are_sharded_by_default():
    by_default, worked = Worked(), Worked()

    evolve(tasks, reward, agent=agent, on_event=by_default, rounds=3)
    evolve(tasks, reward, agent=agent, parallel=DataParallel(), on_event=worked, rounds=3)

    assert worked.rollouts == by_default.rollouts
    assert len(set(worked.rollouts[:4])) == 4


# fmt: off
class Blocks:
    name = "block"
    def plan(self, n_workers, round_index, keys):
        keys = list(keys); size = (len(keys)+n_workers-1)//n_workers  # noqa: E702
        return [WorkUnit(worker=i, keys=keys[i*size:(i+1)*size]) for i in range(n_workers)]
# fmt: on


def test_a_plan_of_your_own_decides_who_works_on_what():
    worked = Worked()

    evolve(tasks, reward, agent=agent, parallel=Blocks(), on_event=worked)

    blocks = {worker: TRAIN[worker * 3 : worker * 3 + 3] for worker in range(4)}
    assert len(worked.rollouts) == 15 * 4
    assert all(task in blocks[worker] for worker, task in worked.rollouts)
    assert {task for _, task in worked.rollouts} == set(TRAIN)


CATS = ["cents", "integers", "no signs", "words"]


def category_of(task_id):
    return CATS[int(task_id) % 4]


class Categorised:
    """Each task wants the rule of one category; a failure names it."""

    def solve(self, rendered, task):
        return rendered

    def propose(self, rendered, task, output, reward):
        return f"{category_of(task.id)}: as it is wanted"


def wanted(task, output):
    return float(f"## {category_of(task.id)}\n" in output)


def test_sections_of_the_artifact_belong_to_one_worker_each():
    agent, worked = Categorised(), Worked()

    result = evolve(tasks, wanted, agent=agent,                                # disjoint sections
       strategy=KeyedRules(categories=CATS),
       parallel=TensorParallel(n_sections=4, route=category_of),
       on_event=worked, rounds=3)  # fmt: skip

    assert result.final_reward == 1.0
    assert sorted(result.state) == CATS
    assert result.outcomes() == {"committed": 1}
    assert {task for _, task in worked.rollouts} == set(TRAIN)
    sections = {
        worker: {category_of(t) for w, t in worked.rollouts if w == worker} for worker in range(4)
    }
    assert all(len(categories) == 1 for categories in sections.values())


def test_proposals_out_of_section_are_rejected_and_counted():
    result = evolve(tasks, wanted, agent=Categorised(),
       strategy=KeyedRules(categories=CATS), parallel=TensorParallel(n_sections=4),
       rounds=1)  # fmt: skip

    assert result.outcomes()["section-violation"] > 0


def test_sections_need_a_strategy_with_a_fixed_key_space():
    with pytest.raises(ValueError, match="strategy=AppendRules declares none"):
        evolve(tasks, reward, agent=agent, strategy=AppendRules(),
               parallel=TensorParallel(n_sections=4))  # fmt: skip


def test_a_pipeline_needs_an_artifact_a_stage_so_passing_it_raises():
    with pytest.raises(ValueError, match="PipelineChain"):
        evolve(tasks, reward, agent=agent, parallel=PipelineParallel(["read", "write"]))


def test_the_order_of_stages_and_whom_to_blame_live_in_a_chain():
    chain = PipelineChain(["read", "plan", "write"])

    assert chain.upstream_of("write") == ["read", "plan"]
    assert chain.blame({"read": True, "plan": False, "write": False}) == "plan"


def test_tasks_are_cycled_through_by_default():
    by_default, worked = Worked(), Worked()
    one_by_one = {"agent": agent, "n_workers": 1, "rounds": 14}

    evolve(tasks, reward, **one_by_one, on_event=by_default)
    evolve(tasks, reward, **one_by_one, task_sampler=RoundRobin(), on_event=worked)

    assert worked.rollouts == by_default.rollouts
    assert [task for _, task in worked.rollouts] == [*TRAIN, *TRAIN[:2]]


def test_the_budget_goes_where_there_is_something_to_learn():
    worked = Worked()
    trials = dict.fromkeys(TRAIN, 0)

    def sometimes(task, output):
        trials[task.id] = trials.get(task.id, 0) + 1
        return {"1": trials["1"] % 2, "2": trials["2"] % 2}.get(task.id, float(int(task.id) % 2))

    evolve(
        tasks,
        sometimes,
        run=lambda rendered, task: rendered,
        propose=lambda *_: None,
        task_sampler=DifficultyWeighted(),  # focus the budget
        on_event=worked,
        n_workers=1,
        rounds=72,
    )

    spent = [task for _, task in worked.rollouts]
    assert set(spent) == set(TRAIN)
    assert spent.count("1") + spent.count("2") > 36
    assert max(spent.count(task) for task in TRAIN[2:]) < 12


@pytest.mark.parametrize(("options", "seconds"), [({}, 8.0), ({"max_concurrency": 4}, 2.0)])
def test_workers_of_a_round_overlap_when_asked_to(virtual_time, options, seconds):
    async def run(rendered, task):
        await anyio.sleep(1)
        return rendered

    async def propose(rendered, task, out, score):
        return None

    async def score(task, output):
        return 0.0

    result = evolve(tasks, score, run=run, propose=propose,
                    n_workers=4, **options, rounds=2, ledger=MemoryLedger())  # fmt: skip

    first_artifact = 1.0
    assert result.wallclock == pytest.approx(first_artifact + seconds)


def test_one_step_of_the_aggregator_is_the_barrier(virtual_time):
    started = []

    async def run(rendered, task):
        started.append(anyio.current_time())
        await anyio.sleep(1 + int(task.id) % 4)
        return rendered

    async def propose(rendered, task, out, score):
        return None

    async def score(task, output):
        return 0.0

    evolve(tasks, score, run=run, propose=propose,
           n_workers=4, max_concurrency=4, rounds=3, ledger=MemoryLedger())  # fmt: skip

    first_artifact, slowest = 4.0, 4.0
    rounds = [first_artifact + index * slowest for index in range(3)]
    assert sorted(set(started[8:])) == rounds
