"""Other programs that move or lock the branches."""

import os
import shutil
from contextlib import suppress

import anyio
import pygit2
import pytest

from agentdescent.errors import CASConflict, GitError, LedgerBusy
from agentdescent.ledger import GitLedger, codec
from agentdescent.ledger.store import Store
from support.ledgers import NOTE, commit, state_of, stored


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


def backdate(path, seconds):
    status = path.stat()
    os.utime(path, (status.st_atime - seconds, status.st_mtime - seconds))


@pytest.mark.asyncio
async def test_a_person_may_commit_with_git_meanwhile(ledger, git):
    await ledger.register(stored({"a": "1"}))
    tree = git(ledger.path, "rev-parse", "dev^{tree}").strip()
    async with ledger.locked():
        foreign = git(ledger.path, "commit-tree", tree, "-p", "dev", "-m", "by hand").strip()
        git(ledger.path, "update-ref", "refs/heads/dev", foreign)
        made, _ = await ledger.commit(stored({"a": "2"}), 1, NOTE)

    assert git(ledger.path, "rev-parse", f"{made}~1").strip() == foreign


@pytest.mark.asyncio
@pytest.mark.parametrize("log", ["refs/heads/dev", "HEAD"])
async def test_a_branch_that_could_not_be_moved_is_free_and_where_it_was(ledger, log):
    await ledger.register(stored({"a": "1"}))
    path = ledger.path / ".git" / "logs" / log
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()
    (path / "in the way").touch()

    with pytest.raises(GitError, match=f"commit failed .* cannot create reflog at '{log}'"):
        await commit(ledger, {"a": "2"}, 1)

    assert await state_of(ledger) == ({"a": "1"}, 1)
    shutil.rmtree(path)
    path.write_bytes(kept)
    assert (await commit(ledger, {"a": "2"}, 1))[1] == 2


class FailsLate(pygit2.Repository):
    """Its transactions report a failure although they have moved the branch."""

    def transaction(self):
        transaction = super().transaction()
        move = transaction.commit

        def commit():
            move()
            raise OSError("the directory could not be synced")

        transaction.commit = commit
        return transaction


@pytest.mark.asyncio
async def test_a_commit_that_is_on_the_branch_has_happened_whatever_git_says(ledger):
    await ledger.register(stored({"a": "1"}))
    store = Store(FailsLate(ledger.path / ".git"), ledger.path)

    _, version = store.commit(stored({"a": "2"}), codec.encode("skill", {"a": "2"}), 1, NOTE)

    assert version == 2
    assert await state_of(ledger) == ({"a": "2"}, 2)
    store.close()


@pytest.mark.asyncio
async def test_the_branches_alone_lose_no_update_where_nobody_locks(ledger):
    rival = await opened(ledger.path)
    await ledger.register(stored({"n": "0"}))

    async def increment(writer):
        for _ in range(60):
            while True:
                state, version = await state_of(writer)
                following = stored({"n": str(int(state["n"]) + 1)})
                with suppress(CASConflict):
                    await writer.commit(following, version, NOTE)
                    break

    async with anyio.create_task_group() as group:
        group.start_soon(increment, ledger)
        group.start_soon(increment, rival)

    assert await state_of(ledger) == ({"n": "120"}, 121)
    await rival.close()


@pytest.mark.asyncio
async def test_a_fresh_lock_of_git_is_waited_for(ledger):
    await ledger.register(stored({"a": "1"}))
    lock = ledger.path / ".git" / "refs" / "heads" / "dev.lock"
    lock.touch()

    async with anyio.create_task_group() as group:
        group.start_soon(commit, ledger, {"a": "2"}, 1)
        await anyio.sleep(0.1)
        assert await state_of(ledger) == ({"a": "1"}, 1)
        lock.unlink()

    assert await state_of(ledger) == ({"a": "2"}, 2)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("branch", "write"),
    [
        ("dev", lambda ledger: commit(ledger, {"a": "2"}, 2)),
        ("stable", lambda ledger: ledger.promote("skill")),
    ],
)
async def test_a_lock_that_a_dead_git_left_is_removed_with_a_warning(ledger, branch, write):
    await ledger.register(stored({"a": "1"}))
    await commit(ledger, {"a": "2"}, 1)
    lock = ledger.path / ".git" / "refs" / "heads" / f"{branch}.lock"
    lock.touch()
    backdate(lock, 3)

    with pytest.warns(RuntimeWarning, match=rf"removed .*/{branch}\.lock, which .* 3 s ago"):
        await write(ledger)

    assert not lock.exists()
    assert (await state_of(ledger, branch=branch))[0] == {"a": "2"}


@pytest.mark.asyncio
async def test_a_live_lock_of_git_past_the_timeout_is_busy_and_stays(ledger):
    await ledger.register(stored({"a": "1"}))
    hasty = await opened(ledger.path, lock_timeout=0.05)
    lock = ledger.path / ".git" / "refs" / "heads" / "dev.lock"
    lock.touch()

    with pytest.raises(LedgerBusy, match=r"another program holds dev.lock .* for 0.05 s"):
        await commit(hasty, {"a": "2"}, 1)

    assert lock.exists()
    assert await state_of(ledger) == ({"a": "1"}, 1)
    await hasty.close()


@pytest.mark.asyncio
async def test_without_our_own_lock_no_lock_of_git_is_removed(ledger):
    await ledger.register(stored({"a": "1"}))
    hasty = await opened(ledger.path, lock_timeout=0.05)
    lock = ledger.path / ".git" / "refs" / "heads" / "dev.lock"
    lock.touch()
    backdate(lock, 3)

    with pytest.raises(LedgerBusy):
        await hasty.commit(stored({"a": "2"}), 1, NOTE)

    assert lock.exists()
    await hasty.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"])
async def test_other_locks_of_git_do_not_matter(ledger, name):
    await ledger.register(stored({"a": "1"}))
    (ledger.path / ".git" / name).touch()
    assert (await commit(ledger, {"a": "2"}, 1))[1] == 2
