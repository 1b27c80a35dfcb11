"""A disk that is full at any step: an error or a recovery, and nothing committed is lost."""

import warnings

import pytest

from agentdescent.errors import LedgerFull
from agentdescent.ledger import GitLedger, Step, owners
from support.faults import Failing, Seen
from support.ledgers import commit, state_of, stored

CREATING = [Step.LAID_OUT, Step.BORN]
OPENING = [Step.UNLOCKED, Step.BURIED, Step.OWNED]
WRITING = [Step.COMMIT_WRITTEN, Step.OBJECTS_SYNCED, Step.BRANCH_LOCKED, Step.BRANCH_SYNCED]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


@pytest.mark.asyncio
async def test_the_steps_of_a_run_come_in_order(tmp_path):
    seen = Seen()
    ledger = await opened(tmp_path, faults=seen)
    await ledger.register(stored({"a": "1"}))
    await ledger.close()

    writing = [Step.BLOBS_WRITTEN, Step.COMMIT_WRITTEN, Step.BRANCH_LOCKED, Step.BRANCH_MOVED]
    assert seen.steps == [
        *(Step.LAID_OUT, Step.BORN, Step.CREATED),
        *(Step.UNLOCKED, Step.CHECKED, Step.BURIED, Step.OWNED),
        *(writing * 2),
        *(Step.HEAD_SYNCED, Step.LEFT),
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("step", CREATING)
async def test_a_ledger_that_could_not_be_made_is_not_there(tmp_path, step):
    ledger = GitLedger(tmp_path / "runs", faults=Failing(step))
    with pytest.raises(LedgerFull, match="create failed in git repository"):
        await ledger.open()
    assert list((tmp_path / "runs").iterdir()) == []
    await ledger.open()
    await ledger.close()


@pytest.mark.asyncio
async def test_a_ledger_that_was_made_is_there_whatever_fails_then(tmp_path):
    ledger = await opened(tmp_path, faults=Failing(Step.CREATED))
    assert len(await ledger.log()) == 1
    await ledger.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("step", OPENING)
async def test_opening_that_failed_leaves_no_owner_alive_and_can_be_tried_again(ledger, step):
    await ledger.register(stored({"a": "1"}))
    other = GitLedger(ledger.path, faults=Failing(step))

    with pytest.raises(LedgerFull, match="open failed in git repository"):
        await other.open()

    assert await ledger.live_runs() == ()
    await other.open()
    assert await state_of(other) == ({"a": "1"}, 1)
    await other.close()
    assert len(list((ledger.path / ".git" / owners.FOLDER).iterdir())) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("step", WRITING)
async def test_a_commit_that_failed_can_be_made_again(tmp_path, git, step):
    path = tmp_path / "ledger"
    first = await opened(path)
    await first.register(stored({"a": "1"}))
    await first.close()
    ledger = await opened(path, durability="power", faults=Failing(step, for_good=True))

    with pytest.raises(LedgerFull, match="commit failed in git repository"):
        await commit(ledger, {"a": "2"}, 1)
    (_, version) = await state_of(ledger)
    assert version == (2 if step is Step.BRANCH_SYNCED else 1)
    with pytest.warns(RuntimeWarning, match="could not be closed in order"):
        await ledger.close()

    again = await opened(path)
    assert (await commit(again, {"a": "3"}, version))[1] == version + 1
    await again.close()
    assert git(path, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.asyncio
async def test_a_commit_that_the_branch_names_has_happened(tmp_path):
    ledger = await opened(tmp_path, faults=Failing(Step.BRANCH_MOVED, 3))
    await ledger.register(stored({"a": "1"}))
    assert (await commit(ledger, {"a": "2"}, 1))[1] == 2
    assert await state_of(ledger) == ({"a": "2"}, 2)
    await ledger.close()


@pytest.mark.asyncio
async def test_one_failure_to_write_an_object_is_tried_again(tmp_path):
    ledger = await opened(tmp_path, faults=Failing(Step.BLOBS_WRITTEN))
    await ledger.register(stored({"a": "1"}))
    assert await state_of(ledger) == ({"a": "1"}, 1)
    await ledger.close()


@pytest.mark.asyncio
async def test_a_run_that_found_no_room_for_its_file_may_read_and_claims_when_it_writes(
    ledger, monkeypatch
):
    await ledger.register(stored({"a": "1"}))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(owners, "try_seize", full)
        patch.setattr(owners, "sync", full)
        reader = await opened(ledger.path)
        assert await state_of(reader) == ({"a": "1"}, 1)
        assert await ledger.live_runs() == ()
        with pytest.raises(LedgerFull):
            await commit(reader, {"a": "2"}, 1)

    await commit(reader, {"a": "2"}, 1)
    assert [owner.run for owner in await ledger.live_runs()] == [reader.run_id]
    await reader.close()
