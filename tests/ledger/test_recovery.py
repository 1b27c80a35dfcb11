"""What opening does after a crash, a power failure, or damage."""

import os
import re
import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agentdescent.errors import GitError, LedgerDamaged
from agentdescent.ledger import GitLedger
from agentdescent.ledger.faults import NoFaults
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.packing import Packer
from agentdescent.ledger.recovery import QUARANTINE
from agentdescent.ledger.repository import open_repository
from support.ledgers import commit, state_of, stored

KEY = "artifacts/skill/state/n"


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


@pytest_asyncio.fixture
async def closed(tmp_path):
    """The path of a ledger whose n went from 0 to 3, versions 1 to 4, and that nobody has open."""
    ledger = await opened(tmp_path / "ledger")
    await ledger.register(stored({"n": "0"}))
    for version in range(1, 4):
        await commit(ledger, {"n": str(version)}, version)
    await ledger.close()
    return ledger.path


@contextmanager
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def packed(path):
    """Leave no loose object."""
    git_dir = path / ".git"
    repository = open_repository(git_dir)
    Packer(repository, git_dir, Objects(git_dir, repository.odb), NoFaults()).pack()
    repository.free()


def bury_alive(path):
    """Leave what a run that died leaves."""
    (path / ".git" / "agentdescent-owners" / "dead.lock").touch()


def reboot(path):
    (path / ".git" / "agentdescent.state").write_text('{"boot": "another"}')


def quarantined(path):
    folders = list((path / ".git" / QUARANTINE).iterdir())
    assert len(folders) == 1
    return {file.name: file.read_bytes() for file in folders[0].iterdir()}


@pytest.fixture
def object_of(git):
    """The file of the object that a revision names."""

    def find(path, revision):
        oid = git(path, "rev-parse", revision).strip()
        file = path / ".git" / "objects" / oid[:2] / oid[2:]
        file.chmod(0o644)
        return file

    return find


def cut_short(file):
    file.write_bytes(file.read_bytes()[:10])


HARMS = {
    "short": cut_short,
    "empty": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(50)),
    "missing": Path.unlink,
}


@pytest.mark.asyncio
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("what", ["", "^{tree}", f":{KEY}"], ids=["commit", "tree", "blob"])
async def test_the_newest_intact_version_is_found_and_the_rest_put_aside(
    closed, object_of, git, harm, what
):
    files = [object_of(closed, f"{revision}{what}") for revision in ("dev", "dev~1")]
    good = git(closed, "rev-parse", "dev~2").strip()
    for file in files:
        harm(file)
    left = {file.parent.name + file.name: file.read_bytes() for file in files if file.exists()}

    with pytest.warns(RuntimeWarning) as caught:
        ledger = await opened(closed)

    (text,) = [str(warning.message) for warning in caught]
    assert f"branch dev steps back over 2 damaged versions to {good[:7]}" in text
    assert f"kept in {closed}/.git/{QUARANTINE}/" in text
    assert left.items() <= quarantined(closed).items()
    assert await state_of(ledger) == ({"n": "1"}, 2)
    assert await commit(ledger, {"n": "new"}, 2)
    assert git(closed, "fsck", "--strict", "--no-dangling") == ""
    await ledger.close()


@pytest.mark.asyncio
async def test_one_version_is_counted_as_one(closed, object_of):
    cut_short(object_of(closed, "dev"))
    with pytest.warns(RuntimeWarning, match="steps back over 1 damaged version to"):
        ledger = await opened(closed)
    await ledger.close()


@pytest.mark.asyncio
async def test_what_was_stepped_over_can_be_committed_again(closed, object_of):
    cut_short(object_of(closed, f"dev:{KEY}"))
    with silence():
        ledger = await opened(closed)
    await commit(ledger, {"n": "3"}, 3)
    assert await state_of(ledger) == ({"n": "3"}, 4)
    await ledger.close()
    again = await opened(closed)
    assert await state_of(again) == ({"n": "3"}, 4)
    await again.close()


REFS = {
    "empty": lambda ref: ref.write_bytes(b""),
    "zeros": lambda ref: ref.write_bytes(bytes(41)),
    "short": lambda ref: ref.write_bytes(b"abc\n"),
    "longer": lambda ref: ref.write_bytes(ref.read_bytes() + bytes(3)),
    "unknown": lambda ref: ref.write_text(f"{'1' * 40}\n"),
    "loop": lambda ref: ref.write_text("ref: refs/heads/dev\n"),
    "binary": lambda ref: ref.write_bytes(b"\xff" * 41),
    "missing": Path.unlink,
}


