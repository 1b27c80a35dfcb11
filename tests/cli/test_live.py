"""What is shown while a run goes on: the board, the live block, and when there is one."""

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from agentdescent import MergeReport, Usage
from agentdescent.cli.board import Board, sparkline
from agentdescent.cli.display import is_lively
from agentdescent.cli.lines import JsonLines, PlainLines
from agentdescent.cli.live import LiveBlock, rows
from agentdescent.core.events import (
    Committed,
    EvaluationFinished,
    MergeDecided,
    ProposalMade,
    RolloutFinished,
    RoundEnded,
    RunEnded,
    RunStarted,
    WorkerBackedOff,
)
from agentdescent.result import RoundInfo

MERGE = MergeReport("artifact", category="below-threshold", reason="P = 0.40 <= 0.51")

STORY = [
    RunStarted(0.0, "artifact", 3, 0.25, 6, 4),
    RolloutFinished(1.0, 0, "a", 3, 0.0, 0.5, ""),
    RolloutFinished(1.0, 1, "b", 3, None, 0.5, "TimeoutError: slow"),
    ProposalMade(1.0, 0, "a", 3, "Be brief.", "", "", 1.0),
    ProposalMade(1.0, 1, "b", 3, None, "no-proposal", "", None),
    EvaluationFinished(1.0, "c", 1.0, 0.5, ""),
    MergeDecided(2.0, 0, MERGE),
    Committed(2.0, "artifact", 4, "abc"),
    WorkerBackedOff(2.0, 1, 0.5, "TimeoutError: slow"),
    WorkerBackedOff(2.0, 1, None, "TimeoutError: slow"),
    RoundEnded(3.0, RoundInfo(0, 0.75, 2, 1, 0, calls=9, rollouts=1)),
]


def told(limits, seconds=0.0, usage=None):
    now = iter([0.0])
    clock = lambda: next(now, seconds)
    board = Board(limits, usage or Usage(), clock)
    for event in STORY:
        board(event)
    return board


def drawn(board, width=80):
    return {label: text.plain for label, text in rows(board, width)}


def test_the_board_counts_what_happens():
    board = told({})

    assert board.rewards == [0.25, 0.75]
    assert (board.first_version, board.version) == (3, 4)
    assert dict(board.counts) == {
        "rollouts": 1,
        "failures": 1,
        "proposals": 1,
        "evaluations": 1,
        "merges": 1,
        "commits": 1,
    }
    assert +board.outcomes == {"no-proposal": 1, "below-threshold": 1}


def test_the_block_shows_everything_there_is_to_know():
    assert drawn(told({"rounds": 4, "calls": 90}, seconds=10.0)) == {
        "reward": "0.750  ▃▆  from 0.250, version 4",
        "stages": "rollouts 1  proposals 1  evaluations 1  merges 1  commits 1  failures 1",
        "merge": "below-threshold: P = 0.40 <= 0.51",
        "outcomes": "below-threshold 1  no-proposal 1",
        "trouble": "worker 1 gave up: TimeoutError: slow",
        "spent": "rounds 1 of 4  calls 9 of 90",
        "left": "at most about 30.0 s, then rounds are spent",
    }


def test_the_budget_that_binds_is_the_one_that_ends_first():
    usage = Usage(prompt_tokens=900, completion_tokens=0, usd=0.001)
    board = told({"rounds": 4, "tokens": 1000, "cost": 1.0, "seconds": 600}, 9.0, usage)

    seconds, name = board.eta()

    assert (round(seconds, 6), name) == (1.0, "tokens")
    assert drawn(board)["spent"] == (
        "rounds 1 of 4  tokens 900 of 1,000  $0.0010 of $1  9.0 s of 10 min 00 s"
    )


def test_before_anything_is_known_nothing_is_claimed():
    board = Board({"rounds": 4})

    assert drawn(board) == {
        "reward": "not known yet",
        "stages": "measuring what there is",
        "spent": "rounds 0 of 4",
        "left": "nobody can say yet",
    }
    assert drawn(Board({}))["left"] == "until it is solved"


def test_after_the_end_nothing_is_left():
    board = told({}, 7.0)
    board(RunEnded(4.0, None))

    assert "left" not in drawn(board)
    assert drawn(board)["spent"] == "7.0 s"


@pytest.mark.parametrize(
    ("rewards", "width", "bars"),
    [([0.0, 0.5, 1.0], 9, "▁▅█"), ([0.0, 0.5, 1.0], 2, "▅█"), ([], 5, ""), ([1.0], 0, "")],
)
def test_sparklines_show_the_newest(rewards, width, bars):
    assert sparkline(rewards, width) == bars


@pytest.mark.parametrize("width", [30, 44, 200])
def test_no_line_of_the_block_is_wider_than_the_terminal(width):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)

    with LiveBlock(told({"rounds": 4}), console, "agentdescent run " + "x" * 60) as block:
        block(STORY[0])

    lines = out.getvalue().replace("\x1b[?25l", "").replace("\x1b[?25h", "").splitlines()
    assert max(len(line.rpartition("\x1b[2K")[2]) for line in lines) <= width


def test_plain_lines_tell_the_same_without_control_codes():
    out = io.StringIO()
    for event in STORY:
        PlainLines(out)(event)

    assert out.getvalue().splitlines() == [
        "held-out reward 0.250 at version 3; 6 tasks to learn from, 4 held out",
        "round 0: below-threshold, P = 0.40 <= 0.51",
        "worker 1 waits 0.5 s: TimeoutError: slow",
        "worker 1 gives up: TimeoutError: slow",
        "round 0: reward 0.750, 1 rollouts, 9 calls",
    ]


def test_json_lines_hold_no_secret(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    out = io.StringIO()

    JsonLines(out)(WorkerBackedOff(2.0, 1, 0.5, "denied: hush-hush"))

    assert '"error": "denied: [SOME_API_KEY]"' in out.getvalue()


def test_json_lines_hold_no_rest_of_a_secret_either(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "hush-hush")
    monkeypatch.setenv("B_TOKEN", 'hush-hush-"quietly"')
    out = io.StringIO()

    JsonLines(out)(WorkerBackedOff(2.0, 1, 0.5, 'denied: hush-hush-"quietly"'))

    assert '"error": "denied: [B_TOKEN]"' in out.getvalue()


def on_a_terminal(*arguments, **environment):
    """What a command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment}
    command = [sys.executable, "-m", "agentdescent", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        while chunk := read(ours):
            said += chunk
    os.close(ours)
    assert process.returncode == 0
    return said.decode()


def read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_terminal_gets_the_live_block():
    said = on_a_terminal("demo")

    for words in ("reward", "stages", "merge", "outcomes", "spent", "\x1b[2K", "\x1b[1;32m", "█"):
        assert words in said
    assert "round 0:" not in said
    assert "Traceback" not in said


def test_colours_are_left_out_when_unwanted():
    assert "\x1b[1;32m" not in on_a_terminal("demo", NO_COLOR="1")


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"COLUMNS": "20"}])
def test_terminals_that_cannot_be_redrawn_get_plain_lines(environment):
    said = on_a_terminal("demo", **environment)

    assert "round 0: committed" in said
    assert "\x1b[2K" not in said


def test_a_pipe_is_not_lively():
    assert not is_lively(io.StringIO())
