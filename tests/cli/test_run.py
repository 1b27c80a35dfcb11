"""`agentdescent run`: tasks from a file, an agent, and a directory that is gone on from."""

import json
import subprocess
import sys

import pytest

from agentdescent import EvolutionResult
from agentdescent.cli.models import Model, command_completion
from agentdescent.telemetry import read_telemetry

QUICK = ("--workers", "2", "--rounds", "2", "--target", "1.0")


def test_improves_and_writes_everything_down(process, priced, tmp_path):
    done = process(*priced(*QUICK))

    out = tmp_path / "out"
    result = EvolutionResult.load(out / "result.json")
    artifact = json.loads((out / "artifact.json").read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert (out / "artifact.txt").read_text() == result.rendered + "\n"
    assert artifact == {"version": result.version, "state": dict(result.state)}
    events = [line["event"] for line in read_telemetry(out / "telemetry.jsonl")]
    assert (events[0], events[-1]) == ("run_start", "run_end")
    assert f"artifact:   {'out/artifact.txt'}" in done.stdout


def test_the_same_command_goes_on_with_what_it_finds(agentdescent, priced):
    first = agentdescent(*priced(*QUICK))
    second = agentdescent(*priced(*QUICK))

    assert "goes on with" not in first.stdout
    assert "goes on with what was learned in out" in second.stdout
    assert "picked up version 2 of the artifact" in second.stdout
    assert "held-out reward 1.000 -> 1.000" in second.stdout


def test_a_killed_run_is_picked_up(agentdescent, started, priced):
    killed = started(*priced("--workers", "1", "--rounds", "50"))
    for line in killed.stdout:
        if "committed" in line:
            break
    killed.kill()
    killed.wait()

    again = agentdescent(*priced("--workers", "1", "--rounds", "1"))

    assert again.returncode == 0
    assert "that run stays unfinished, for its options were others" in again.stdout
    assert "picked up version 2" in again.stdout
    assert "held-out reward 1.000 -> 1.000" in again.stdout


def test_the_same_command_finishes_a_killed_run(agentdescent, started, priced, tmp_path):
    command = priced("--workers", "1", "--rounds", "6")
    killed = started(*command)
    for line in killed.stdout:
        if "committed" in line:
            break
    killed.kill()
    killed.wait()

    again = agentdescent(*command)

    assert again.returncode == 0
    assert "finishes the run in out" in again.stdout
    assert len(EvolutionResult.load(tmp_path / "out" / "result.json").history) == 6


def test_without_barriers_it_counts_rollouts(agentdescent, priced, tmp_path):
    done = agentdescent(*priced("--asynchronous", "--workers", "2", "--rounds", "3"))

    result = EvolutionResult.load(tmp_path / "out" / "result.json")
    assert done.returncode == 0
    assert result.rollouts == 6


def test_a_budget_of_calls_ends_it(agentdescent, priced, tmp_path):
    agentdescent(*priced("--max-calls", "6"))

    assert EvolutionResult.load(tmp_path / "out" / "result.json").stop_reason == "max_calls"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "line 3"),
        ('{"prompt": 7}', 'line 3: there is no text under "prompt"'),
        ('{"question": "Why?"}', 'line 3: there is no text under "prompt"'),
        ("[]", "line 3"),
    ],
)
def test_a_malformed_line_is_named_and_nothing_starts(agentdescent, priced, tmp_path, line, words):
    tasks = tmp_path / "tasks.jsonl"
    lines = tasks.read_text().splitlines()
    tasks.write_text("\n".join([lines[0], "", line, *lines[1:]]))

    done = agentdescent(*priced())

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "nothing was started" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "prose"), "--strategy prose is unknown; give single, rules, keyed:"),
        (("--strategy", "keyed:"), "is unknown"),
        (("--reward", "vibes"), "--reward vibes is unknown; give exact, contains, number, judge"),
        (("--reward", "absent:score"), "cannot be used: No module named 'absent'"),
        (("--model", "m"), "either --model or --agent-command"),
        (("--agent-command", "'"), "cannot be read"),
        (("--agent-command", ""), "is empty"),
        (("--reward", "json:absent"), "cannot be used"),
        (("--reward", "json:JSONDecodeError"), "cannot be used"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(
    agentdescent, priced, tmp_path, options, words
):
    done = agentdescent(*priced(*options))

    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_task_without_an_answer_is_refused_by_name(agentdescent, priced, tmp_path):
    with (tmp_path / "tasks.jsonl").open("a") as file:
        file.write('{"prompt": "What now?"}\n')

    done = agentdescent(*priced())

    assert done.returncode == 2
    assert "'10'" in done.stderr
    assert "gold" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--strategy", "rules"), "strategy 'fewshot' instead of 'rules'"),
        (("--held-out-frac", "0.5"), "held_out_frac 0.4 instead of 0.5"),
        (("--prompt", "Be brief."), "other prompt"),
    ],
)
def test_a_directory_with_another_run_is_refused(agentdescent, priced, change, words):
    agentdescent(*priced("--rounds", "1"))
    done = agentdescent(*priced(*change))

    assert done.returncode == 2
    assert words in done.stderr


