"""Who has a ledger open, and who died over it."""

import json
import os
import signal
import socket
import warnings
from contextlib import contextmanager

import pytest

from agentdescent.errors import GitError, LedgerRefused
from agentdescent.ledger import GitLedger, Owner, owners
from agentdescent.ledger.system import boot_id
from support.ledgers import state_of, stored


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


def files(ledger):
    return sorted(file.name for file in (ledger.path / ".git" / owners.FOLDER).iterdir())


@contextmanager
def process(spawn, code, path):
    child = spawn(code, path)
    assert child.stdout.readline() == "open\n", child.communicate()[1]
    yield child
    child.kill()
    child.wait()


HOLD = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    await ledger.register(stored())
    print("open", flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main)
"""


@pytest.mark.asyncio
async def test_an_open_run_has_a_file_that_says_who_it_is_and_closing_removes_it(ledger):
    assert files(ledger) == [f"{ledger.run_id}.lock"]
    file = ledger.path / ".git" / owners.FOLDER / files(ledger)[0]
    assert json.loads(file.read_text()) == {
        "run": ledger.run_id,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot": boot_id(),
    }
    await ledger.close()
    assert files(ledger) == []


@pytest.mark.asyncio
async def test_runs_have_ids_of_their_own_that_sort_by_time(tmp_path):
    one, other = GitLedger(tmp_path), GitLedger(tmp_path)
    assert one.run_id != other.run_id
    assert one.run_id[:15] <= other.run_id[:15]


@pytest.mark.asyncio
async def test_others_that_are_open_are_known(ledger, spawn):
    assert (await ledger.live_runs(), ledger.dead_runs) == ((), ())
    peer = await opened(ledger.path)
    with process(spawn, HOLD, ledger.path) as child:
        pids = {owner.pid for owner in await ledger.live_runs()}
        assert pids == {os.getpid(), child.pid}
    assert [owner.run for owner in await ledger.live_runs()] == [peer.run_id]
    await peer.close()
    assert await ledger.live_runs() == ()


@pytest.mark.asyncio
async def test_a_run_that_was_killed_is_found_and_its_file_removed(ledger, spawn):
    await ledger.close()
    with process(spawn, HOLD, ledger.path) as child:
        pass
    again = await opened(ledger.path)

    (dead,) = again.dead_runs
    assert (dead.pid, dead.host) == (child.pid, socket.gethostname())
    assert files(again) == [f"{again.run_id}.lock"]
    assert await state_of(again) == ({"rule": "be brief"}, 1)
    await again.close()


FORKED = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    async with ledger.locked():
        if not os.fork():
            print(os.getpid(), flush=True)
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@pytest.mark.asyncio
async def test_a_forked_child_that_outlives_its_parent_keeps_no_lock_of_it(ledger, spawn):
    await ledger.close()
    parent = spawn(FORKED, ledger.path)
    child = int(parent.stdout.readline())
    parent.wait()
    try:
        again = await opened(ledger.path, lock_timeout=1)
        assert [owner.pid for owner in again.dead_runs] == [parent.pid]
        await again.close()
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.asyncio
async def test_a_forked_child_that_closes_leaves_its_parents_file(ledger):
    child = os.fork()
    if not child:
        ledger._session._claim.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert files(ledger) == [f"{ledger.run_id}.lock"]
    peer = await opened(ledger.path)
    assert [owner.run for owner in await peer.live_runs()] == [ledger.run_id]
    await peer.close()


@pytest.mark.asyncio
async def test_exclusive_refuses_a_live_owner_by_pid_and_host_and_changes_nothing(ledger, listing):
    before = listing(ledger.path)
    greedy = GitLedger(ledger.path, exclusive=True)

    with pytest.raises(LedgerRefused) as caught:
        await greedy.open()

    who = f"run {ledger.run_id} (process {os.getpid()} on {socket.gethostname()}) has it open"
    assert who in str(caught.value)
    assert listing(ledger.path) == before
    await greedy.close()
    await ledger.close()
    after = await opened(ledger.path, exclusive=True)
    assert after.dead_runs == ()
    await after.close()


@pytest.mark.asyncio
async def test_exclusive_takes_over_from_the_dead(ledger):
    await ledger.close()
    (ledger.path / ".git" / owners.FOLDER / "dead.lock").write_text("{torn")
    heir = await opened(ledger.path, exclusive=True)
    assert heir.dead_runs == (Owner("dead"),)
    await heir.close()


@pytest.mark.asyncio
async def test_what_was_not_yet_named_is_removed(ledger):
    unnamed = ledger.path / ".git" / owners.FOLDER / "x.new"
    unnamed.touch()
    peer = await opened(ledger.path)
    assert not unnamed.exists()
    await peer.close()


def test_who_cannot_be_told_dead_is_unknown(tmp_path, monkeypatch):
    (tmp_path / owners.FOLDER).mkdir()
    (tmp_path / owners.FOLDER / "run.lock").touch()

    def unsupported(_):
        raise OSError("no locks here")

    monkeypatch.setattr(owners, "is_seized", unsupported)
    found = owners.survey(tmp_path)
    assert (found.live, found.dead, found.unknown) == ((), (), (Owner("run"),))
    assert not found.is_clean


def test_a_claim_without_room_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError("full")

    monkeypatch.setattr(owners, "sync", full)
    with pytest.raises(OSError, match="full"):
        owners.Claim(tmp_path, "run")
    assert list((tmp_path / owners.FOLDER).iterdir()) == []


def test_a_claim_without_locks_is_a_file_all_the_same(tmp_path, monkeypatch):
    def unsupported(_):
        raise OSError("no locks here")

    monkeypatch.setattr(owners, "try_seize", unsupported)
    claim = owners.Claim(tmp_path, "run", synced=False)
    assert (tmp_path / owners.FOLDER / "run.lock").exists()
    claim.release()
    assert not (tmp_path / owners.FOLDER / "run.lock").exists()


@pytest.mark.asyncio
async def test_the_folder_is_made_where_an_older_ledger_has_none(ledger):
    await ledger.close()
    (ledger.path / ".git" / owners.FOLDER).rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = await opened(ledger.path)
    assert files(again) == [f"{again.run_id}.lock"]
    await again.register(stored())
    await again.close()


READ_ONLY = """
async def main():
    path = Path(sys.argv[1])
    ledger = GitLedger(path)
    await ledger.open()
    await ledger.register(stored())
    await ledger.close()
    before = sorted(map(str, path.rglob("*")))
    os.system(f"mount --bind {path} {path} && mount -o remount,bind,ro {path}")
    reader = GitLedger(path)
    await reader.open()
    print(await state_of(reader), reader.dead_runs, await reader.live_runs())
    for call in (reader.register(stored({}, "other")), GitLedger(path, exclusive=True).open()):
        try:
            await call
        except LedgerReadOnly as error:
            print(error.hint)
    await reader.close()
    assert before == sorted(map(str, path.rglob("*")))

import agentdescent.ledger.session
if os.geteuid() or os.system("unshare -m true 2>/dev/null"):
    print("no mounts")
else:
    import ctypes
    assert not ctypes.CDLL(None).unshare(0x00020000)
    os.system("mount --make-rprivate /")
    anyio.run(main)
"""


def test_a_read_only_file_system_is_read_and_nothing_else(tmp_path, python):
    printed = python(READ_ONLY, tmp_path / "ledger").splitlines()
    hint = "check its permissions and how its file system is mounted"
    assert printed in (["no mounts"], ["({'rule': 'be brief'}, 1) () ()", hint, hint])


@pytest.mark.asyncio
async def test_where_no_file_can_be_made_nothing_is_opened_for_writing(ledger):
    await ledger.close()
    folder = ledger.path / ".git" / owners.FOLDER
    folder.rmdir()
    folder.symlink_to(folder)
    other = GitLedger(ledger.path)
    with pytest.raises(GitError, match="open failed"):
        await other.open()
    await other.close()
