"""Reading a ledger disturbs nobody, waits for nobody and leaves no trace."""

import os
import shutil

import anyio
import pytest
import pytest_asyncio

from agentdescent import Ledger
from agentdescent.errors import LedgerDamaged, LedgerPermission, LedgerRefused, NotInLedger
from agentdescent.ledger import GitLedger
from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.faults import NoFaults
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.packing import Packer
from agentdescent.ledger.reader import read
from agentdescent.ledger.repository import open_repository
from support.ledgers import commit, stored


@pytest_asyncio.fixture
async def run(tmp_path):
    """A ledger that a run has open; its n went from 0 to 3, versions 1 to 4."""
    opened = GitLedger(tmp_path / "ledger")
    await opened.open()
    await opened.register(stored({"n": "0", "k" * 300: "long"}))
    for version in range(1, 4):
        await commit(opened, {"n": str(version), "k" * 300: "long"}, version)
    yield opened
    await opened.close()


def everything(path):
    """Whatever a reader can ask for."""
    ledger = Ledger(path)
    return (
        ledger.artifacts(),
        ledger.history("skill"),
        ledger.history("skill", "stable"),
        [ledger.at(number, "skill") for number in range(1, 5)],
        str(ledger.diff(1, 4, "skill")),
        ledger.log(),
    )


def times(path):
    return {file: file.lstat().st_mtime_ns for file in path.rglob("*")}


def hurt(path, oid, keep=12):
    """Cut an object short, as a power failure does."""
    file = path / ".git" / "objects" / oid[:2] / oid[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:keep])


def packed(path):
    """Leave no loose object."""
    git_dir = path / ".git"
    repository = open_repository(git_dir)
    Packer(repository, git_dir, Objects(git_dir, repository.odb), NoFaults()).pack()
    repository.free()


@pytest.mark.asyncio
async def test_a_run_that_holds_the_lock_is_neither_waited_for_nor_disturbed(run, listing):
    async with run.locked():
        before = listing(run.path), times(run.path)
        assert everything(run.path)[0] == {"skill": 4}
        assert (listing(run.path), times(run.path)) == before
        await run.commit(stored({"n": "4"}), 4, commit.__defaults__[1])
    assert Ledger(run.path).artifacts() == {"skill": 5}


