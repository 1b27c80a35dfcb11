"""Programs as rewards: what counts as a verdict, and what as a broken program."""

import json
import sys

import pytest

from agentdescent import Task
from agentdescent.core.scored import Scored
from agentdescent.errors import CommandFailed, CommandNotStarted, CommandTimeout
from agentdescent.runners import command_scorer
from support.runners import TASK, left_behind, python

pytestmark = pytest.mark.asyncio


async def score(source, output="out", task=TASK, **options):
    return await command_scorer(python("import os, sys, json\n" + source), **options)(task, output)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("source", "scored"),
        [
            ("print(0.25)", Scored(0.25)),
            ("print('.5')", Scored(0.5)),
            ("print('checked 3 cases'); print(1)", Scored(1.0)),
            ("print('{\"score\": 0.5}')", Scored(0.5)),
            (
                "print(json.dumps({'score': 0, 'feedback': 'no', 'parts': {'a': 1, 'b': 'x'}}))",
                Scored(0.0, "no", {"a": 1.0}),
            ),
            ("print(json.dumps({'score': 0.5}, indent=1)); sys.exit(1)", Scored(0.5)),
            ("", Scored(1.0)),
            ("print('all is well')", Scored(1.0)),
            ("print('it differs'); sys.exit(1)", Scored(0.0, "it differs")),
            ("sys.exit('it differs')", Scored(0.0, "it differs")),
        ],
    )
    async def test_numbers_json_and_status(self, source, scored):
        assert await score(source) == scored

    async def test_a_failed_assertion_is_a_verdict(self):
        scored = await score("assert sys.stdin.read() == 'other', 'not other'")

        assert scored.value == 0.0
        assert scored.feedback.endswith("AssertionError: not other")

    @pytest.mark.parametrize(
        "source",
        [
            "sys.exit(2)",
            "os.kill(os.getpid(), 9)",
            "1 / 0",
            "raise ValueError('a\\nb')",
            "def",
            "print('NaN')",
            'print(\'{"score": "high"}\')',
            "print('{}')",
        ],
    )
    async def test_a_broken_program_is_a_failure(self, source):
        with pytest.raises(CommandFailed, match="the scorer "):
            await score(source)

    async def test_so_is_one_that_hangs_or_is_not_there(self):
        with pytest.raises(CommandTimeout):
            await score("import time; time.sleep(60)", timeout=0.3)
        with pytest.raises(CommandNotStarted):
            await command_scorer(["no-such-program"])(TASK, "out")
        assert left_behind() == []


class TestInput:
    async def test_the_output_is_on_stdin_and_in_a_file(self):
        source = """
read = open(os.environ["AGENTDESCENT_OUTPUT"], newline="").read()
print(json.dumps({"score": 1, "feedback": read + sys.stdin.read()}))
"""
        assert (await score(source, "a\n")).feedback == "a\na\n"
        assert (await score(source, None)).feedback == ""
        assert (await score(source, 7)).feedback == "77"

    async def test_the_task_is_in_a_file(self):
        source = """
read = open(os.environ["AGENTDESCENT_TASK"]).read()
print(json.dumps({"score": 1, "feedback": read}))
"""
        task = Task("t", "p", {"gold": "g", "when": {1}})

        assert json.loads((await score(source, task=task)).feedback) == {
            "id": "t",
            "prompt": "p",
            "meta": {"gold": "g", "when": "{1}"},
        }

    async def test_it_runs_where_it_is_told(self, tmp_path):
        (tmp_path / "score.py").write_text("print(0.75)")
        scorer = command_scorer([sys.executable, "score.py"], cwd=tmp_path)

        assert await scorer(TASK, "") == Scored(0.75)

    async def test_it_sees_no_key_of_ours(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        source = "print(int('OPENAI_API_KEY' in os.environ))"

        assert await score(source) == Scored(0.0)
        assert await score(source, env_passthrough=["OPENAI_API_KEY"]) == Scored(1.0)


class TestIdentity:
    async def test_it_changes_with_the_files_that_the_command_names(self, tmp_path):
        (tmp_path / "score.py").write_text("print(1)")
        scorer = command_scorer([sys.executable, "score.py"], cwd=tmp_path)
        before = scorer.identity
        assert before == scorer.identity

        (tmp_path / "score.py").write_text("print(0)")

        assert scorer.identity != before
        assert repr(scorer) == f"<command_scorer {sys.executable!r}>"

    async def test_arguments_are_checked_at_once(self):
        with pytest.raises(TypeError, match="command must be a list"):
            command_scorer("grep x")
        with pytest.raises(ValueError, match="timeout must be positive"):
            command_scorer(["grep"], timeout=0)
