"""What a first mistake gets to hear."""

import warnings

import pytest

from agentdescent import (
    AppendRules,
    LLMAgent,
    SingleSlot,
    async_evolve,
    evolve,
    reflector,
    tasks_from,
)
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules

WORLD = HiddenRules()


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_held_out_tasks_that_can_never_be_scored_are_an_error_with_its_task(evolve_under):
    class Broken(HiddenRules):
        async def reward(self, task, output):
            if task.id == "t5-3":
                raise LookupError("no such gold")
            return await super().reward(task, output)

    world = Broken()
    with pytest.warns(
        RuntimeWarning, match=r"LookupError: no such gold; it began scoring held-out task 't5-3'"
    ):
        result = await evolve_under(**world.parts)

    assert result.stop_reason == "error"
    assert result.error == "LookupError: no such gold"
    assert (result.initial_reward, result.final_reward, result.history) == (None, 0.0, [])


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_first_failure_names_step_task_and_line(evolve_under):
    async def reward(task, output):
        return task.meta["gold"]

    with pytest.warns(
        RuntimeWarning, match=r"KeyError: 'gold'; it began .*\(test_messages.*py:\d+\)"
    ):
        result = await evolve_under(WORLD.tasks, reward, run=WORLD.run, propose=WORLD.propose)

    assert result.failed_rollouts > 0


def test_a_typo_in_an_argument_is_answered_with_the_nearest_name():
    with pytest.raises(
        TypeError, match=r"evolve\(\) got an unexpected .*'n_worker'; did you mean n_workers\?"
    ):
        evolve(**WORLD.parts, n_worker=3)
    with pytest.raises(TypeError, match=r"evolve\(\) missing a required argument: 'reward'$"):
        evolve(WORLD.tasks)


def test_a_class_is_not_an_instance():
    with pytest.raises(TypeError, match="strategy is the class SingleSlot; give an instance of it"):
        evolve(**WORLD.parts, strategy=SingleSlot)
    with pytest.raises(TypeError, match="agent is the class LLMAgent; give an instance of it"):
        evolve(WORLD.tasks, WORLD.reward, agent=LLMAgent)


def test_a_generator_function_is_refused():
    def run(rendered, task):
        yield rendered

    async def propose(rendered, task, output, reward):
        yield rendered

    with pytest.raises(TypeError, match="run is a generator function"):
        evolve(WORLD.tasks, WORLD.reward, run=run, propose=WORLD.propose)
    with pytest.raises(TypeError, match="propose is a generator function"):
        evolve(WORLD.tasks, WORLD.reward, run=WORLD.run, propose=propose)


def test_a_run_that_yields_its_turns_has_to_take_one_up_again():
    async def run(rendered, task):
        yield rendered

    with pytest.raises(TypeError, match=r"write `async def run\(rendered, task, resume=None\)`"):
        evolve(WORLD.tasks, WORLD.reward, run=run, propose=WORLD.propose)


@pytest.mark.parametrize("make", [LLMAgent, reflector])
def test_a_model_s_name_is_no_completion(make):
    with pytest.raises(TypeError, match=r"completion must be a function .* got str 'gpt-4'"):
        make("gpt-4")


def test_rows_and_columns_that_are_not_there_are_named():
    with pytest.raises(TypeError, match="row 0 is str 'a'; tasks_from takes mappings"):
        tasks_from(["a"])
    with pytest.raises(KeyError, match="no row has a column 'anser'"):
        tasks_from([{"prompt": "p", "answer": 1}], gold="anser")
    with pytest.raises(KeyError, match="no row has a column 'lvl'"):
        tasks_from([{"prompt": "p"}], level="lvl")


def test_warnings_point_at_the_caller_s_own_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evolve(
            **WORLD.parts,
            asynchronous=True,
            max_iters=4,
            ledger=MemoryLedger(),
        )

    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.asyncio
async def test_warnings_of_an_awaited_run_point_at_its_caller_too():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await async_evolve(
            WORLD.tasks[:6], WORLD.reward, run=WORLD.run, propose=WORLD.propose, max_iters=1
        )

    assert [warning.filename for warning in caught] == [__file__]


def test_a_bullet_in_front_of_a_rule_is_not_part_of_it():
    state = AppendRules().to_diff({}, "- Be brief.", "w0", 1, "t").ops

    assert AppendRules().render(state) == "# Playbook\n- Be brief."
