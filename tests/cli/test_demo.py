"""`agentdescent demo`, run as a newcomer does."""

import json
import time

import pytest


@pytest.mark.alone
@pytest.mark.parametrize("seed", range(4))
def test_goes_from_below_04_to_1_within_five_seconds(process, seed):
    began = time.monotonic()
    done = process("demo", "--seed", seed, "--json")
    seconds = time.monotonic() - began

    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, "")
    assert result["initial_reward"] < 0.4
    assert result["final_reward"] == 1.0
    assert seconds < 5


def test_tells_the_story_in_plain_lines(process):
    done = process("demo")

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    for words in (
        "The scorer wants:    67460",
        "held-out reward 0.000 at version 1; 24 tasks to learn from, 16 held out",
        "round 0: committed, P(delta>0) = 1.00",
        "  unit: Give amounts in whole cents, the number alone.",
        "held-out reward 0.000 -> 1.000 (target_reward)",
        "the agent now answers 67460",
    ):
        assert words in done.stdout


def test_every_line_is_json_when_asked(agentdescent):
    done = agentdescent("demo", "--json")

    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events.count("RunStarted") == 1
    assert events[-2:] == ["RunEnded", "Result"]


def test_quiet_shows_the_end_alone(agentdescent):
    lines = agentdescent("demo", "--quiet").stdout

    assert "round 0" not in lines
    assert "held-out reward 0.000 -> 1.000" in lines


def test_keeps_its_ledger_and_goes_on_from_it(agentdescent, tmp_path):
    first = agentdescent("demo", "--out", tmp_path / "kept")
    second = agentdescent("demo", "--out", tmp_path / "kept")

    assert f"git -C {tmp_path / 'kept'} log -p dev" in first.stdout
    assert "held-out reward 1.000 -> 1.000" in second.stdout
