"""What tests of runners need: trees, agents that are Python programs, and a look at the machine."""

import os
import sys
import tempfile
from pathlib import Path

from agentdescent import Task
from agentdescent.agents.cli import cli_agent
from agentdescent.trees import canonical

TASK = Task("t1", "What is it?")


def tree(executable=(), **files):
    """A rendered tree; double underscores in a name are slashes, single ones dots."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return canonical(named, executable)


def python(source, *args):
    """A command that runs `source`."""
    return [sys.executable, "-I", "-S", "-c", source, *map(str, args)]


def python_agent(source, *args, **options):
    """An agent that is a Python program; its prompt is the last of `sys.argv`."""
    return cli_agent(python("import os, sys, signal, time\n" + source, *args), **options)


class Scripted:
    """An agent in this process: calls `act(path, prompt)`."""

    identity = "scripted"

    def __init__(self, act):
        self._act = act

    def __call__(self, prompt):
        raise AssertionError("it was not told where to work")

    def in_workspace(self, path):
        return lambda prompt: self._act(path, prompt)


class AsyncScripted(Scripted):
    def in_workspace(self, path):
        async def complete(prompt):
            return await self._act(path, prompt)

        return complete


def left_behind(root=None):
    """Directories and locks of workspaces."""
    return sorted(Path(root or tempfile.gettempdir()).glob("agentdescent-*"))


def processes_naming(text):
    """Ids of the processes that live, and have `text` among their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(text) in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
