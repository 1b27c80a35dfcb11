"""Child processes for tests, and a line that tells when the last of a family is dead."""

import os
import sys

import anyio

PREAMBLE = """
import os, resource, signal, sys, time

def hold(path):
    line = os.open(path, os.O_WRONLY)
    os.write(line, b"up")

"""


class Programs:
    """Writes programs, and gives the commands that run them."""

    def __init__(self, directory):
        self._directory = directory
        self._made = 0

    def __call__(self, source, *args):
        self._made += 1
        file = self._directory / f"program{self._made}.py"
        file.write_text(PREAMBLE + source)
        return [sys.executable, "-I", "-S", str(file), *map(str, args)]


class Lifeline:
    """Held by a program and all it forks: at the end of the last of them it is cut."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def taken(self):
        """Wait until a program holds it."""
        await anyio.wait_readable(self._end)
        assert os.read(self._end, 2) == b"up"

    async def is_cut(self, within):
        """True if within so many seconds nobody holds it any longer."""
        with anyio.move_on_after(within):
            while True:
                await anyio.wait_readable(self._end)
                if os.read(self._end, 64) == b"":
                    return True
        return False

    def close(self):
        os.close(self._end)
