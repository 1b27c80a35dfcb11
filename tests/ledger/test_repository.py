import os

import anyio
import pygit2
import pytest
from pygit2.enums import ConfigLevel

from agentdescent.errors import GitError, LedgerPermission, LedgerRefused
from agentdescent.ledger import GitLedger
from support.ledgers import commit, stored

LEVELS = (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA)


async def refusal(path, kind=LedgerRefused):
    ledger = GitLedger(path)
    with pytest.raises(kind) as caught:
        await ledger.open()
    await ledger.close()
    return caught.value


@pytest.mark.asyncio
async def test_the_repository_is_bare_marked_and_whole(ledger, git, tmp_path):
    path = tmp_path / "ledger"

    assert [entry.name for entry in path.iterdir()] == [".git"]
    for key, value in {
        "core.bare": "true",
        "core.repositoryformatversion": "1",
        "extensions.preciousobjects": "true",
        "agentdescent.format": "1",
        "core.quotepath": "false",
        "core.autocrlf": "false",
        "core.hookspath": "/dev/null",
        "core.logallrefupdates": "always",
        "gc.auto": "0",
        "commit.gpgsign": "false",
        "user.name": "agentdescent",
        "user.email": "bot@agentdescent.local",
    }.items():
        assert git(path, "config", "--local", key).strip() == value
    assert git(path, "symbolic-ref", "HEAD").strip() == "refs/heads/dev"
    assert git(path, "rev-parse", "dev") == git(path, "rev-parse", "stable")
    assert git(path, "log", "--format=%s|%an|%ae|%cn|%ce", "dev").strip() == (
        "genesis|agentdescent|bot@agentdescent.local|agentdescent|bot@agentdescent.local"
    )
    assert git(path, "show", "dev:ledger.json") == '{"artifacts": {}, "format": 1}\n'
    assert git(path, "fsck", "--strict") == ""


@pytest.mark.asyncio
async def test_a_missing_directory_is_made_with_its_parents(tmp_path):
    ledger = GitLedger(tmp_path / "runs" / "a b" / "é\n'\"")
    await ledger.open()
    await ledger.register(stored())
    await ledger.close()
    assert (ledger.path / ".git" / "HEAD").is_file()


@pytest.mark.asyncio
async def test_other_files_beside_the_repository_are_left_alone(tmp_path, listing):
    (tmp_path / "result.json").write_text("{}")
    ledger = GitLedger(tmp_path)
    await ledger.open()
    await ledger.close()
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", ".git"}


@pytest.mark.asyncio
async def test_many_ledgers_may_make_one_repository_at_once(tmp_path):
    ledgers = [GitLedger(tmp_path / "ledger") for _ in range(8)]
    async with anyio.create_task_group() as group:
        for ledger in ledgers:
            group.start_soon(ledger.open)

    logs = [await ledger.log() for ledger in ledgers]

    assert [line[8:] for line in logs[0]] == ["genesis"]
    assert logs == logs[:1] * 8
    assert [path.name for path in (tmp_path / "ledger").iterdir()] == [".git"]
    for ledger in ledgers:
        await ledger.close()


@pytest.mark.asyncio
async def test_a_relative_path_holds_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = GitLedger("runs")
    monkeypatch.chdir("/")
    await ledger.open()
    await ledger.close()
    assert (tmp_path / "runs" / ".git").is_dir()


@pytest.mark.asyncio
async def test_a_ledger_inside_another_repository_leaves_that_alone(tmp_path, git, listing):
    git(tmp_path, "init", "--quiet")
    before = listing(tmp_path / ".git")

    ledger = GitLedger(tmp_path / "runs")
    await ledger.open()
    await ledger.register(stored())
    await ledger.close()

    assert listing(tmp_path / ".git") == before


