"""`evolve_skill`: one text, learned in one call and tested on what nobody has seen."""

import os
import signal
import threading

import pytest

from agentdescent import (
    EvolutionInterrupted,
    Evolved,
    Task,
    async_evolve_skill,
    evolve_skill,
    split_dataset,
)
from agentdescent.errors import RunningLoopError

ROWS = [{"prompt": f"{n} dollars", "gold": f"{n}00"} for n in range(1, 21)]


def model(prompt):
    """In cents if it is told to; when it reflects, it says so."""
    if "NONE" in prompt:
        return "Use cents."
    dollars = prompt.split("\n\n")[-1].split()[0]
    return f"{dollars}00" if "cents" in prompt else dollars


def test_learns_from_two_parts_and_is_tested_on_the_third():
    result = evolve_skill(ROWS, model)

    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert result.rendered == "Use cents."
    assert (result.test.before, result.test.after, len(result.test.tasks)) == (0.0, 1.0, 4)
    assert (result.written, result.origin, result.is_supported) == (None, None, True)
    assert str(result.test) == (
        "test reward 0.000 -> 1.000 on 4 tasks, gain +1.000, 95 % interval [-0.392, +1.000]"
    )


def test_nobody_sees_the_test_part_before_the_run_is_over():
    parts = split_dataset([Task(row["prompt"], row["prompt"], row) for row in ROWS], seed=3)
    hidden = {task.prompt for task in parts.test}
    seen = []

    def watched(prompt):
        seen.append(prompt)
        return model(prompt)

    def stop(event):
        if type(event).__name__ == "RunEnded":
            seen.append("the run is over")

    evolve_skill(ROWS, watched, seed=3, on_event=stop)

    during = "\n".join(seen[: seen.index("the run is over")])
    assert hidden
    assert not [prompt for prompt in hidden if f"\n{prompt}" in during]


@pytest.mark.asyncio
async def test_the_other_door_gives_the_same():
    one, other = await async_evolve_skill(ROWS, model), await async_evolve_skill(ROWS, model)

    assert (one.rendered, one.test) == (other.rendered, other.test)


@pytest.mark.asyncio
async def test_where_a_loop_runs_the_other_door_is_named():
    with pytest.raises(RunningLoopError, match=r"await async_evolve_skill"):
        evolve_skill(ROWS, model)


def test_parts_that_are_given_stay_as_they_are():
    parts = split_dataset(ROWS, ratios=(0.5, 0.25, 0.25))

    result = evolve_skill(parts, model)

    assert len(result.test.tasks) == 5


def test_other_columns_and_the_template_are_heeded():
    rows = [{"q": row["prompt"], "a": row["gold"], "level": "easy"} for row in ROWS]
    seen = []

    def watched(prompt):
        seen.append(prompt)
        return model(prompt)

    result = evolve_skill(
        rows, watched, prompt="q", gold="a", template="[{skill}]\n\n{prompt}", score="exact"
    )

    assert result.final_reward == 1.0
    assert any(prompt.startswith("[You are a helpful assistant.]\n\n") for prompt in seen)
    assert any("level='easy'" in prompt for prompt in seen)


def test_another_model_reflects():
    asked = []

    def other(prompt):
        asked.append(prompt)
        return "Use cents."

    result = evolve_skill(ROWS, model, reflect_with=other)

    assert asked
    assert result.final_reward == 1.0


def test_without_barriers_its_rounds_are_a_budget():
    result = evolve_skill(ROWS, model, asynchronous=True, target_reward=None, patience=None)

    assert result.rollouts == 8 * 8
    assert result.final_reward == 1.0


def test_a_budget_of_ones_own_replaces_that():
    options = {"target_reward": None, "patience": None}
    result = evolve_skill(ROWS, model, asynchronous=True, max_rollouts=5, **options)

    assert result.rollouts == 5


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"data": []}, ValueError, "no data"),
        ({"data": [*ROWS, "3 dollars"]}, TypeError, "data has str '3 dollars' in it"),
        ({"score": "best"}, ValueError, "contains, exact, last_number, numeric_close"),
        ({"template": "{prompt}"}, ValueError, r"lacks the field \{skill\}"),
        ({"held_out_frac": 0.3}, TypeError, "give split= instead"),
        ({"raunds": 3}, TypeError, "did you mean rounds"),
        ({"zzz": 3}, TypeError, "no argument 'zzz'$"),
    ],
)
def test_what_cannot_be_honoured_is_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        evolve_skill(**{"data": ROWS, "model": model, **wrong})


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match=r"evolve_skill\(\) missing a required argument: 'model'"):
        evolve_skill(ROWS)


def test_a_test_that_fails_costs_nobody_the_result():
    over = []

    def failing(task, output):
        if over:
            raise OSError("the scorer is gone")
        return float(output == task.meta["gold"])

    def listen(event):
        if type(event).__name__ == "RunEnded":
            over.append(event)

    with pytest.warns(RuntimeWarning, match="could not be measured: .*the scorer is gone"):
        result = evolve_skill(ROWS, model, score=failing, on_event=[listen])

    assert (result.final_reward, result.test, result.is_supported) == (1.0, None, False)
    assert "the scorer is gone" in result.warnings[-1]


def test_a_run_that_ends_in_an_error_is_not_tested():
    def broken(prompt):
        raise OSError("no model")

    with pytest.warns(RuntimeWarning) as warned:
        result = evolve_skill(ROWS, broken, max_worker_errors=1)

    assert "not measured: the run ended with" in str(warned[-1].message)
    assert result.error
    assert result.test is None


def test_without_a_third_part_there_is_no_test():
    result = evolve_skill(ROWS, model, split=(0.7, 0.3, 0.0))

    assert (result.test, result.warnings) == (None, [])


def test_ctrl_c_leaves_what_there_is(monkeypatch):
    called = threading.Event()

    def interrupting(prompt):
        if "NONE" in prompt and not called.is_set():
            called.set()
            os.kill(os.getpid(), signal.SIGINT)
        return model(prompt)

    with pytest.raises(EvolutionInterrupted) as stopped:
        evolve_skill(ROWS, interrupting)

    assert isinstance(stopped.value.result, Evolved)
    assert stopped.value.result.test is None


def test_a_saved_result_comes_back(tmp_path):
    result = evolve_skill(ROWS, model)
    result.save(tmp_path / "result.json")

    again = Evolved.load(tmp_path / "result.json")

    assert str(again.test) == str(result.test)
    assert (again.origin, again.written, again.rendered) == (None, None, result.rendered)


def test_the_calls_of_the_test_are_counted():
    result = evolve_skill(ROWS, model)

    assert result.usage.calls == result.actor_calls + 2 * len(result.test.tasks)