def test_a_directory_with_other_tasks_is_refused(agentdescent, priced, tmp_path):
    agentdescent(*priced("--rounds", "1"))
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(tasks.read_text().splitlines(keepends=True)[1:]))

    assert "other tasks" in agentdescent(*priced()).stderr


def test_another_agent_on_the_same_directory_is_warned_about(agentdescent, priced):
    agentdescent(*priced("--rounds", "1"))
    done = agentdescent(*priced("--rounds", "1", seconds=0.01))

    assert done.returncode == 0
    assert "warning: agent_command was" in done.stderr


def test_a_directory_of_something_else_is_left_alone(agentdescent, priced, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()

    done = agentdescent(*priced())

    assert done.returncode == 2
    assert "holds something else than a run" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_reward_of_ones_own_is_found_in_the_current_directory(agentdescent, priced, tmp_path):
    (tmp_path / "mine.py").write_text("def score(task, output):\n    return output == 'no'\n")

    done = agentdescent(*priced("--reward", "mine:score", "--rounds", "1"))

    assert done.returncode == 0
    assert "held-out reward 0.000 -> 0.000" in done.stdout


JUDGE = """
import json, re, sys
prompt = sys.argv[-1]
form = prompt.rpartition('{"id": "')[2]
if form == prompt:
    print("An answer.")
else:
    names = re.findall(r'"(\\w+)":', form.partition('"scores"')[2])
    scores = dict.fromkeys(names, 0.5)
    print(json.dumps({"id": form.partition('"')[0], "reasons": "So-so.", "scores": scores}))
"""


def test_a_model_can_be_the_judge(agentdescent, priced, tmp_path):
    (tmp_path / "judge.py").write_text(JUDGE, encoding="utf-8")
    command = f"{sys.executable} -S judge.py"

    done = agentdescent(*priced("--agent-command", command, "--reward", "judge", "--rounds", "1"))

    assert (done.returncode, done.stderr) == (0, "")
    assert "held-out reward 0.500 -> 0.500" in done.stdout


def test_an_agent_that_is_not_there_is_an_error_of_the_run(agentdescent, priced):
    done = agentdescent(*priced("--agent-command", "no-such-agent", "--rounds", "1"))

    assert done.returncode == 1
    assert "no-such-agent" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_secrets_are_not_shown(agentdescent, priced, tmp_path):
    secret = "sk-very-secret-indeed"
    done = agentdescent(
        *priced("--agent-command", f"no-such-agent --key {secret}", "--rounds", "1"),
        env={"MY_API_KEY": secret},
    )

    kept = "".join(path.read_text() for path in (tmp_path / "out").glob("*.json*"))
    assert secret not in done.stdout + done.stderr + kept


def test_history_is_readable_with_git(agentdescent, priced, tmp_path):
    agentdescent(*priced(*QUICK))

    log = subprocess.run(
        ["git", "-C", tmp_path / "out" / "ledger", "log", "--oneline", "dev"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "0.000 -> 1.000" in log


def test_a_prompt_is_a_file_or_the_text_itself(agentdescent, priced, tmp_path):
    (tmp_path / "prompt.txt").write_text("Be exact.\n")
    rules = ("--strategy", "rules", "--rounds", "1")

    agentdescent(*priced(*rules, "--prompt", "prompt.txt", out="file"))
    agentdescent(*priced(*rules, "--prompt", "Be brief.", out="text"))

    assert (tmp_path / "file" / "artifact.txt").read_text().startswith("Be exact.\n")
    assert (tmp_path / "text" / "artifact.txt").read_text().startswith("Be brief.\n")


@pytest.mark.parametrize("strategy", ["single", "keyed:unit,rounding"])
def test_other_strategies_begin_with_the_prompt(agentdescent, priced, tmp_path, strategy):
    agentdescent(*priced("--strategy", strategy, "--prompt", "Be exact.", "--rounds", "1"))

    assert (tmp_path / "out" / "artifact.txt").read_text().startswith("Be exact.")


@pytest.mark.parametrize(
    ("record", "words"), [("[", "is damaged"), ('{"schema": 99}', "by a newer agentdescent")]
)
def test_a_directory_that_cannot_be_understood_is_refused(
    agentdescent, priced, tmp_path, record, words
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(record)

    done = agentdescent(*priced())

    assert done.returncode == 2
    assert words in done.stderr


def test_equal_ids_are_refused(agentdescent, priced, tmp_path):
    with (tmp_path / "tasks.jsonl").open("w") as file:
        for _ in range(2):
            file.write('{"id": "a", "prompt": "What?", "gold": "That."}\n')

    done = agentdescent(*priced())

    assert done.returncode == 2
    assert "'a'" in done.stderr


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("claude -p --model haiku", ("claude", "-p", "--model", "haiku")),
        ("codex exec", ("codex", "exec")),
        ("my-agent --fast", ("my-agent", "--fast")),
    ],
)
def test_known_agents_are_started_as_they_like_it(command, program):
    agent = command_completion(command, ["MINE"])

    assert agent.command == program
    assert "MINE" in agent.env_passthrough
    assert ("ANTHROPIC_API_KEY" in agent.env_passthrough) == (program[0] == "claude")


def test_models_of_anthropic_are_asked_through_their_own_api():
    assert Model("claude-haiku").completion().identity != Model("haiku").completion().identity
    assert "anthropic" in Model("claude-haiku").completion().identity


@pytest.mark.parametrize("options", [("--max-cost", "1"), ("--max-cost", "0")])
def test_a_run_that_is_refused_leaves_the_directory_to_another(
    agentdescent, priced, tmp_path, options
):
    refused = agentdescent(*priced("--strategy", "rules", *options))

    assert refused.returncode != 0
    assert not [*(tmp_path / "out").iterdir()]
    assert agentdescent(*priced(*QUICK)).returncode == 0


def test_a_directory_that_cannot_be_written_is_wrong_usage(agentdescent, priced, tmp_path):
    done = agentdescent(*priced(out=tmp_path / "tasks.jsonl" / "out"))

    assert done.returncode == 2
    assert "cannot be written: Not a directory" in done.stderr


def test_a_long_prompt_is_no_name_of_a_file(agentdescent, priced, tmp_path):
    text = "\N{HIRAGANA LETTER A}" * 200
    agentdescent(*priced("--strategy", "single", "--prompt", text, "--rounds", "1"))

    assert (tmp_path / "out" / "artifact.txt").read_text(encoding="utf-8") == f"{text}\n"


def test_a_prompt_file_that_holds_no_text_is_named(agentdescent, priced, tmp_path):
    (tmp_path / "prompt.bin").write_bytes(b"\xff\xfe")

    done = agentdescent(*priced("--prompt", "prompt.bin"))

    assert done.returncode == 2
    assert "--prompt prompt.bin cannot be read" in done.stderr
