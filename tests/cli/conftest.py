"""The command line as its users have it: a process of its own."""

import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "agentdescent"]


@pytest.fixture
def agentdescent(tmp_path):
    """Run one command to its end, in a directory of its own; its output is text."""

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
