"""Rollouts that expose their turns: cut at the deadline, gone on with later, never lost."""

import json
import math

import anyio
import pytest

from agentdescent import DifficultyWeighted, RoundRobin, Turn, async_evolve
from agentdescent.core.events import RolloutFinished
from agentdescent.engine.barrier_free import BarrierFree
from agentdescent.engine.head import Head
from agentdescent.engine.messages import Snapshot
from agentdescent.engine.schedule import Picker
from agentdescent.errors import ContractError
from agentdescent.ledger import MemoryLedger
from agentdescent.scheduling import ResumeItem, ResumeQueue
from support.toy import HiddenRules

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(start=0)]


class Talkative(HiddenRules):
    """Every rollout takes `turns` turns of a second; `long` tasks take `more`."""

    def __init__(self, turns=1, long=(), more=5, **options):
        super().__init__(rules=2, per_rule=6, **options)
        self.turns, self.long, self.more = turns, long, more
        self.began, self.closed = [], []

    async def run(self, rendered, task, resume=None):
        said = [] if resume is None else resume
        self.began.append((task.id, len(said), anyio.current_time()))
        try:
            while len(said) < (self.more if task.id in self.long else self.turns):
                await anyio.sleep(1)
                said.append(f"turn {len(said)}")
                yield Turn(said)
            yield Turn(output=rendered)
        finally:
            self.closed.append((task.id, anyio.current_time()))

    def attempts(self, name):
        return [(n_said, at) for task, n_said, at in self.began if task == name]


async def in_rounds(world, **options):
    options = {"n_workers": 2, "max_concurrency": 2, "self_verify": False, **options}
    return await async_evolve(**world.parts, asynchronous=False, ledger=MemoryLedger(), **options)


async def test_one_that_is_in_time_is_an_ordinary_rollout(looptime):
    world = Talkative(turns=3)

    result = await in_rounds(world, rounds=2)

    seed_s, rounds_s, gate_s = 3, 6, 3
    assert looptime == seed_s + rounds_s + gate_s
    assert result.final_reward == 1.0
    assert (result.stragglers, result.abandoned, result.failed_rollouts) == (0, 0, 0)


async def test_a_straggler_is_cut_at_the_deadline_and_goes_on_where_it_was(looptime):
    world = Talkative(long=["t0-0"], more=5)

    result = await in_rounds(world, rounds=4, n_workers=1, round_timeout=2.5)

    seed_s, deadline_s = 1, 2.5
    first, second, third = world.attempts("t0-0")[:3]
    assert first == (0, seed_s)
    assert second == (2, seed_s + deadline_s)
    assert third[0] == 4
    assert result.stragglers == 2
    assert (result.abandoned, result.failed_rollouts) == (0, 0)
    assert [info.rollouts for info in result.history] == [0, 0, 1, 2]
    assert result.error is None


async def test_what_it_comes_to_counts_for_the_version_it_ended_with():
    world, versions = Talkative(long=["t0-0"], more=4), {}

    def hear(event):
        if isinstance(event, RolloutFinished) and event.reward is not None:
            versions.setdefault(event.task_id, event.version)

    await in_rounds(world, rounds=3, round_timeout=2.5, refresh_interval=3, on_event=hear)

    assert versions["t0-1"] == 1
    assert versions["t0-0"] == 2


async def test_whoever_has_the_task_next_goes_on_with_it():
    world, workers = Talkative(long=["t0-0"], more=4), []

    def hear(event):
        if isinstance(event, RolloutFinished) and event.task_id == "t0-0":
            workers.append((event.worker, event.reward))

    await in_rounds(world, rounds=2, round_timeout=2.5, on_event=hear)

    assert workers == [(0, None), (1, 0.0)]


async def test_rollouts_that_take_several_rounds_are_no_dead_backend():
    world = Talkative(turns=10)

    result = await in_rounds(world, rounds=8, round_timeout=2.5, max_worker_errors=2)

    assert result.error is None
    assert result.rollouts >= 2
    assert world.attempts("t0-0")[0][0] == 0


