import errno
import fcntl
import os
import warnings
from pathlib import Path

import anyio
import pytest

from agentdescent.errors import LedgerBusy
from agentdescent.ledger.lock import Patience, Watch, WriteLock
from agentdescent.locks import try_seize


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture
def rival(path):
    """Somebody else's hold of the lock."""
    descriptor = os.open(path / WriteLock.FILE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


@pytest.mark.asyncio
async def test_the_lock_is_held_for_the_block_alone(path):
    lock = WriteLock(path, timeout=1)
    async with lock.hold():
        assert lock.held
    assert not lock.held


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_lock_that_stays_taken_is_busy_after_the_timeout(path, rival, looptime):
    lock = WriteLock(path, timeout=2)
    with pytest.raises(LedgerBusy, match="another writer has kept the lock for 2 s; wait for"):
        async with lock.hold():
            pytest.fail("not ours")

    assert 2 <= looptime <= 2.02
    assert not lock.held


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_lock_that_becomes_free_is_taken_within_20_ms(path, rival, looptime):
    async def release():
        await anyio.sleep(1)
        fcntl.flock(rival, fcntl.LOCK_UN)

    async with anyio.create_task_group() as group:
        group.start_soon(release)
        async with WriteLock(path, timeout=30).hold():
            assert 1 <= looptime <= 1.02


@pytest.mark.asyncio
async def test_a_timeout_of_zero_tries_once(path, rival):
    with pytest.raises(LedgerBusy):
        async with WriteLock(path, timeout=0).hold():
            pytest.fail("not ours")


@pytest.mark.asyncio
async def test_a_forked_child_cannot_keep_the_lock(path):
    async with WriteLock(path, timeout=0).hold():
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    async with WriteLock(path, timeout=0).hold():
        pass
    os.close(writer)
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.asyncio
async def test_the_lock_is_not_inherited_by_programs(path):
    async with WriteLock(path, timeout=0).hold():
        links = Path("/proc/self/fd").iterdir()
        held = [int(link.name) for link in links if link.resolve() == path / WriteLock.FILE]
        assert [os.get_inheritable(descriptor) for descriptor in held] == [False]


@pytest.mark.asyncio
async def test_a_file_system_without_locks_warns_once_and_lets_the_block_run(path):
    def unsupported(_):
        raise OSError(errno.ENOLCK, "No locks available")

    lock = WriteLock(path, timeout=1, try_seize=unsupported)
    with pytest.warns(RuntimeWarning, match=r"has no file locks \(No locks available\)"):
        async with lock.hold():
            assert not lock.held
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with lock.hold():
            pass


@pytest.mark.asyncio
async def test_other_errors_of_the_file_system_pass_through(path):
    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        async with WriteLock(path, timeout=1, try_seize=broken).hold():
            pytest.fail("not ours")


@pytest.mark.asyncio
async def test_no_directory_is_made_for_the_lock(tmp_path):
    with pytest.raises(FileNotFoundError):
        async with WriteLock(tmp_path / "gone", timeout=1).hold():
            pytest.fail("not ours")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_patience_ends_on_time_and_waits_a_moment_each_time(looptime):
    patience = Patience(1)
    waits = 0
    while await patience.wait():
        waits += 1

    assert 1 <= looptime <= 1.02
    assert 50 <= waits <= 2000


def test_a_file_that_cannot_be_locked_is_an_error(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        try_seize(descriptor)


@pytest.mark.parametrize(
    ("age", "watched", "removed"),
    [(0, 0, False), (3, 0, True), (0, 1.9, False), (0, 2.1, True), (-3600, 2.1, True)],
    ids=["young", "old", "watched", "watched for long", "the clock was set back"],
)
def test_a_lock_of_git_goes_when_it_is_old_or_was_watched_for_long(tmp_path, age, watched, removed):
    lock = tmp_path / "dev.lock"
    lock.touch()
    os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - age))
    watch = Watch()

    said = [watch.remove(lock, now) for now in (100, 100 + watched)]

    assert lock.exists() is not removed
    assert [bool(text) for text in said] == [age > 2, removed and age <= 2]


def test_another_lock_of_git_is_watched_anew(tmp_path):
    lock, watch = tmp_path / "dev.lock", Watch()
    for now in range(100, 110):
        lock.touch()
        os.utime(lock, ns=(now, lock.stat().st_mtime_ns + now))
        assert watch.remove(lock, now) is None
    lock.unlink()
    assert watch.remove(lock, 200) is None


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_who_has_waited_longer_looks_more_often(looptime):
    patience, waits = Patience(1), []
    while await patience.wait():
        waits.append(looptime - sum(waits))
    assert max(waits[:5]) > 0.001
    assert max(waits[len(waits) // 2 :]) <= 0.0011


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_who_waits_for_something_slow_saves_its_strength(looptime):
    patience, waits = Patience(3), 0
    while await patience.wait(first=True):
        waits += looptime > 1.1
    assert 90 <= waits <= 400


@pytest.mark.asyncio
async def test_a_lock_may_be_waited_for_shorter_than_usual(path, rival):
    with pytest.raises(LedgerBusy, match=r"for 0\.01 s"):
        async with WriteLock(path, timeout=30).hold(0.01):
            pytest.fail("not ours")
