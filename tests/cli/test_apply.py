"""`agentdescent run --directory` and `agentdescent apply`: files that evolve and are put back."""

import json
import sys

import pytest

from agentdescent import Evolved

from .conftest import write_tasks

AGENT = """
import pathlib, sys
prompt = sys.argv[-1]
price = prompt.rpartition("$")[2].split()[0].rstrip(".?")
if "EDITS" in prompt:
    print('<EDITS>{"edits": [{"path": "SKILL.md", "content": "Use cents."}]}</EDITS>')
else:
    skill = next(pathlib.Path(".claude").rglob("SKILL.md")).read_text()
    print(price.replace(".", "") if "cents" in skill else "$" + price)
"""

MAIN = 'import re, sys\nprint(re.search(r"[0-9.]+", sys.argv[1])[0].strip("."))\n'
FIX = {"path": "main.py", "search": '.strip(".")', "replace": '.replace(".", "")'}


@pytest.fixture
def skill(tmp_path):
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / "SKILL.md").write_text("Use dollars.")
    return folder


@pytest.fixture
def arguments(tmp_path, skill):
    """Those of a run that evolves the skill."""
    (tmp_path / "agent.py").write_text(AGENT)
    write_tasks(tmp_path / "tasks.jsonl", 20)
    command = f"{sys.executable} -S {tmp_path / 'agent.py'}"
    return (
        *("run", "tasks.jsonl", "--directory", skill, "--agent-command", command),
        *("--out", "out", "--workers", "2", "--rounds", "2", "--target", "1.0", "--quiet"),
    )


@pytest.fixture
def evolved(agentdescent, arguments):
    """A run that has evolved the skill."""
    done = agentdescent(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def text(skill):
    return (skill / "SKILL.md").read_text()


def test_a_directory_evolves_and_stays_as_it_was(evolved, skill, tmp_path):
    result = Evolved.load(tmp_path / "out" / "result.json")

    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert "test reward 0.000 -> 1.000 on 4 tasks" in evolved.stdout
    assert "agentdescent apply out" in evolved.stdout
    assert text(skill) == "Use dollars."
    assert text(tmp_path / "out" / "artifact") == "Use cents."


def test_apply_puts_it_in_place_and_keeps_the_old_one(agentdescent, evolved, skill, tmp_path):
    done = agentdescent("apply", "out")

    assert (done.returncode, text(skill)) == (0, "Use cents.")
    assert text(tmp_path / "skill.bak-1") == "Use dollars."
    note = json.loads((tmp_path / "skill.bak-1.json").read_text())
    assert (note["version"], note["ledger"]) == (2, str(tmp_path / "out" / "ledger"))
    assert done.stdout.splitlines()[0] == "written: SKILL.md"


def test_apply_does_it_once(agentdescent, evolved, skill):
    agentdescent("apply", "out")

    assert "nothing to do" in agentdescent("apply", "out").stdout


def test_a_dry_run_shows_the_difference(agentdescent, evolved, skill):
    done = agentdescent("apply", "out", "--dry-run")

    assert "-Use dollars." in done.stdout
    assert text(skill) == "Use dollars."


def test_a_directory_that_changed_is_refused(agentdescent, evolved, skill):
    (skill / "SKILL.md").write_text("Use euros.")

    done = agentdescent("apply", "out", "--anyway")

    assert (done.returncode, text(skill)) == (2, "Use euros.")
    assert "has changed since the run began" in done.stderr


def test_what_the_test_does_not_support_needs_a_word(agentdescent, evolved, skill, tmp_path):
    file = tmp_path / "out" / "result.json"
    record = json.loads(file.read_text())
    record["test"]["rewards_before"] = [1.0] * 4
    record["test"]["rewards_after"] = [0.0] * 4
    file.write_text(json.dumps(record))

    refused = agentdescent("apply", "out")

    assert (refused.returncode, text(skill)) == (2, "Use dollars.")
    assert "test reward 1.000 -> 0.000" in refused.stderr
    assert agentdescent("apply", "out", "--anyway").returncode == 0
    assert text(skill) == "Use cents."


def test_another_place_and_json(agentdescent, evolved, tmp_path):
    done = agentdescent("apply", "out", "--to", "elsewhere", "--json")

    plan = json.loads(done.stdout)
    assert (plan["event"], plan["written"], plan["backup"]) == ("WritePlan", ["SKILL.md"], None)
    assert text(tmp_path / "elsewhere") == "Use cents."


def test_deleted_files_are_deleted(agentdescent, arguments, skill, tmp_path):
    (skill / "old.md").write_text("Use shells.")
    program = tmp_path / "agent.py"
    program.write_text(
        AGENT.replace('"Use cents."}', '"Use cents."}, {"path": "old.md", "delete": true}')
    )
    agentdescent(*arguments)

    done = agentdescent("apply", "out")

    assert "deleted: old.md" in done.stdout
    assert sorted(path.name for path in skill.iterdir()) == ["SKILL.md"]


def test_the_same_command_goes_on_after_it_was_applied(agentdescent, evolved, arguments):
    agentdescent("apply", "out")

    again = agentdescent(*arguments)

    assert again.returncode == 0, again.stderr
    assert "held-out reward 1.000 -> 1.000" in again.stdout


def test_other_files_than_the_ledger_has_are_refused(agentdescent, evolved, arguments, skill):
    (skill / "SKILL.md").write_text("Use euros.")

    done = agentdescent(*arguments)

    assert done.returncode == 2
    assert "has never held what" in done.stderr


def test_a_program_evolves_by_what_another_one_proposes(agentdescent, tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN)
    (folder / "keep.py").write_text("")
    fixer = tmp_path / "fixer.py"
    fixer.write_text(f"print('<EDITS>' + {json.dumps({'edits': [FIX]})!r} + '</EDITS>')")
    write_tasks(tmp_path / "tasks.jsonl", 20)

    done = agentdescent(
        *("run", "tasks.jsonl", "--directory", "program", "--out", "out", "--rounds", "2"),
        *("--entrypoint", f"{sys.executable} -S main.py", "--test-command", ""),
        *("--agent-command", f"{sys.executable} -S {fixer}", "--target", "1.0"),
        *("--frozen", "keep.py"),
    )

    assert done.returncode == 0, done.stderr
    assert "held-out reward 0.000 -> 1.000" in done.stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--strategy", "single"), "--strategy and --prompt are about a text"),
        (("--test-command", "true"), "name that with --entrypoint"),
        (("--out", "skill/out"), "is inside of --directory"),
        (("--directory", "nowhere"), "'nowhere' is no directory"),
    ],
)
def test_what_does_not_go_together_is_refused(agentdescent, arguments, tmp_path, more, words):
    done = agentdescent(*arguments, *more)

    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--model", "m"), "--agent-command, an agent that reads the files"),
        (("--entrypoint", "true"), "something must reflect"),
    ],
)
def test_somebody_must_work_with_the_files(agentdescent, arguments, skill, given, words):
    done = agentdescent("run", "tasks.jsonl", "--out", "out", "--directory", skill, *given)

    assert done.returncode == 2
    assert words in done.stderr


def test_apply_needs_a_result(agentdescent, tmp_path):
    done = agentdescent("apply", "nowhere")

    assert (done.returncode, "holds no run" in done.stderr) == (2, True)


def test_apply_is_for_directories(agentdescent, priced):
    agentdescent(*priced("--rounds", "1"))

    done = agentdescent("apply", "out")

    assert (done.returncode, "evolved a text" in done.stderr) == (2, True)
