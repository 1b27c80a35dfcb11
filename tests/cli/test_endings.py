"""How commands end: by signals, by errors, and with which exit status."""

import json
import signal

import pytest

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


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_stopped_run_ends_its_json(started, priced, number, status):
    process = started(*priced("--json", "--workers", "2", seconds=60))
    wait_for(process, "RunStarted")

    process.send_signal(number)
    stdout, _ = process.communicate()

    assert process.returncode == status
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
def test_wrong_usage_exits_2(process, arguments):
    done = process(*arguments)

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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(process, shell):
    done = process("--show-completion", shell)

    assert done.returncode == 0
    assert "_AGENTDESCENT_COMPLETE" in done.stdout
