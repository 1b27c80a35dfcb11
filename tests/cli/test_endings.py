"""How commands end: by signals, by errors, and with which exit status."""

import json
import os
import shlex
import signal
import subprocess

import pytest

from agentdescent.cli import doctor
from agentdescent.cli.endings import printable
from cli.conftest import COMMAND

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def wait_for(process, words):
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"it ended without {words!r}")


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_stopped_run_shows_and_keeps_what_it_has(started, priced, tmp_path, number, status):
    process = started(*priced("--workers", "2", seconds=60))
    wait_for(process, "held-out reward 0.000")

    process.send_signal(number)
    stdout, stderr = process.communicate()

    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert process.returncode == status
    assert "held-out reward 0.000 -> 0.000 (interrupted)" in stdout
    assert stderr == ""
    assert result["stop_reason"] == "interrupted"


def test_a_stopped_run_ends_its_json(started, priced):
    process = started(*priced("--json", "--workers", "2", seconds=60))
    wait_for(process, "RunStarted")

    process.terminate()
    stdout, _ = process.communicate()

    assert process.returncode == 143
    assert json.loads(stdout.splitlines()[-1])["stop_reason"] == "interrupted"


def test_sigterm_works_where_ctrl_c_is_ignored(started, priced):
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = started(*priced("--workers", "2", seconds=60), preexec_fn=ignore)
    wait_for(process, "held-out reward 0.000")

    process.terminate()
    process.communicate()

    assert process.returncode == 143


@pytest.mark.parametrize(
    "arguments",
    [("demo", "--seed", "-1"), ("run",), ("nothing",), ("run", "absent.jsonl", "--out", "x")],
)
def test_wrong_usage_exits_2(agentdescent, arguments):
    done = agentdescent(*arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_error_has_a_traceback_only_when_asked(process):
    arguments = ("run", "absent.jsonl", "--out", "x", "--agent-command", "true")

    missing = "error: absent.jsonl cannot be read: No such file or directory\n"
    assert process(*arguments).stderr == missing
    assert "Traceback" in process(*arguments, "--debug").stderr


def test_the_exit_statuses_are_documented(agentdescent):
    for command in ((), ("demo",), ("run",), ("doctor",)):
        words = " ".join(agentdescent(*command, "--help").stdout.split())
        assert "2 wrong usage" in words
        assert "143 stopped by SIGTERM" in words


def test_version(agentdescent):
    done = agentdescent("--version")

    assert (done.returncode, done.stdout) == (0, "agentdescent 0.1.0\n")


def test_completion_is_printed(process):
    done = process("--show-completion", "zsh")

    assert done.returncode == 0
    assert "_AGENTDESCENT_COMPLETE" in done.stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nobody_reading_is_no_reason_to_complain(started, options):
    process = started("demo", *options)
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_a_locale_without_the_characters_is_no_reason_to_fail(process):
    done = process("doctor", "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0


def test_what_is_unexpected_is_one_line_as_well(agentdescent, monkeypatch):
    def broken():
        raise KeyError("whatever")

    monkeypatch.setattr(doctor, "examine", broken)

    done = agentdescent("doctor")

    assert (done.returncode, done.stderr) == (1, "error: KeyError: 'whatever'\n")


def test_an_error_before_there_is_anything_is_told(started, tmp_path):
    os.mkfifo(tmp_path / "tasks.jsonl")
    process = started("run", "tasks.jsonl", "--out", "x", "--agent-command", "true")
    with (tmp_path / "tasks.jsonl").open("w"):  # it reads now
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()

    assert process.returncode == 130
    assert stderr == "error: stopped before there was a result\n"


def test_terminals_are_not_steered_by_what_models_say():
    assert printable("a\x1b[2Jb\nc\td") == "a\ufffd[2Jb\nc\td"


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_nobody_listening_is_no_reason_to_fail(tmp_path, closed):
    done = subprocess.run(
        f"{shlex.join(COMMAND)} demo --quiet {closed}",
        shell=True,
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
