"""Ledgers to test, git itself beside them, and Python in a process of its own."""

import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack

import pygit2
import pytest
import pytest_asyncio

from agentdescent.ledger import GitLedger, MemoryLedger

PRELUDE = """\
import json, os, signal, sys
from pathlib import Path
import anyio
from support.ledgers import *
from agentdescent.errors import *
from agentdescent.ledger import GitLedger, MemoryLedger, scratch_ledger
"""


@pytest_asyncio.fixture
async def ledger(tmp_path):
    """A git ledger, open, in `tmp_path/ledger`."""
    opened = GitLedger(tmp_path / "ledger", lock_timeout=5)
    await opened.open()
    yield opened
    await opened.close()


@pytest_asyncio.fixture(params=["git", "memory"])
async def store(request, tmp_path):
    """A ledger of either kind, open."""
    opened = GitLedger(tmp_path / "ledger") if request.param == "git" else MemoryLedger()
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A plain bare repository, open, that the tests of a module share."""
    opened = pygit2.init_repository(tmp_path_factory.mktemp("bare"), bare=True)
    yield opened
    opened.free()


@pytest.fixture(scope="session")
def git(tmp_path_factory):
    """Run git as a user with an empty configuration; return what it prints."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    names = {
        f"GIT_{who}_{what}": "reader@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environment = {
        **kept,
        **names,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def run(path, *arguments, text=None):
        command = ["git", "-C", str(path), *arguments]
        done = subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def spawn():
    """Start Python on a piece of code; its arguments are in `sys.argv[1:]`."""
    with ExitStack() as stack:

        def start(code, *arguments, **environment):
            path = os.pathsep.join(filter(None, sys.path))
            process = subprocess.Popen(
                [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)],
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    **{name: str(value) for name, value in environment.items()},
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def python(spawn):
    """Run Python on a piece of code to its good end; return what it prints."""

    def run(code, *arguments, **environment):
        process = spawn(code, *arguments, **environment)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        return out

    return run


@pytest.fixture
def listing():
    """Every path below a directory, with the content of every file."""

    def look(directory):
        return {
            str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes()
            for path in directory.rglob("*")
        }

    return look


@pytest.fixture
def give_away(monkeypatch):
    """Make a directory somebody else's; where only root may, make this process somebody else."""

    def give(path):
        if os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        else:
            os.chown(path, 12345, 12345)

    return give