async def test_one_that_makes_no_turn_in_time_begins_again_and_counts_as_abandoned():
    class Stuck(Talkative):
        async def run(self, rendered, task, resume=None):
            if task.id in self.long:
                self.began.append((task.id, resume, anyio.current_time()))
                await anyio.sleep(100)
            yield Turn(output=rendered)

    world = Stuck(long=["t0-0"])

    result = await in_rounds(world, rounds=1, round_timeout=2.5)

    assert result.abandoned == 1
    assert result.stragglers == 0


async def test_a_sampler_is_not_told_of_what_goes_on_later():
    sampler = DifficultyWeighted()
    world = Talkative(long=["t0-0"], more=4)

    await in_rounds(world, rounds=2, n_workers=1, round_timeout=2.5, task_sampler=sampler)

    assert sampler.stats()["t0-0"] == (0.0, 1.0)
    assert sampler.dump()["lost"] == {}


async def test_every_go_is_a_call_and_only_the_last_a_rollout():
    world = Talkative(long=["t0-0"], more=4)

    result = await in_rounds(world, rounds=2, n_workers=1, round_timeout=2.5)

    held_out, goes, proposals = 5, 2, 1
    gate = held_out
    assert result.actor_calls == held_out + goes + proposals + gate
    assert result.rollouts == 1


async def test_a_spent_budget_keeps_what_was_cut():
    world = Talkative(long=["t0-0", "t0-1"], more=4)

    result = await in_rounds(world, rounds=9, round_timeout=2.5, max_rollouts=1)

    assert result.stop_reason == "max_rollouts"
    assert result.rollouts == 1


async def test_without_a_deadline_no_round_cuts_anybody():
    world = Talkative(long=["t0-0"], more=500)

    result = await in_rounds(world, rounds=8)

    assert result.stragglers == 0
    assert world.attempts("t0-0")
    assert all(n_said == 0 for _, n_said, _ in world.began)


async def test_held_out_tasks_are_never_cut(looptime):
    world = Talkative(turns=30)

    result = await async_evolve(
        **world.parts, asynchronous=False, rounds=1, round_timeout=2, ledger=MemoryLedger()
    )

    assert result.initial_reward == 0.0
    assert looptime == 30 + 2


async def barrier_free(world, **options):
    options = {"n_workers": 1, "self_verify": False, "max_seconds": math.inf, **options}
    return await async_evolve(**world.parts, ledger=MemoryLedger(), **options)


async def test_without_barriers_one_that_is_overdue_is_cut_and_another_comes_in_between():
    class Once(Talkative):
        async def propose(self, rendered, task, output, reward):
            return None

    world = Once(long=["t2-1"], more=7)
    order = []

    class Inner:
        def pick(self, keys, serial):
            order.append("t2-1" if serial == 12 else keys[serial % 4])
            return order[-1]

        def record(self, task_id, score):
            pass

    result = await barrier_free(world, max_iters=20, task_sampler=Inner())

    began = [(task, n_said) for task, n_said, _ in world.began if task in order]
    cut = began.index(("t2-1", 0))
    assert began[cut + 1][0] != "t2-1"
    assert began[cut + 2] == ("t2-1", 3)
    assert result.stragglers == 2
    assert result.error is None


async def test_a_pick_of_what_was_cut_goes_on_with_it():
    class Alone(Talkative):
        async def propose(self, rendered, task, output, reward):
            return None

    world = Alone(long=["t2-1"], more=7)

    class Stubborn:
        def pick(self, keys, serial):
            return "t0-0" if serial < 12 else "t2-1"

        def record(self, task_id, score):
            pass

    await barrier_free(world, max_iters=13, task_sampler=Stubborn())

    assert [n_said for n_said, _ in world.attempts("t2-1")] == [0, 3, 6]


async def test_ordinary_callables_are_never_cut_but_counted():
    class Slow(HiddenRules):
        async def run(self, rendered, task):
            await anyio.sleep(50 if task.id == "t0-3" and len(self.calls) > 20 else 1)
            self.calls.append(task.id)
            return rendered

        async def propose(self, rendered, task, output, reward):
            return None

    world = Slow()

    result = await async_evolve(
        **world.parts, asynchronous=False, rounds=30, n_workers=1, ledger=MemoryLedger()
    )

    assert result.stragglers == 1
    assert result.rollouts == 30


