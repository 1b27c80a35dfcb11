"""Loose objects become packs, and packs become fewer."""

import pytest
import pytest_asyncio

from agentdescent.ledger import GitLedger, packing, session
from agentdescent.ledger.faults import NoFaults, Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.packing import Packer
from agentdescent.ledger.repository import open_repository
from support.faults import Failing
from support.ledgers import commit, state_of, stored


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


def packs(ledger):
    return sorted(ledger.path.glob(".git/objects/pack/*.pack"))


def loose(ledger):
    return sum(1 for file in ledger.path.glob(".git/objects/??/*"))


def n_files(ledger):
    return sum(1 for path in (ledger.path / ".git").rglob("*") if path.is_file())


@pytest.fixture(autouse=True)
def low_bounds(monkeypatch):
    monkeypatch.setattr(session, "MANY_LOOSE", 20)
    monkeypatch.setattr(session, "TOO_MANY_LOOSE", 100)
    monkeypatch.setattr(session, "MANY_PACKS", 4)
    monkeypatch.setattr(session, "FEW_PACKS", 2)


@pytest_asyncio.fixture
async def full(tmp_path):
    """A ledger with more loose objects than it should have, open."""
    ledger = await opened(tmp_path / "ledger")
    await ledger.register(stored({"n": "0"}))
    for version in range(1, 8):
        await commit(ledger, {"n": str(version)}, version)
    yield ledger
    await ledger.close()


@pytest.mark.asyncio
async def test_closing_packs_what_is_loose(full, git):
    assert loose(full) > 20
    await full.close()

    assert (loose(full), len(packs(full))) == (0, 1)
    assert n_files(full) < 20
    assert git(full.path, "fsck", "--strict", "--full") == ""
    again = await opened(full.path)
    assert await state_of(again) == ({"n": "7"}, 8)
    assert len(await again.log(limit=50)) == 9
    assert (await commit(again, {"n": "new"}, 8))[1] == 9
    await again.close()


@pytest.mark.asyncio
async def test_little_is_left_loose(ledger):
    await ledger.register(stored())
    await ledger.close()
    assert packs(ledger) == []


@pytest.mark.asyncio
async def test_opening_packs_what_the_dead_left(full, spawn, git):
    again = await opened(full.path)
    assert (loose(again), len(packs(again))) == (0, 1)
    assert await state_of(full) == await state_of(again) == ({"n": "7"}, 8)
    await commit(full, {"n": "8"}, 8)
    assert await state_of(again) == ({"n": "8"}, 9)
    await again.close()
    assert git(full.path, "fsck", "--strict") == ""


@pytest.mark.asyncio
async def test_a_crowd_is_packed_between_commits(full):
    version = 8
    while not packs(full):
        await commit(full, {"n": str(version)}, version)
        version += 1
    assert 10 < version < 20
    assert loose(full) == 0
    assert await state_of(full) == ({"n": str(version - 1)}, version)


@pytest.mark.asyncio
async def test_many_packs_become_few_when_nobody_else_needs_them(full, git):
    version = 8
    for _ in range(6):
        again = await opened(full.path)
        for _ in range(4):
            await commit(again, {"n": f"{version}"}, version)
            version += 1
        await again.close()
    assert len(packs(full)) == 7

    await full.close()

    assert len(packs(full)) <= 2
    assert n_files(full) < 20
    again = await opened(full.path)
    assert await state_of(again) == ({"n": str(version - 1)}, version)
    assert len(await again.log(limit=100)) == version + 1
    await again.close()
    assert git(full.path, "fsck", "--strict", "--full") == ""


@pytest.mark.asyncio
async def test_the_smallest_packs_are_folded(full, git):
    await full.close()
    (biggest,) = packs(full)
    git_dir = full.path / ".git"
    repository = open_repository(git_dir)
    packer = Packer(repository, git_dir, Objects(git_dir, repository.odb), NoFaults())
    for number in range(4):
        repository.create_blob(f"blob {number}".encode())
        packer.pack()
    packer.pack()
    assert packer.n_packs == 5

    packer.fold(5)
    assert packer.n_packs == 5
    (git_dir / "objects" / "pack" / "multi-pack-index").touch()
    packer.fold(2)
    assert packer.n_packs == 5
    (git_dir / "objects" / "pack" / "multi-pack-index").unlink()
    packer.fold(3)

    assert packer.n_packs == 2
    assert biggest in packs(full)
    repository.free()
    assert git(full.path, "fsck", "--full", "--no-dangling") == ""


@pytest.mark.asyncio
async def test_packing_the_same_again_loses_nothing(full, git):
    await full.close()
    before = packs(full)
    git_dir = full.path / ".git"
    repository = open_repository(git_dir)
    Packer(repository, git_dir, Objects(git_dir, repository.odb), NoFaults()).fold(0)
    repository.free()
    assert packs(full) == before
    assert git(full.path, "fsck", "--full") == ""


@pytest.mark.asyncio
async def test_damaged_objects_stay_loose(full, git):
    oid = git(full.path, "rev-parse", "dev~2:artifacts/skill/state/n").strip()
    file = full.path / ".git" / "objects" / oid[:2] / oid[2:]
    file.chmod(0o644)
    file.write_bytes(b"")

    await full.close()

    assert [path.parent.name + path.name for path in full.path.glob(".git/objects/??/*")] == [oid]


@pytest.mark.asyncio
async def test_what_cannot_be_packed_stays_as_it_is_with_a_warning(full):
    before = loose(full)
    with pytest.warns(RuntimeWarning, match=r"could not be packed .*No space left.*many files"):
        again = await opened(full.path, faults=Failing(Step.PACK_BUILT))
    assert (loose(full), packs(full)) == (before, [])
    assert not list(full.path.glob(f".git/{packing.ASIDE}*"))
    assert await state_of(again) == ({"n": "7"}, 8)
    await again.close()


@pytest.mark.asyncio
async def test_a_pack_that_does_not_hold_everything_is_not_used(full, monkeypatch):
    monkeypatch.setattr(packing, "_names", lambda _: [])
    before = loose(full)
    with pytest.warns(RuntimeWarning, match="does not hold what was put into it"):
        again = await opened(full.path)
    assert (loose(full), packs(full)) == (before, [])
    monkeypatch.undo()
    await again.close()


@pytest.mark.asyncio
async def test_who_cannot_have_the_lock_leaves_without_packing(full, monkeypatch):
    monkeypatch.setattr("agentdescent.ledger.git._LEAVING_S", 0.01)
    leaving = GitLedger(full.path)
    monkeypatch.setattr(session, "MANY_LOOSE", 10_000)
    await leaving.open()
    monkeypatch.setattr(session, "MANY_LOOSE", 20)
    async with full.locked():
        await leaving.close()
    assert packs(full) == []
