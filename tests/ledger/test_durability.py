"""What is brought to the disk, and when."""

import os
import warnings
from pathlib import Path

import pytest

from agentdescent.errors import ContractError
from agentdescent.ledger import GitLedger, disk, scratch_ledger
from agentdescent.ledger.faults import Step
from support.faults import Seen
from support.ledgers import commit, state_of, stored


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


@pytest.fixture
def synced(monkeypatch):
    """Paths in the order in which they are synced; a new name may follow."""
    paths = []

    def fsync(descriptor):
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def names(paths, ledger):
    return [path.relative_to(ledger.path / ".git").as_posix() for path in paths]


def objects_of(git, ledger, revision):
    listed = git(ledger.path, "rev-list", "--objects", "--no-walk", revision).splitlines()
    return {f"objects/{line[:2]}/{line[2:40]}" for line in listed}


@pytest.mark.asyncio
async def test_power_syncs_all_that_is_new_before_the_branch_moves_and_the_branch_after(
    tmp_path, git, synced
):
    seen = Seen()
    ledger = await opened(tmp_path, durability="power", faults=seen)
    await ledger.register(stored({"a": "1", "b": "2"}))
    before = objects_of(git, ledger, "dev")
    synced.clear()
    seen.steps.clear()

    await commit(ledger, {"a": "1", "b": "3"}, 1)

    order = names(synced, ledger)
    new = objects_of(git, ledger, "dev") - before
    assert set(order[: len(new)]) == new
    folders = {str(Path(path).parent) for path in new}
    assert set(order[len(new) : -5]) == folders
    assert order[-5:] == [
        "objects",
        "refs/heads/dev",
        "refs/heads",
        "logs/refs/heads/dev",
        "logs/refs/heads",
    ]
    assert seen.steps == [
        Step.BLOBS_WRITTEN,
        Step.COMMIT_WRITTEN,
        Step.OBJECTS_SYNCED,
        Step.BRANCH_LOCKED,
        Step.BRANCH_MOVED,
        Step.BRANCH_SYNCED,
    ]
    await ledger.close()


@pytest.mark.asyncio
async def test_power_syncs_what_others_left_unsynced(tmp_path, git, synced):
    careless = await opened(tmp_path)
    await careless.register(stored({"a": "1"}))
    careful = await opened(tmp_path, durability="power")
    await commit(careless, {"a": "1", "b": "2"}, 1)
    synced.clear()

    await commit(careful, {"a": "1", "b": "2", "c": "3"}, 2)

    assert objects_of(git, careful, "dev") <= set(names(synced, careful))
    await careless.close()
    await careful.close()


@pytest.mark.asyncio
async def test_process_syncs_nothing_before_it_closes_and_then_both_tips(ledger, git, synced):
    await ledger.register(stored({"a": "1"}))
    await commit(ledger, {"a": "2"}, 1)
    assert synced == []

    await ledger.close()

    order = names(synced, ledger)
    objects = objects_of(git, ledger, "dev") | objects_of(git, ledger, "stable")
    assert objects | {"refs/heads/dev", "refs/heads/stable"} <= set(order)
    assert order[-1] == "logs/refs/heads"


@pytest.mark.asyncio
async def test_who_only_reads_syncs_nothing_but_its_own_file(ledger, synced):
    await ledger.register(stored())
    reader = await opened(ledger.path)
    await reader.close()
    again = await opened(ledger.path)
    opening = len(synced)
    await again.read()
    await again.close()
    assert len(synced) == opening
    owner = f"agentdescent-owners/{again.run_id}.new"
    assert names(synced[-2:], ledger) == [owner, "agentdescent-owners"]


@pytest.mark.asyncio
async def test_a_throwaway_ledger_syncs_nothing(synced):
    async with scratch_ledger() as ledger:
        await ledger.register(stored({"a": "1"}))
        await commit(ledger, {"a": "2"}, 1)
    assert synced == []


@pytest.mark.asyncio
async def test_a_new_ledger_is_on_the_disk_before_it_has_its_name(tmp_path, synced):
    ledger = await opened(tmp_path / "runs" / "one")
    aside = [path for path in synced if ".git.new-" in str(path)]
    assert {path.name for path in aside} >= {"HEAD", "config", "dev", "stable", "objects"}
    where = synced.index(tmp_path / "runs" / "one")
    assert set(synced[:where]) == set(aside)
    assert synced[where + 1 : where + 3] == [tmp_path / "runs", tmp_path]
    await ledger.close()


@pytest.mark.asyncio
async def test_what_is_packed_is_not_synced_again(ledger, git, monkeypatch):
    await ledger.register(stored({"a": "1"}))
    await ledger.close()
    git(ledger.path, "gc", "--quiet")
    again = await opened(ledger.path, durability="power")
    assert (await commit(again, {"a": "2"}, 1))[1] == 2
    await again.close()


@pytest.mark.asyncio
async def test_what_is_known_to_be_on_the_disk_is_forgotten_when_it_is_too_much(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(disk, "_MOST_KNOWN", 0)
    ledger = await opened(tmp_path, durability="power")
    await ledger.register(stored({"a": "1"}))
    assert (await commit(ledger, {"a": "2"}, 1))[1] == 2
    await ledger.close()


@pytest.mark.asyncio
async def test_a_disk_that_fails_at_the_end_is_told_of_and_the_next_run_checks(ledger, monkeypatch):
    await ledger.register(stored({"a": "1"}))

    def fsync(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.warns(RuntimeWarning, match=r"not be closed in order \(\[Errno 5\] Input/out"):
            await ledger.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = await opened(ledger.path)
    assert [owner.run for owner in again.dead_runs] == [ledger.run_id]
    assert await state_of(again) == ({"a": "1"}, 1)
    await again.close()


@pytest.mark.parametrize("durability", ["disk", "", None])
def test_an_unknown_durability_is_refused(durability):
    with pytest.raises(ContractError, match="is none of none, process, power"):
        GitLedger("x", durability=durability)