@pytest.mark.parametrize(
    ("yields", "message"),
    [
        (["text"], "run yielded 'text' for task"),
        ([], "run ended for task"),
        ([Turn({1, 2}), Turn(output="")], "the state that run yielded for task .* is no JSON"),
    ],
)
async def test_broken_turns_end_the_run(yields, message):
    world = HiddenRules()
    held_out = {task.id for task in world.tasks[14:]}

    async def run(rendered, task, resume=None):
        for turn in [Turn(output="")] if task.id in held_out else yields:
            yield turn

    with pytest.raises(ContractError, match=message):
        await async_evolve(
            world.tasks,
            world.reward,
            run=run,
            propose=world.propose,
            asynchronous=False,
            rounds=1,
            ledger=MemoryLedger(),
        )


async def test_a_turn_that_fails_is_a_failed_rollout():
    class Failing(Talkative):
        async def run(self, rendered, task, resume=None):
            yield Turn([])
            if task.id == "t0-0":
                raise ConnectionError("no answer")
            yield Turn(output=rendered)

    result = await in_rounds(Failing(), rounds=1)

    assert result.failed_rollouts == 1
    assert result.rollouts == 1


async def test_the_generator_is_closed_whatever_happens():
    world = Talkative(long=["t0-0"], more=9)

    await in_rounds(world, rounds=2, round_timeout=2.5)

    assert len(world.closed) == len(world.began)


async def test_an_agent_may_expose_its_turns_and_pick_up_in_an_object():
    world = Talkative(turns=2)

    class Agent:
        async def solve(self, rendered, task, resume=None):
            async for turn in world.run(rendered, task, resume):
                yield turn

        async def propose(self, rendered, task, output, reward):
            return await world.propose(rendered, task, output, reward)

    result = await async_evolve(
        world.tasks,
        world.reward,
        agent=Agent(),
        asynchronous=False,
        rounds=2,
        ledger=MemoryLedger(),
    )

    assert result.final_reward == 1.0


async def test_the_longest_begin_first_where_there_are_fewer_slots_than_workers(looptime):
    class Uneven(HiddenRules):
        async def run(self, rendered, task):
            await anyio.sleep({"t0-3": 4, "t0-0": 1, "t0-1": 1, "t0-2": 2}.get(task.id, 0))
            return rendered

        async def propose(self, rendered, task, output, reward):
            return None

    world = Uneven()

    class Same:
        def pick(self, keys, round_index):
            return next(key for key in keys if key.startswith("t0"))

        def record(self, task_id, score):
            pass

    await async_evolve(
        **world.parts,
        asynchronous=False,
        rounds=2,
        n_workers=4,
        max_concurrency=2,
        task_sampler=Same(),
        ledger=MemoryLedger(),
    )

    by_worker_s, longest_first_s = 1 + 4, 4
    assert looptime == by_worker_s + longest_first_s


async def test_what_was_cut_outlives_the_process(tmp_path):
    options = {
        "asynchronous": False,
        "n_workers": 1,
        "rounds": 4,
        "round_timeout": 2.5,
        "self_verify": False,
        "repo_path": tmp_path / "ledger",
    }
    killed, again = (Talkative(long=["t0-0"], more=6) for _ in range(2))

    with anyio.CancelScope() as scope:
        await async_evolve(
            **killed.parts,
            **options,
            on_round=lambda info: scope.cancel() if info.round == 1 else None,
        )
    result = await async_evolve(**again.parts, **options, resume="continue")

    assert [n_said for n_said, _ in killed.attempts("t0-0")] == [0, 2]
    assert [n_said for n_said, _ in again.attempts("t0-0")] == [2, 4]
    assert result.error is None


async def test_without_barriers_what_was_cut_is_written_down():
    def schedule():
        picker = Picker(RoundRobin(), {}, Head(Snapshot(1, {}, "")), ResumeQueue())
        return BarrierFree(None, picker, [["a"], ["b"]], async_ratio=1), picker

    (original, picker), (again, its_picker) = schedule(), schedule()
    picker.waiting.push(ResumeItem("a", 2, ["said"], None, 1))

    again.restore(json.loads(json.dumps(original.dump())))

    assert its_picker.waiting.pop() == ResumeItem("a", 2, ["said"], None, 1)
