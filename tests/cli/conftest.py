"""The command line: within the test, or as a process of its own."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentdescent.cli.app import app

COMMAND = [sys.executable, "-m", "agentdescent"]

AGENT = """
import sys, time
prompt = sys.argv[-1]
price = prompt.rpartition("$")[2].split()[0].rstrip(".?")
if "Output:" not in prompt:
    print(f"${price}")
else:
    time.sleep(float(sys.argv[1]))
    print(price.replace(".", ""))
"""
"""Answers in dollars until it is shown a worked example, and then thinks for a while."""


@pytest.fixture(autouse=True)
def _colours_as_by_default(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def agentdescent(tmp_path, monkeypatch):
    """Carry out one command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, env=None):
        done = CliRunner().invoke(app, [*map(str, arguments)], env=env)
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def process(tmp_path):
    """Run one command to its end in a process of its own; its output is text."""

    def run(*arguments, **options):
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def started(tmp_path):
    """Start one command; whatever is left of it is killed at the end of the test."""
    processes = []

    def start(*arguments, **options):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            **options,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def write_tasks(path, count=10):
    lines = (
        json.dumps({"prompt": f"A mug costs ${n}.50. What is the price?", "gold": f"{n}50"})
        for n in range(1, count + 1)
    )
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def priced(tmp_path):
    """The arguments of a run with `count` tasks, whose agent thinks for `seconds` once it knows."""
    program = tmp_path / "agent.py"
    program.write_text(AGENT, encoding="utf-8")
    write_tasks(tmp_path / "tasks.jsonl")

    def arguments(*more, seconds=0, out="out"):
        command = f"{sys.executable} -S {program} {seconds}"
        given = ("--agent-command", command, "--strategy", "fewshot", "--out", out, *more)
        return ("run", "tasks.jsonl", *given)

    return arguments
