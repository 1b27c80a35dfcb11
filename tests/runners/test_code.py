"""Programs that are trees: the gate, its verdicts, and what a program may see."""

import json
import sys

import anyio
import pytest

from agentdescent import FileTree, Task, evolve
from agentdescent.core.identity import identity_of
from agentdescent.core.scored import Scored
from agentdescent.errors import CommandNotStarted, TreeError
from agentdescent.rewards import exact_match
from agentdescent.runners import (
    TEST_FAILURE_MARKER,
    Bubblewrap,
    code_runner,
    scores_zero,
    zero_if_failed,
)
from agentdescent.runners.calling import Remembered
from agentdescent.threads import is_async
from support.programs import Lifeline
from support.runners import TASK, left_behind, python, tree

MAIN = "import sys; print('answer:', sys.argv[-1])"
PROGRAM = tree(main_py=MAIN)
ENTRYPOINT = [sys.executable, "-I", "main.py"]


def counting(file, source="pass"):
    """A command that adds a line to `file`, and does `source`."""
    return python(f"import sys; open(sys.argv[1], 'a').write('x\\n'); {source}", file)


def count(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.asyncio
class TestProgram:
    async def test_its_output_is_what_it_prints_for_the_prompt(self):
        assert await code_runner(ENTRYPOINT)(PROGRAM, TASK) == "answer: What is it?"

    async def test_it_sees_a_few_variables_and_no_home_of_ours(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        monkeypatch.setenv("LANG", "C.UTF-8")
        source = "import os; print(*sorted(os.environ)); print(os.listdir(os.environ['HOME']))"
        run = code_runner(ENTRYPOINT, env={"MINE": "1"})

        seen, home = (await run(tree(main_py=source), TASK)).splitlines()

        assert {"HOME", "LANG", "MINE", "PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR"} <= {
            *seen.split()
        }
        assert "OPENAI_API_KEY" not in seen
        assert home == "[]"

    async def test_fixtures_lie_beside_it(self):
        program = tree(main_py="print(open('data').read())")
        task = Task("t", "p", {"fixtures": {"data": "d"}})

        assert await code_runner(ENTRYPOINT)(program, task) == "d"

    async def test_one_that_fails_says_so_in_its_output(self):
        output = await code_runner(ENTRYPOINT)(tree(main_py="import sys; sys.exit('no')"), TASK)

        assert output == f"{TEST_FAILURE_MARKER} (entrypoint exited 1):\nno"

    async def test_one_that_hangs_says_so_in_its_output(self):
        program = tree(main_py="import time; print('so far', flush=True); time.sleep(60)")

        output = await code_runner(ENTRYPOINT, timeout=0.5)(program, TASK)

        assert output == f"{TEST_FAILURE_MARKER} (entrypoint timed out after 0.5s):\nso far"
        assert left_behind() == []

    async def test_one_that_prints_without_end_is_cut(self):
        run = code_runner(ENTRYPOINT, max_output=1000)

        output = await run(tree(main_py="print('x' * 10**6)"), TASK)

        assert (len(output), output.cut) == (1000, True)

    async def test_a_program_that_is_not_installed_is_our_fault(self):
        with pytest.raises(CommandNotStarted, match="no-such-program"):
            await code_runner(["no-such-program"])(PROGRAM, TASK)

    async def test_a_program_of_the_tree_that_is_missing_is_its_own_fault(self):
        output = await code_runner(["./run.sh"])(PROGRAM, TASK)

        assert output.startswith(f"{TEST_FAILURE_MARKER} (entrypoint):\n'./run.sh' could not be")

    async def test_a_hostile_tree_is_refused(self):
        with pytest.raises(TreeError, match="leaves the tree"):
            await code_runner(ENTRYPOINT)('{"../x": ""}', TASK)


@pytest.mark.asyncio
class TestGate:
    async def test_tests_run_once_a_tree_however_many_tasks(self, tmp_path):
        tests = counting(tmp_path / "runs")
        run = code_runner(ENTRYPOINT, test_cmd=tests)

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(run, PROGRAM, Task(str(number), "p"))
        assert count(tmp_path / "runs") == 1

        await run(tree(main_py=MAIN, other_py=""), TASK)
        assert count(tmp_path / "runs") == 2

    async def test_what_fails_its_tests_is_not_run(self, tmp_path):
        tests = counting(tmp_path / "runs", "print('1 failed'); sys.exit(1)")
        run = code_runner(counting(tmp_path / "started"), test_cmd=tests)

        outputs = {await run(PROGRAM, Task(str(n), "p")) for n in range(3)}

        assert outputs == {f"{TEST_FAILURE_MARKER} (tests):\n1 failed"}
        assert count(tmp_path / "runs") == 1
        assert count(tmp_path / "started") == 0

    async def test_tests_that_hang_are_a_verdict_too(self, tmp_path):
        tests = counting(tmp_path / "runs", "import time; time.sleep(60)")
        run = code_runner(ENTRYPOINT, test_cmd=tests, timeout=0.5)

        outputs = {await run(PROGRAM, Task(str(n), "p")) for n in range(2)}

        assert outputs == {f"{TEST_FAILURE_MARKER} (tests timed out after 0.5s):\n"}
        assert count(tmp_path / "runs") == 1

    async def test_setup_prepares_every_workspace(self):
        setup = python("open('made', 'w').write('ready')")
        tests = python("assert open('made').read() == 'ready'")
        run = code_runner(ENTRYPOINT, setup_cmd=setup, test_cmd=tests)

        assert await run(tree(main_py="print(open('made').read())"), TASK) == "ready"

    async def test_a_setup_that_fails_is_in_the_output(self):
        run = code_runner(ENTRYPOINT, setup_cmd=python("raise SystemExit('broken')"))

        assert await run(PROGRAM, TASK) == f"{TEST_FAILURE_MARKER} (setup):\nbroken"

    async def test_long_words_are_cut_in_the_middle(self):
        tests = python("print('<' + 'x' * 5000 + '>'); raise SystemExit(1)")

        output = await code_runner(ENTRYPOINT, test_cmd=tests)(PROGRAM, TASK)

        words = output.removeprefix(f"{TEST_FAILURE_MARKER} (tests):\n")
        assert (words[0], words[-1], len(words) <= 2000) == ("<", ">", True)

    async def test_tests_that_a_candidate_planted_are_not_run(self):
        tests = python("import runpy; runpy.run_path('tests/test_it.py')")
        run = code_runner(
            ENTRYPOINT,
            test_cmd=tests,
            frozen=["tests/**"],
            overlay={"tests/test_it.py": "import os; print(sorted(os.listdir('tests'))); 1 / 0"},
        )

        output = await run(tree(main_py=MAIN, tests__test_it_py="", tests__hook_py=""), TASK)

        assert "['test_it.py']" in output
        assert "ZeroDivisionError" in output

    async def test_a_gate_that_was_called_off_is_held_by_the_next(self, tmp_path):
        runs, line = tmp_path / "runs", Lifeline(tmp_path / "line")
        tests = counting(
            runs,
            """
import os, time
if not os.path.exists(sys.argv[2]):
    os.write(os.open(sys.argv[3], os.O_WRONLY), b"up")
    time.sleep(60)
""",
        )
        run = code_runner(ENTRYPOINT, test_cmd=[*tests, str(tmp_path / "go"), str(line.path)])
        outputs = []

        async def ask(scope):
            with scope:
                outputs.append(await run(PROGRAM, TASK))

        first, second = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, first)
            tasks.start_soon(ask, second)
            await line.taken()
            (tmp_path / "go").touch()
            first.cancel()
        line.close()

        assert outputs == ["answer: What is it?"]
        assert count(runs) == 2

    async def test_a_broken_machine_is_no_verdict(self, tmp_path):
        run = code_runner(ENTRYPOINT, test_cmd=[str(tmp_path / "tests")])
        with pytest.raises(CommandNotStarted):
            await run(PROGRAM, TASK)
        (tmp_path / "tests").write_text("#!/bin/sh\n")
        (tmp_path / "tests").chmod(0o755)

        assert await run(PROGRAM, TASK) == "answer: What is it?"


def test_a_whole_run_tests_each_candidate_once(tmp_path):
    tests = python(
        "import sys; open(sys.argv[1], 'a').write(repr(open('main.py').read()) + '\\n')",
        tmp_path / "runs",
    )
    edits = json.dumps({"edits": [{"path": "main.py", "content": MAIN}]})

    result = evolve(
        [Task(str(n), f"{n}", {"gold": f"answer: {n}"}) for n in range(24)],
        zero_if_failed(exact_match()),
        run=code_runner(ENTRYPOINT, test_cmd=tests),
        propose=lambda *_: f"<EDITS>{edits}</EDITS>",
        strategy=FileTree({"main.py": "print('nothing')"}),
        n_workers=2,
        rounds=2,
        held_out_frac=0.5,
    )

    assert result.final_reward == 1.0
    assert sorted((tmp_path / "runs").read_text().splitlines()) == sorted(
        [repr("print('nothing')"), repr(MAIN)]
    )


class TestReward:
    def test_outputs_of_the_gate_score_zero_and_are_the_feedback(self):
        task = Task("t", "p", {"gold": f"{TEST_FAILURE_MARKER} (tests):\nno"})
        reward = zero_if_failed(exact_match())

        scored = reward(task, task.meta["gold"])

        assert (scored.value, "(tests):\nno" in scored.feedback) == (0.0, True)

    def test_so_do_outputs_that_print_the_marker_themselves(self):
        assert scores_zero(f"42 {TEST_FAILURE_MARKER}")
        assert not scores_zero("42")
        assert not scores_zero(None)

    def test_others_score_what_they_scored(self):
        reward = zero_if_failed(exact_match())

        assert reward(Task("t", "p", {"gold": "42"}), "42").value == 1.0
        assert identity_of(reward).explicit

    @pytest.mark.asyncio
    async def test_the_reward_may_be_asynchronous(self):
        async def reward(task, output):
            await anyio.lowlevel.checkpoint()
            return 0.5

        assert await zero_if_failed(reward)(TASK, "42") == Scored(0.5, "", {"gate": 1.0})


class TestIdentity:
    @pytest.mark.parametrize(
        "options",
        [
            {"setup_cmd": ["a"]},
            {"test_cmd": ["a"]},
            {"timeout": 3},
            {"env": {"A": "b"}},
            {"max_output": 3},
            {"overlay": {"a": "b"}},
            {"isolation": Bubblewrap()},
        ],
        ids=lambda options: next(iter(options)),
    )
    def test_whatever_changes_outputs_changes_the_name(self, options):
        assert code_runner(ENTRYPOINT, **options).identity != code_runner(ENTRYPOINT).identity
        assert code_runner(ENTRYPOINT).identity == code_runner(ENTRYPOINT).identity

    def test_no_value_of_a_variable_is_in_it(self):
        run = code_runner(ENTRYPOINT, env={"KEY": "sk-secret"})

        assert "sk-secret" not in repr(run)
        assert is_async(run)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "error", "complaint"),
        [
            ({"entrypoint": "python main.py"}, TypeError, r"write \['python', 'main\.py'\]"),
            ({"entrypoint": []}, ValueError, "entrypoint is empty"),
            ({"test_cmd": "pytest -q"}, TypeError, "test_cmd must be a list"),
            ({"timeout": 0}, ValueError, "timeout must be positive"),
            ({"max_output": 0}, ValueError, "max_output must be positive"),
        ],
    )
    def test_arguments_are_checked_at_once(self, options, error, complaint):
        with pytest.raises(error, match=complaint):
            code_runner(**{"entrypoint": ENTRYPOINT, **options})


@pytest.mark.asyncio
class TestRemembered:
    async def test_the_longest_unused_is_forgotten(self):
        made = []
        remembered = Remembered(2)

        async def ask(key):
            async def make():
                made.append(key)
                return key.upper()

            return await remembered.get(key, make)

        assert [await ask(key) for key in "abacab"] == list("ABACAB")
        assert made == list("abcb")

    async def test_a_failure_is_not_remembered(self):
        remembered = Remembered(2)
        answers = iter([KeyError, "fine"])

        async def make():
            answer = next(answers)
            if answer is KeyError:
                raise KeyError
            return answer

        with pytest.raises(KeyError):
            await remembered.get("a", make)
        assert await remembered.get("a", make) == "fine"