@pytest.mark.asyncio
async def test_a_repository_of_somebody_else_is_refused_untouched(tmp_path, git, listing):
    git(tmp_path, "init", "--quiet")
    (tmp_path / "notes.txt").write_text("mine")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "mine")
    git(tmp_path, "branch", "dev")
    git(tmp_path, "branch", "stable")
    before = listing(tmp_path)

    error = await refusal(tmp_path)

    assert listing(tmp_path) == before
    assert str(error) == (
        f"open failed in git repository {tmp_path}: its git configuration has no "
        "agentdescent.format: it is not ours; nothing was changed; "
        "use a repo_path of its own for the ledger"
    )
    assert (error.operation, error.repo_path) == ("open", str(tmp_path))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (lambda path: path.write_text("x"), "path", "the path is a file, or leads through one"),
        (lambda path: path.write_text("x"), "path/runs", "is a file, or leads through one"),
        (lambda path: pygit2.init_repository(path, bare=True).free(), "path", "is itself a git"),
        (lambda path: (path / ".git").mkdir(parents=True), "path", "has no agentdescent.format"),
        (lambda path: path.mkdir() or (path / ".git").write_text("x"), "path", "as of a worktree"),
    ],
    ids=["file", "below a file", "bare", "empty", "worktree"],
)
async def test_whatever_else_is_there_is_refused_untouched(tmp_path, listing, make, name, reason):
    make(tmp_path / "path")
    before = listing(tmp_path)

    assert reason in str(await refusal(tmp_path / name))

    assert listing(tmp_path) == before


@pytest.mark.asyncio
@pytest.mark.parametrize("text", ["x", "", "-1", "1.5"])
async def test_a_marker_that_is_no_number_is_not_ours(ledger, git, listing, text):
    git(ledger.path, "config", "agentdescent.format", text)
    before = listing(ledger.path)
    await refusal(ledger.path)
    assert listing(ledger.path) == before


@pytest.mark.asyncio
async def test_a_newer_format_is_refused_with_both_numbers(ledger, git, listing):
    git(ledger.path, "config", "agentdescent.format", "2")
    before = listing(ledger.path)

    error = await refusal(ledger.path)

    assert "it has ledger format 2 and this release reads up to 1" in str(error)
    assert listing(ledger.path) == before


@pytest.mark.asyncio
async def test_a_ledger_that_cannot_be_opened_is_not_made_anew(ledger, listing):
    (ledger.path / ".git" / "HEAD").unlink()
    before = listing(ledger.path)

    await refusal(ledger.path, GitError)

    assert listing(ledger.path) == before


@pytest.mark.asyncio
async def test_a_broken_configuration_is_not_taken_for_a_stranger(ledger):
    (ledger.path / ".git" / "config").write_text("[core\n")
    assert "failed to parse config file" in str(await refusal(ledger.path, GitError))


@pytest.mark.asyncio
async def test_the_users_search_paths_are_as_before(tmp_path):
    before = [pygit2.settings.search_path[level] for level in LEVELS]
    ledger = GitLedger(tmp_path)
    await ledger.open()
    assert [pygit2.settings.search_path[level] for level in LEVELS] == before
    await ledger.close()

    (tmp_path / ".git" / "HEAD").unlink()
    await refusal(tmp_path, GitError)
    assert [pygit2.settings.search_path[level] for level in LEVELS] == before


@pytest.mark.asyncio
async def test_a_half_made_repository_of_a_dead_process_is_no_hindrance(tmp_path):
    (tmp_path / ".git.new-123-abcd" / "objects").mkdir(parents=True)
    ledger = GitLedger(tmp_path)
    await ledger.open()
    await ledger.close()


@pytest.mark.asyncio
async def test_a_packed_ledger_opens_and_goes_on(ledger, git):
    await ledger.register(stored({"a": "1"}))
    await commit(ledger, {"a": "2"}, 1)
    git(ledger.path, "gc", "--quiet")
    again = GitLedger(ledger.path)
    await again.open()

    made, version = await commit(again, {"a": "3"}, 2)

    assert (made, version) == (git(ledger.path, "rev-parse", "dev").strip(), 3)
    assert len(await again.log()) == 4
    await again.close()


@pytest.mark.asyncio
async def test_a_ledger_of_another_user_is_refused_with_both_ids(ledger, give_away):
    (ledger.path / ".git" / "HEAD").unlink()
    give_away(ledger.path / ".git")

    error = await refusal(ledger.path, LedgerPermission)

    owner = (ledger.path / ".git").stat().st_uid
    assert f"owned by uid {owner} and this process is uid {os.geteuid()}: chown it" in str(error)