@pytest.mark.asyncio
async def test_a_copy_that_may_not_be_written_is_read_as_the_original(run, tmp_path, listing):
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    places = [copy, *copy.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    before = listing(copy)

    assert everything(copy) == everything(run.path)
    assert listing(copy) == before
    for place in places:
        place.chmod(0o755 if place.is_dir() else 0o644)


@pytest.mark.asyncio
async def test_it_does_not_matter_how_git_stores_things(run, git):
    loose = everything(run.path)
    git(run.path, "pack-refs", "--all")
    packed(run.path)
    assert not list(run.path.glob(".git/objects/??/*"))
    assert everything(run.path) == loose


WRITE = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    await ledger.register(stored({"n": "1"}))
    print("ready", flush=True)
    for version in range(1, 201):
        await commit(ledger, {"n": str(version + 1)}, version)
    await ledger.close()

anyio.run(main)
"""


@pytest.mark.timeout(60)
def test_every_look_at_a_ledger_that_is_written_is_of_one_moment(tmp_path, spawn, git):
    writer = spawn(WRITE, tmp_path)
    assert writer.stdout.readline() == "ready\n", writer.communicate()[1]
    ledger, newest, looks = Ledger(tmp_path), 1, 0
    while writer.poll() is None:
        history = ledger.history("skill")
        assert [version.number for version in history] == list(range(1, len(history) + 1))
        assert len(history) >= newest
        newest, looks = len(history), looks + 1
        assert ledger.at(newest, "skill") == {"n": str(newest)}
        assert ledger.diff(1, newest, "skill").apply({"n": "1"}) == {"n": str(newest)}

    assert writer.returncode == 0, writer.communicate()[1]
    assert looks > 2
    assert ledger.artifacts() == {"skill": 201}
    assert git(tmp_path, "fsck", "--strict") == ""


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_where_there_is_no_ledger_none_is_made(tmp_path, make):
    path = tmp_path / "nowhere"
    make(path)
    for ask in (Ledger(path).log, Ledger(path).promote, lambda: Ledger(path).rollback(1)):
        with pytest.raises(LedgerRefused, match=r"there is no ledger; name the repo_path of a run"):
            ask()
    assert list(tmp_path.rglob("*")) == ([path] if path.exists() else [])


def test_a_repository_of_somebody_is_refused(tmp_path, git, listing):
    git(tmp_path, "init", "-q")
    before = listing(tmp_path)
    with pytest.raises(LedgerRefused, match="it is not ours"):
        Ledger(tmp_path).rollback(1)
    assert listing(tmp_path) == before


@pytest.mark.asyncio
@pytest.mark.parametrize("what", ["dev", "dev^{tree}", "dev:ledger.json"])
async def test_a_damaged_tip_is_named_with_the_way_out(run, git, what, listing):
    await run.close()
    oid = git(run.path, "rev-parse", what).strip()
    hurt(run.path, oid)
    before = listing(run.path)

    with pytest.raises(LedgerDamaged, match=f"object {oid} is") as damaged:
        Ledger(run.path).history("skill")
    assert damaged.value.hint.startswith("the next run with this repo_path steps back")
    assert listing(run.path) == before

    again = GitLedger(run.path)
    with pytest.warns(RuntimeWarning, match="dev steps back over 1 damaged version"):
        await again.open()
    await again.close()
    assert [version.number for version in Ledger(run.path).history("skill")] == [1, 2, 3]


@pytest.mark.asyncio
async def test_a_branch_that_points_nowhere_is_damage(run):
    await run.close()
    (run.path / ".git" / "refs" / "heads" / "dev").write_text("")
    with pytest.raises(LedgerDamaged, match=r"branch 'dev' cannot be read.*steps back"):
        Ledger(run.path).log()


@pytest.mark.asyncio
async def test_damage_to_an_old_version_leaves_the_others_readable(run, git):
    hurt(run.path, git(run.path, "rev-parse", "dev~2:artifacts/skill/state/n").strip())
    ledger = Ledger(run.path)

    with pytest.raises(LedgerDamaged) as damaged:
        ledger.at(2, "skill")
    assert damaged.value.hint == (
        "the newest version is intact; what is damaged can only come from a copy"
    )
    assert [ledger.at(number, "skill")["n"] for number in (1, 3, 4)] == ["0", "2", "3"]
    assert len(ledger.history("skill")) == 4


@pytest.mark.asyncio
async def test_a_damaged_pack_is_said_to_be_one(run):
    await run.close()
    packed(run.path)
    (pack,) = run.path.glob(".git/objects/pack/*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:12] + bytes(pack.stat().st_size - 12))

    with pytest.raises(LedgerDamaged, match="a pack is damaged, so restore the ledger from a copy"):
        Ledger(run.path).log()


@pytest.mark.asyncio
async def test_a_newer_format_is_refused_with_both_numbers(run, git, tmp_path):
    replace_index(git, run.path, tmp_path / "tree", '{"format": 9, "artifacts": {}}')
    with pytest.raises(LedgerRefused, match="format 9 and this release reads up to 1"):
        Ledger(run.path).artifacts()


@pytest.mark.asyncio
async def test_a_version_that_somebody_has_left_out_is_not_there(run, git, tmp_path):
    found = git(run.path, "show", "dev:ledger.json").replace('"version": 4', '"version": 6')
    replace_index(git, run.path, tmp_path / "tree", found)
    with pytest.raises(NotInLedger, match="has no version 5"):
        Ledger(run.path).at(5, "skill")
    assert [version.number for version in Ledger(run.path).history("skill")] == [1, 2, 3, 4, 6]


@pytest.mark.asyncio
async def test_a_commit_that_is_none_of_a_ledger_is_damage(run, git, tmp_path):
    replace_index(git, run.path, tmp_path / "tree", "no JSON")
    tip = git(run.path, "rev-parse", "dev").strip()
    with pytest.raises(LedgerDamaged, match=f"commit {tip} is not one of this ledger"):
        Ledger(run.path).artifacts()


def replace_index(git, path, tree, text):
    git(path, "worktree", "add", "-q", tree, "dev")
    (tree / "ledger.json").write_text(text)
    git(tree, "commit", "-q", "-a", "-m", "By hand")


@pytest.mark.asyncio
async def test_a_branch_that_points_to_a_blob_is_damage(run, git):
    await run.close()
    blob = git(run.path, "rev-parse", "dev:ledger.json").strip()
    (run.path / ".git" / "refs" / "heads" / "dev").write_text(f"{blob}\n")
    with pytest.raises(LedgerDamaged, match=f"object {blob} is a blob where a commit has to be"):
        Ledger(run.path).log()


@pytest.mark.asyncio
async def test_what_fails_once_is_tried_again_for_a_pack_may_have_gone(run):
    attempts = []

    def step(reader):
        attempts.append(reader)
        if len(attempts) == 1:
            raise Damaged("gone this moment")
        return reader.tip("dev").message.subject

    assert read(run.path, "read", step) == "merge w0:1 into skill (v3 -> v4)"
    assert len(set(map(id, attempts))) == 2


@pytest.mark.asyncio
async def test_a_ledger_of_somebody_else_is_named_with_its_owner(run, give_away):
    give_away(run.path / ".git")
    with pytest.raises(LedgerPermission, match="chown it, or run as its owner"):
        Ledger(run.path).log()
    os.chown(run.path / ".git", os.getuid(), os.getgid())


def test_reading_is_possible_in_a_running_loop(tmp_path):
    async def main():
        ledger = GitLedger(tmp_path)
        await ledger.open()
        await ledger.register(stored({"n": "0"}))
        found = Ledger(tmp_path).at(artifact="skill")
        await ledger.close()
        return found

    assert anyio.run(main) == {"n": "0"}
