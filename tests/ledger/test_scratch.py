import asyncio
import gc
import os
import stat
import tempfile
from pathlib import Path

import anyio
import pytest

from agentdescent.errors import GitError, LedgerClosed
from agentdescent.ledger import scratch_ledger
from agentdescent.ledger.scratch import PREFIX
from support.ledgers import commit, state_of, stored

DAY_S = 24 * 3600


def homes():
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}


def planted(name, *, age_s=0.0, lock=False):
    """A directory that looks like a scratch ledger."""
    home = Path(tempfile.gettempdir()) / f"{PREFIX}{name}"
    (home / ".git").mkdir(parents=True)
    if lock:
        (home / "owner.lock").touch()
    status = home.stat()
    os.utime(home, (status.st_atime, status.st_mtime - age_s))
    return home


async def sweep():
    async with scratch_ledger():
        pass


@pytest.mark.asyncio
async def test_a_scratch_ledger_is_open_private_and_gone_afterwards():
    async with scratch_ledger() as ledger:
        assert ledger.path.name.startswith(PREFIX)
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o700
        await ledger.open()
        await ledger.register(stored({"a": "1"}))
        await commit(ledger, {"a": "2"}, 1)
        assert await state_of(ledger) == ({"a": "2"}, 2)
    assert not ledger.path.exists()
    with pytest.raises(LedgerClosed):
        await commit(ledger, {"a": "late"}, 2)
    assert not ledger.path.exists()


@pytest.mark.asyncio
async def test_it_goes_when_the_block_raises():
    with pytest.raises(KeyError):
        async with scratch_ledger() as ledger:
            raise KeyError
    assert not ledger.path.exists()


@pytest.mark.asyncio
async def test_it_goes_when_the_block_is_cancelled():
    with anyio.CancelScope() as scope:
        async with scratch_ledger() as ledger:
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not ledger.path.exists()


@pytest.mark.asyncio
@pytest.mark.parametrize("delay_ms", range(0, 12, 2))
async def test_it_goes_whenever_a_bare_task_is_cancelled(delay_ms):
    async def use():
        async with scratch_ledger() as ledger:
            await ledger.register(stored())
            await anyio.sleep_forever()

    before = homes()
    task = asyncio.create_task(use())
    asyncio.get_running_loop().call_later(delay_ms / 1000, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    assert homes() == before


@pytest.mark.asyncio
async def test_a_caller_may_use_many_at_once():
    async with scratch_ledger() as one, scratch_ledger() as other:
        assert one.path != other.path
        await sweep()
        await one.register(stored())
        await other.register(stored())
    assert homes() == set()


HELD = """
async def main():
    async with scratch_ledger() as ledger:
        await ledger.register(stored())
        print(ledger.path, flush=True)
        sys.stdin.readline()

anyio.run(main)
"""


@pytest.mark.asyncio
async def test_what_a_killed_process_left_is_removed_by_the_next_and_a_live_one_is_not(spawn):
    killed, living = spawn(HELD), spawn(HELD)
    left, kept = (Path(process.stdout.readline().strip()) for process in (killed, living))
    await sweep()
    assert left.exists()
    assert kept.exists()

    killed.kill()
    killed.wait()
    await sweep()

    assert not left.exists()
    assert kept.exists()
    living.communicate("end\n")
    assert not kept.exists()


EXITS = """
import atexit, threading

opened = threading.Event()

async def main():
    async with scratch_ledger() as ledger:
        await ledger.register(stored())
        print(ledger.path, flush=True)
        opened.set()
        await anyio.sleep_forever()

threading.Thread(target=anyio.run, args=[main], daemon=True).start()
opened.wait()
if not os.fork():
    atexit._run_exitfuncs()  # a child must not remove what is its parent's
    os._exit(0)
os.wait()
print(*Path(os.environ["TMPDIR"]).glob("agentdescent-evolve-*/.git/HEAD"))
"""


def test_it_goes_when_the_interpreter_exits_in_the_middle(python):
    home, head = python(EXITS).split()
    assert head == f"{home}/.git/HEAD"
    assert not Path(home).exists()


@pytest.mark.asyncio
async def test_a_home_without_a_lock_is_kept_for_a_day():
    young, old = planted("young", age_s=DAY_S - 60), planted("old", age_s=DAY_S + 60)
    await sweep()
    assert young.exists()
    assert not old.exists()
    (young / ".git").rmdir()
    young.rmdir()


@pytest.mark.asyncio
async def test_a_home_whose_lock_is_free_goes_at_once():
    home = planted("dead", lock=True)
    await sweep()
    assert not home.exists()


@pytest.mark.asyncio
async def test_the_sweep_follows_no_link_and_touches_nobody_elses(tmp_path, give_away):
    precious = planted("linked", lock=True, age_s=2 * DAY_S).rename(tmp_path / "precious")
    temporary = Path(tempfile.gettempdir())
    link = temporary / f"{PREFIX}link"
    link.symlink_to(precious)
    file = temporary / f"{PREFIX}file"
    file.touch()
    foreign = planted("foreign", lock=True, age_s=2 * DAY_S)
    give_away(foreign)
    fake = planted("fake", age_s=2 * DAY_S)
    (fake / "owner.lock").symlink_to(precious / "owner.lock")

    await sweep()

    assert all(path.exists() for path in (precious, link, file, foreign, fake))
    for path in (link, file, fake / "owner.lock", foreign / "owner.lock"):
        path.unlink()
    for path in (foreign, fake):
        (path / ".git").rmdir()
        path.rmdir()


@pytest.mark.asyncio
async def test_no_temporary_directory_is_a_ledger_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(GitError, match="create failed in git repository"):
        async with scratch_ledger():
            pytest.fail("nowhere to be")