@pytest.mark.asyncio
@pytest.mark.parametrize("branch", ["dev", "stable"])
@pytest.mark.parametrize("harm", REFS.values(), ids=REFS)
async def test_a_damaged_branch_is_restored_from_its_log(closed, git, harm, branch):
    ref = closed / ".git" / "refs" / "heads" / branch
    before = ref.read_bytes()
    harm(ref)
    damaged = ref.read_bytes() if ref.exists() else None

    with pytest.warns(RuntimeWarning, match=f"branch {branch} steps back over [01] damaged ver"):
        ledger = await opened(closed)

    assert ref.read_bytes() == before
    assert quarantined(closed).get(f"branch-{branch}") == damaged
    assert await state_of(ledger) == ({"n": "3"}, 4)
    assert git(closed, "fsck", "--strict") == ""
    await ledger.close()


@pytest.mark.asyncio
async def test_without_a_log_the_parents_lead_back(closed, object_of, git):
    good = git(closed, "rev-parse", "dev~2").strip()
    cut_short(object_of(closed, f"dev~1:{KEY}"))
    cut_short(object_of(closed, f"dev:{KEY}"))
    shutil.rmtree(closed / ".git" / "logs")

    with silence():
        ledger = await opened(closed)

    assert git(closed, "rev-parse", "dev").strip() == good
    await ledger.close()


@pytest.mark.asyncio
async def test_a_branch_that_git_has_packed_is_found(closed, git, listing):
    git(closed, "pack-refs", "--all")
    ledger = await opened(closed)
    assert await state_of(ledger) == ({"n": "3"}, 4)
    await commit(ledger, {"n": "4"}, 4)
    await ledger.close()


@pytest.mark.asyncio
async def test_when_nothing_is_intact_nothing_is_changed(closed, listing):
    for file in closed.glob(".git/objects/??/*"):
        file.chmod(0o644)
        cut_short(file)
    before = listing(closed)
    ledger = GitLedger(closed)

    with pytest.raises(LedgerDamaged, match="'dev' has no version that is intact; nothing was ch"):
        await ledger.open()

    assert listing(closed) == before
    await ledger.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("mark", [bury_alive, reboot], ids=["death", "reboot"])
async def test_after_a_death_or_a_reboot_every_object_is_checked(closed, object_of, git, mark):
    old = object_of(closed, f"dev~1:{KEY}")
    cut_short(old)
    quiet = await opened(closed)
    await quiet.close()
    mark(closed)

    with pytest.warns(RuntimeWarning, match="no version was lost; 1 damaged objects"):
        ledger = await opened(closed)

    assert not old.exists()
    await commit(ledger, {"n": "2"}, 4)
    assert await state_of(ledger) == ({"n": "2"}, 5)
    assert old.exists()
    assert git(closed, "fsck", "--strict", "--no-reflogs") == ""
    await ledger.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = await opened(closed)
    await again.close()


@pytest.mark.asyncio
async def test_a_death_without_damage_is_no_news(closed, git):
    bury_alive(closed)
    ledger = await opened(closed)
    assert await state_of(ledger) == ({"n": "3"}, 4)
    assert not (closed / ".git" / QUARANTINE).exists()
    await ledger.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("state", ["", "[]", "{}", "\0\0"])
async def test_a_state_that_cannot_be_read_counts_as_a_reboot(closed, object_of, state):
    cut_short(object_of(closed, f"dev~1:{KEY}"))
    (closed / ".git" / "agentdescent.state").write_text(state)
    with pytest.warns(RuntimeWarning, match="no version was lost"):
        ledger = await opened(closed)
    await ledger.close()


@pytest.mark.asyncio
async def test_a_torn_log_is_mended_and_kept(closed, git):
    log = closed / ".git" / "logs" / "refs" / "heads" / "dev"
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    bury_alive(closed)

    with silence():
        ledger = await opened(closed)

    lines = log.read_text().splitlines()
    assert lines[:-1] == whole.decode().splitlines()[:-1]
    assert re.search(r"\tagentdescent: step back to what is intact$", lines[-1])
    assert quarantined(closed)["log-dev"] == whole[:-20]
    await commit(ledger, {"n": "4"}, 4)
    assert git(closed, "fsck", "--strict") == ""
    assert len(git(closed, "reflog", "dev").splitlines()) == 6
    await ledger.close()


