"""Processes that work on a ledger until something kills them, and what must hold afterwards."""

import json
import os
import shutil
import signal
import subprocess
import warnings
from pathlib import Path

import anyio

from agentdescent.errors import LedgerError
from agentdescent.ledger import GitLedger
from support.ledgers import NOTE, stored

N_KEYS = 5


def state_at(version):
    """The one state that a version may have."""
    return {f"key {i}": str(version - (version - i) % N_KEYS) for i in range(N_KEYS)}


async def work(path, report, commits=1_000_000, **options):
    """Open, commit, promote now and then, close; every commit is announced and acknowledged."""
    ledger = GitLedger(path, **options)
    await ledger.open()
    try:
        report({"trying": 1})
        version = (await ledger.register(stored(state_at(1)))).version
        report({"done": version})
        for _ in range(commits):
            report({"trying": version + 1})
            async with ledger.locked():
                entry = stored(state_at(version + 1))
                _, version = await ledger.commit(entry, version, NOTE)
            report({"done": version})
            if not version % 4:
                await ledger.promote("skill")
    finally:
        await ledger.close()
    report({"closed": True})


class Child:
    """A forked process that runs `main(report)` and ends; what it reports is read by its parent."""

    def __init__(self, main):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reader)
            self._live(main, writer)
        os.close(writer)
        self._reader = reader
        self.signal = None

    def _live(self, main, writer):
        def report(message):
            os.write(writer, f"{json.dumps(message)}\n".encode())

        warnings.simplefilter("ignore")
        try:
            main(report)
        except LedgerError as error:
            report({"error": f"{type(error).__name__}: {error}"})
        except BaseException as error:
            report({"crash": repr(error)})
        os._exit(0)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        """What it has reported, once it has ended."""
        with os.fdopen(self._reader, "rb") as pipe:
            lines = pipe.read().splitlines()
        _, status = os.waitpid(self.pid, 0)
        self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        messages = [json.loads(line) for line in lines]
        crashes = [message["crash"] for message in messages if "crash" in message]
        assert not crashes, crashes
        return messages


def working(path, **options):
    """A child that works on a ledger."""
    return Child(lambda report: anyio.run(lambda: work(path, report, **options)))


def acknowledged(messages, least=0):
    """The last version that was acknowledged, and the last that was begun."""
    done = [message["done"] for message in messages if "done" in message]
    tried = [message["trying"] for message in messages if "trying" in message]
    return max([least, *done]), max([least, *tried, *done])


def examine(path, least, most, *, fsck=True):
    """Open a ledger that something happened to; return its version then and now, and the warnings.

    It holds a version between `least` and `most` with the state of that version, and works.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        versions = anyio.run(_examine, path, least, most)
    if fsck:
        check_with_git(path)
    left = [str(lock) for lock in (path / ".git" / "refs").rglob("*.lock")]
    assert not left, left
    return *versions, [str(warning.message) for warning in caught]


async def _examine(path, least, most):
    ledger = GitLedger(path, lock_timeout=5)
    await ledger.open()
    found = (await ledger.read()).get("skill")
    version = found.version if found else 0
    assert least <= version <= most, f"version {version} is not in {least}..{most}"
    if found is None:
        found = await ledger.register(stored(state_at(1)))
    assert dict(found.state) == state_at(found.version), f"version {version} has another state"
    async with ledger.locked():
        entry = stored(state_at(found.version + 1))
        _, following = await ledger.commit(entry, found.version, NOTE)
    assert following == found.version + 1
    await ledger.promote("skill")
    await ledger.close()
    return version, following


def check_with_git(path):
    """`git fsck` finds nothing; objects that nobody refers to are no fault."""
    command = ["git", "-C", str(path), "fsck", "--strict", "--no-dangling", "--no-progress"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def copy(template, place):
    """Copy a ledger; its objects, which nobody changes in place, are shared."""

    def share(source, target):
        (os.link if "objects" in Path(source).parts else shutil.copy2)(source, target)

    shutil.copytree(template, place, copy_function=share)
