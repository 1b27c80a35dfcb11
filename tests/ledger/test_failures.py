import errno
import os
import resource
import subprocess
from contextlib import contextmanager, suppress

import pytest

from agentdescent.errors import (
    CASConflict,
    ContractError,
    GitError,
    LedgerBusy,
    LedgerDamaged,
    LedgerFull,
    LedgerReadOnly,
)
from agentdescent.ledger import GitLedger
from agentdescent.ledger.failures import Damaged, translated
from support.ledgers import NOTE, commit, state_of, stored

NOISE = os.urandom(200_000).hex()


@contextmanager
def limited(which, soft):
    """Lower a limit of this process for a block."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


class Cramped:
    """A directory without much room: a tiny file system, or a limit where none is allowed."""

    def __init__(self, path, *, mounted):
        self.path, self.mounted = path, mounted

    @contextmanager
    def full(self):
        """Leave no room for a block."""
        if not self.mounted:
            with limited(resource.RLIMIT_FSIZE, 10):
                yield
            return
        filler = self.path / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
        filler.unlink()


@pytest.fixture
def cramped(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "small", place]
    mounted = not subprocess.run(mount, capture_output=True, check=False).returncode
    yield Cramped(place, mounted=mounted)
    if mounted:
        subprocess.run(["umount", place], check=True)


@pytest.mark.asyncio
async def test_a_full_file_system_fails_the_commit_and_nothing_else(cramped):
    ledger = GitLedger(cramped.path / "ledger")
    await ledger.open()
    await ledger.register(stored({"a": "1"}))

    with cramped.full():
        with pytest.raises(LedgerFull, match="commit failed in git repository") as caught:
            await commit(ledger, {"a": NOISE[:50_000]}, 1)
        assert caught.value.hint.startswith("free some space")
        assert await state_of(ledger) == ({"a": "1"}, 1)
        again = GitLedger(ledger.path)
        await again.open()
        assert await state_of(again) == ({"a": "1"}, 1)
        await again.close()

    assert (await commit(ledger, {"a": "2"}, 1))[1] == 2
    assert not [*ledger.path.rglob("tmp_*"), *ledger.path.rglob("refs/**/*.lock")]
    await ledger.close()


@pytest.mark.asyncio
async def test_a_ledger_that_finds_no_room_is_not_half_made(cramped):
    ledger = GitLedger(cramped.path / "ledger")

    with cramped.full(), pytest.raises(LedgerFull, match="create failed in git repository"):
        await ledger.open()

    assert list(cramped.path.rglob(".git*")) == []
    await ledger.close()


@pytest.mark.asyncio
async def test_a_limit_on_file_sizes_counts_as_full(ledger):
    await ledger.register(stored({"a": "1"}))
    with limited(resource.RLIMIT_FSIZE, 50_000), pytest.raises(LedgerFull):
        await commit(ledger, {"a": NOISE}, 1)
    assert await commit(ledger, {"a": NOISE}, 1)


@pytest.mark.asyncio
async def test_too_many_open_files_are_not_taken_for_damage(ledger):
    await ledger.register(stored({"a": "1"}))
    fresh = GitLedger(ledger.path)
    with limited(resource.RLIMIT_NOFILE, 0):
        for call in (commit(ledger, {"a": "2"}, 1), ledger.log(), fresh.open()):
            with pytest.raises(GitError, match="too many files are open"):
                await call
    async with ledger.locked():
        with limited(resource.RLIMIT_NOFILE, 0), pytest.raises(GitError, match="too many files"):
            await ledger.commit(stored({"a": "2"}), 1, NOTE)

    assert await state_of(ledger) == ({"a": "1"}, 1)
    await fresh.close()


AS_NOBODY = """
import shutil, tempfile
import agentdescent.ledger.session  # as nobody it could not be loaded

def allow(place, mode):
    for folder, _, _ in [*os.walk(place)]:
        os.chmod(folder, mode)

async def expect(kind, awaitable):
    try:
        await awaitable
    except LedgerError as error:
        assert type(error) is kind, repr(error)
    else:
        raise AssertionError(f"no {kind.__name__}")

async def work(path):
    ledger = GitLedger(path / "ledger")
    await ledger.open()
    await ledger.register(stored({"a": "1"}))
    os.chmod(ledger.path / ".git" / "refs" / "heads", 0o555)
    await expect(GitError, commit(ledger, {"a": "2"}, 1))
    allow(ledger.path / ".git", 0o555)
    again = GitLedger(ledger.path)
    await again.open()
    assert await state_of(again) == ({"a": "1"}, 1)
    assert len(await again.log()) == 2
    await again.close()
    await expect(LedgerReadOnly, commit(ledger, {"a": "2"}, 1))
    await expect(LedgerReadOnly, ledger.commit(stored({"a": "2"}), 1, NOTE))
    await expect(LedgerReadOnly, ledger.register(stored({}, "other")))
    below = GitLedger(ledger.path / ".git" / "below")
    await expect(LedgerReadOnly, below.open())
    await below.close()
    os.chmod(ledger.path / ".git", 0)
    await expect(LedgerPermission, ledger.read())
    await ledger.close()
    os.chmod(ledger.path / ".git", 0o755)
    allow(ledger.path / ".git", 0o755)

async def main():
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    if not os.getuid():
        os.chown(path, 65534, 65534)
        await anyio.to_thread.run_sync(os.getpid)  # whatever loads late, loads now
        os.setresuid(65534, 65534, 0)
    try:
        await work(path)
    finally:
        os.setresuid(os.getresuid()[2], os.getresuid()[2], -1)
        shutil.rmtree(path)

anyio.run(main)
"""


def test_what_may_not_be_written_can_be_read_and_says_so(python):
    python(AS_NOBODY)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "x"), LedgerFull),
        (OSError(errno.EDQUOT, "x"), LedgerFull),
        (OSError(errno.EFBIG, "x"), LedgerFull),
        (OSError(errno.EROFS, "x"), LedgerReadOnly),
        (OSError(errno.EACCES, "x"), LedgerReadOnly),
        (OSError(errno.EMFILE, "x"), GitError),
        (OSError(errno.EIO, "x"), GitError),
        (OSError("x"), GitError),
        (Damaged("x"), LedgerDamaged),
        (KeyError("x"), GitError),
        (ValueError("x"), GitError),
        (MemoryError(), GitError),
    ],
)
def test_every_failure_becomes_a_ledger_error_with_its_cause(tmp_path, error, kind):
    with pytest.raises(kind) as caught, translated("commit", tmp_path, writing=True):
        raise error
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error
    assert (caught.value.operation, caught.value.repo_path) == ("commit", str(tmp_path))
    assert "git" in str(caught.value)


@pytest.mark.parametrize("error", [CASConflict("x"), LedgerBusy("x"), ContractError("x")])
def test_errors_of_ours_pass_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as caught, translated("commit", tmp_path):
        raise error
    assert caught.value is error
