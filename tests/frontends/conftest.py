"""A skill, a program, the tasks they are for, and who works with them."""

import sys

import pytest

from agentdescent import Task, cli_agent

AGENT = """
import pathlib, sys
prompt = sys.stdin.read()
if "EDITS" in prompt:
    print('<EDITS>{"edits": [{"path": "SKILL.md", "content": "Use cents."}]}</EDITS>')
else:
    skill = next(pathlib.Path(".claude").rglob("SKILL.md")).read_text()
    print(prompt.split()[0] + ("00" if "cents" in skill else ""))
"""
"""Gives dollars as cents if the skill says so; as a reflector it says so."""

MAIN = "import sys\nprint(int(sys.argv[1]) * 10)\n"

CENTS = '<EDITS>{"edits": [{"path": "SKILL.md", "content": "Use cents."}]}</EDITS>'


def in_cents(count=10):
    return [{"prompt": f"{n}", "gold": f"{n}00"} for n in range(1, count + 1)]


@pytest.fixture
def agent(tmp_path):
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    return cli_agent([sys.executable, "-S", program], via_stdin=True)


@pytest.fixture
def skill(tmp_path):
    """A directory with a skill, and a file that no tree has."""
    folder = tmp_path / "price list"
    folder.mkdir()
    (folder / "SKILL.md").write_text("Use dollars.")
    (folder / "logo.png").write_bytes(b"\0")
    return folder


@pytest.fixture
def program(tmp_path):
    """A program that is wrong, and a test that does not notice."""
    folder = tmp_path / "program"
    (folder / "tests").mkdir(parents=True)
    (folder / "main.py").write_text(MAIN)
    (folder / "tests" / "check.py").write_text("print('fine')")
    return folder


def tasks(count=10):
    return [Task(row["prompt"], row["prompt"], {"gold": row["gold"]}) for row in in_cents(count)]


class Looking:
    """An agent that looks which Markdown files there are, and knows no answer."""

    def __init__(self, place=None, seen=None):
        self.place = place
        self.seen = [] if seen is None else seen

    def in_workspace(self, path):
        return Looking(path, self.seen)

    def __call__(self, prompt):
        del prompt
        files = self.place.rglob("*.md")
        self.seen.append(sorted(str(file.relative_to(self.place)) for file in files))
        return "none"