@pytest.mark.asyncio
async def test_a_damaged_pack_is_refused_by_name_when_a_run_has_died(closed, git, listing):
    packed(closed)
    (pack,) = closed.glob(".git/objects/pack/*.pack")
    pack.chmod(0o644)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    bury_alive(closed)
    before = listing(closed)
    ledger = GitLedger(closed)

    with pytest.raises(LedgerDamaged, match=f"the pack {pack} is damaged or missing"):
        await ledger.open()

    assert listing(closed) == before
    await ledger.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(b"PACK")])
async def test_a_missing_or_tiny_pack_is_damaged_too(closed, git, harm):
    packed(closed)
    (pack,) = closed.glob(".git/objects/pack/*.pack")
    pack.chmod(0o644)
    harm(pack)
    ledger = GitLedger(closed)
    with pytest.raises(LedgerDamaged, match=r"the pack .* is damaged or missing"):
        await ledger.open()
    await ledger.close()


LOCKS = ["refs/heads/dev.lock", "refs/heads/stable.lock", "HEAD.lock", "config.lock"]


@pytest.mark.asyncio
async def test_locks_of_the_dead_go_at_once_and_quietly(closed):
    for name in LOCKS:
        (closed / ".git" / name).touch()
    bury_alive(closed)
    ledger = await opened(closed)
    assert not [name for name in LOCKS if (closed / ".git" / name).exists()]
    await ledger.close()


@pytest.mark.asyncio
async def test_other_locks_go_with_a_warning_when_they_are_two_seconds_old(closed):
    young, old = (closed / ".git" / name for name in LOCKS[:2])
    for lock, age in ((young, 0), (old, 3)):
        lock.touch()
        os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - age))

    with pytest.warns(RuntimeWarning, match=r"removed .*stable\.lock, which .* left behind 3 s"):
        ledger = await opened(closed)

    assert (young.exists(), old.exists()) == (True, False)
    young.unlink()
    await ledger.close()


@pytest.mark.asyncio
async def test_scraps_go_when_they_are_an_hour_old(closed):
    git_dir = closed / ".git"
    places = [git_dir / "objects" / "tmp_obj", git_dir / "objects" / "pack" / "tmp_pack"]
    folders = [closed / ".git.new-1-ab", git_dir / "agentdescent-pack-xy"]
    scraps = []
    for age in (0, 3700):
        for place in [*places, *folders]:
            scrap = place.with_name(f"{place.name}-{age}")
            scrap.mkdir() if place in folders else scrap.touch()
            os.utime(scrap, (scrap.stat().st_atime, scrap.stat().st_mtime - age))
            scraps.append(scrap)

    ledger = await opened(closed)

    assert [scrap.exists() for scrap in scraps] == [True] * 4 + [False] * 4
    for scrap in scraps[2:4]:
        scrap.rmdir()
    await ledger.close()


@pytest.mark.asyncio
async def test_a_ledger_without_a_head_is_not_made_anew(closed, listing):
    (closed / ".git" / "HEAD").unlink()
    before = listing(closed)
    ledger = GitLedger(closed)
    with pytest.raises(GitError):
        await ledger.open()
    assert listing(closed) == before
    await ledger.close()


@pytest.mark.asyncio
async def test_damage_that_comes_while_a_ledger_is_open_is_repaired_by_the_next(closed):
    ledger = await opened(closed)
    await commit(ledger, {"n": "4"}, 4)
    (closed / ".git" / "refs" / "heads" / "dev").write_bytes(b"")
    with pytest.raises(LedgerDamaged, match="branch 'dev' cannot be read"):
        await ledger.read()
    with pytest.warns(RuntimeWarning, match=r"could not be closed in order \(branch 'dev' cannot"):
        await ledger.close()

    with silence():
        again = await opened(closed)
    assert await state_of(again) == ({"n": "4"}, 5)
    await again.close()


@pytest.mark.asyncio
async def test_what_may_not_be_written_is_not_repaired(closed, object_of, listing, monkeypatch):
    cut_short(object_of(closed, "dev"))
    before = listing(closed)
    monkeypatch.setattr("agentdescent.ledger.git.is_writable", lambda *_: False)
    ledger = GitLedger(closed)
    with pytest.raises(LedgerDamaged, match="is cut short"):
        await ledger.open()
    assert listing(closed) == before
    await ledger.close()
