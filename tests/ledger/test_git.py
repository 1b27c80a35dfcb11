import asyncio
import shutil
from contextlib import suppress

import anyio
import pygit2
import pytest

from agentdescent.core.store import CommitNote
from agentdescent.errors import CASConflict, GitError, LedgerClosed, LedgerDamaged
from agentdescent.ledger import GitLedger
from support.ledgers import NOTE, commit, state_of, stored


async def opened(path, **options):
    ledger = GitLedger(path, **options)
    await ledger.open()
    return ledger


@pytest.mark.asyncio
async def test_before_opening_every_call_raises(tmp_path):
    ledger = GitLedger(tmp_path)
    with pytest.raises(LedgerClosed, match=r"not open: await open\(\) first"):
        await ledger.read()
    await ledger.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.asyncio
async def test_git_shows_what_evolved_and_why(ledger, git):
    await ledger.register(stored({"SKILL.md": "line one\nline two\n", "limits": {"n": 1}}))
    note = CommitNote("merge w0:1", "It helps.", "committed", 3, (0.5, 0.75))
    await commit(ledger, {"SKILL.md": "line one\nline 2\n", "limits": {"n": 1}}, 1, note=note)
    path = ledger.path

    assert git(path, "show", "dev:artifacts/skill/state/SKILL.md") == "line one\nline 2\n"
    assert git(path, "show", "stable:artifacts/skill/state/SKILL.md") == "line one\nline two\n"
    assert git(path, "show", "dev:artifacts/skill/state-json/limits") == '{\n  "n": 1\n}\n'
    assert git(path, "grep", "line 2", "dev") == "dev:artifacts/skill/state/SKILL.md:line 2\n"
    reward = "--format=%(trailers:key=AgentDescent-Reward,valueonly)"
    assert git(path, "log", "-1", reward).strip() == "0.5 0.75"
    assert git(path, "diff", "--stat", "dev~1", "dev").splitlines()[-1].strip() == (
        "2 files changed, 2 insertions(+), 2 deletions(-)"
    )
    assert git(path, "log", "--format=%h %s", "--abbrev=7").splitlines() == await ledger.log()
    assert git(path, "fsck", "--strict") == ""


@pytest.mark.asyncio
async def test_promotion_names_the_commit_it_came_from(ledger, git):
    await ledger.register(stored({"a": "1"}))
    made, _ = await commit(ledger, {"a": "2"}, 1)
    await ledger.promote("skill")
    trailer = "--format=%(trailers:key=AgentDescent-Dev,valueonly)"
    assert git(ledger.path, "log", "-1", trailer, "stable").strip() == made


@pytest.mark.asyncio
async def test_equal_states_are_one_tree_whatever_the_way_to_them(ledger, git, tmp_path):
    final = {"a": "x", "a/b": "y", "n": 1, "k" * 300: "long"}
    await ledger.register(stored({"a": "1", "gone/far/away": "2"}))
    await commit(ledger, {"a/b": "y"}, 1)
    await commit(ledger, final, 2)
    other = await opened(tmp_path / "other")
    await other.register(stored(dict(reversed(final.items()))))

    trees = [git(path, "rev-parse", "dev:artifacts/skill") for path in (ledger.path, other.path)]

    assert trees[0] == trees[1]
    await other.close()


@pytest.mark.asyncio
async def test_a_second_reader_sees_every_commit_and_changes_nothing(ledger, listing):
    await ledger.register(stored({"a": "1"}))
    reader = await opened(ledger.path)
    before = listing(ledger.path)

    for branch in ("dev", "stable", "dev"):
        assert await state_of(reader, branch=branch) == ({"a": "1"}, 1)
    await reader.log()
    assert listing(ledger.path) == before

    await commit(ledger, {"a": "2"}, 1)
    assert await state_of(reader) == ({"a": "2"}, 2)
    assert await state_of(reader, branch="stable") == ({"a": "1"}, 1)
    await reader.close()


@pytest.mark.asyncio
async def test_reading_needs_no_lock(ledger):
    await ledger.register(stored())
    reader = await opened(ledger.path)
    async with ledger.locked():
        assert await state_of(reader) == ({"rule": "be brief"}, 1)
        assert len(await reader.log()) == 2
    await reader.close()


@pytest.mark.asyncio
async def test_a_hand_edit_of_a_worktree_is_not_adopted(ledger, git, tmp_path):
    await ledger.register(stored({"a": "1"}))
    git(ledger.path, "worktree", "add", "--quiet", "--detach", tmp_path / "tree", "dev")
    (tmp_path / "tree" / "artifacts" / "skill" / "state" / "a").write_text("edited")
    assert await state_of(ledger) == ({"a": "1"}, 1)


@pytest.mark.asyncio
async def test_commits_go_on_top_of_what_others_commit(ledger, git):
    other = await opened(ledger.path)
    await ledger.register(stored({"a": "1"}))
    await other.register(stored({"b": "1"}, "other"))

    await commit(other, {"b": "2"}, 1, "other")
    await commit(ledger, {"a": "2"}, 1)
    with pytest.raises(CASConflict):
        await commit(other, {"a": "late"}, 1)

    assert await state_of(other, "other") == ({"b": "2"}, 2)
    assert await state_of(other) == ({"a": "2"}, 2)
    assert git(ledger.path, "rev-list", "--count", "dev").strip() == "5"
    await other.close()


@pytest.mark.asyncio
async def test_registration_completes_what_a_death_left_half_done(ledger, git):
    genesis = git(ledger.path, "rev-parse", "dev").strip()
    await ledger.register(stored({"a": "1"}))
    git(ledger.path, "update-ref", "refs/heads/dev", genesis)

    assert (await ledger.register(stored({"a": "1"}))).version == 1
    assert await state_of(ledger) == await state_of(ledger, branch="stable") == ({"a": "1"}, 1)


@pytest.mark.asyncio
async def test_only_what_changed_is_written(ledger, git):
    state = {f"d{number % 3}/k{number}": str(number) for number in range(30)}
    await ledger.register(stored(state))
    before = git(ledger.path, "count-objects").split()[0]

    await commit(ledger, state | {"d1/k1": "new"}, 1)

    # ledger.json and one value; d1, state, skill, artifacts and the root; the commit
    assert int(git(ledger.path, "count-objects").split()[0]) - int(before) == 8


@pytest.mark.asyncio
async def test_history_of_other_writers_is_read_to_the_limit(ledger):
    await ledger.register(stored({"n": "0"}))
    for version in range(1, 46):
        await commit(ledger, {"n": str(version)}, version)
    assert len(await ledger.log()) == 20
    assert len(await ledger.log(limit=40)) == 40
    assert len(await ledger.log(limit=400)) == 47


@pytest.mark.asyncio
async def test_a_damaged_old_commit_fails_the_log_and_nothing_else(ledger, git):
    await ledger.register(stored({"a": "1"}))
    await commit(ledger, {"a": "2"}, 1)
    genesis = git(ledger.path, "rev-parse", "dev~2").strip()
    file = ledger.path / ".git" / "objects" / genesis[:2] / genesis[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:20])

    with pytest.raises(LedgerDamaged, match=f"object {genesis} is cut short"):
        await ledger.log()
    assert await state_of(ledger) == ({"a": "2"}, 2)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"ledger.json": "{"},
        {"ledger.json": "[]"},
        {"ledger.json": '{"format": 1, "artifacts": {"skill": {}}}'},
        {"ledger.json/inside": "x"},
        {"ledger.json": '{"format": 1, "artifacts": []}'},
    ],
)
async def test_a_commit_of_somebody_else_on_the_branch_is_damage(ledger, contents):
    repository = pygit2.Repository(ledger.path)
    builder = repository.TreeBuilder()
    for path, text in contents.items():
        name, _, below = path.partition("/")
        blob = repository.create_blob(text.encode())
        if below:
            inner = repository.TreeBuilder()
            inner.insert(below, blob, pygit2.enums.FileMode.BLOB)
            builder.insert(name, inner.write(), pygit2.enums.FileMode.TREE)
        else:
            builder.insert(name, blob, pygit2.enums.FileMode.BLOB)
    author = pygit2.Signature("a", "b", 0, 0)
    tip = repository.references["refs/heads/dev"].target
    made = repository.create_commit("refs/heads/dev", author, author, "x", builder.write(), [tip])
    repository.free()

    with pytest.raises(LedgerDamaged, match=f"commit {made} is not one of this ledger"):
        await ledger.read()


@pytest.mark.asyncio
async def test_a_removed_directory_is_not_made_again(ledger):
    await ledger.register(stored())
    shutil.rmtree(ledger.path)

    with pytest.raises(GitError, match="lock failed in git repository"):
        await commit(ledger, {"a": "2"}, 1)
    with pytest.raises(GitError, match="lock failed"):
        await ledger.promote("skill")

    assert not ledger.path.exists()


@pytest.mark.asyncio
async def test_a_directory_removed_under_the_lock_is_not_made_again(ledger):
    await ledger.register(stored())
    async with ledger.locked():
        shutil.rmtree(ledger.path)
        with pytest.raises((GitError, LedgerDamaged), match="commit failed in git repository"):
            await ledger.commit(stored({"a": "2"}), 1, NOTE)
    assert not ledger.path.exists()


@pytest.mark.asyncio
async def test_a_commit_that_is_cancelled_happened_or_did_not(ledger):
    await ledger.register(stored({"n": "0"}))
    returned = 0
    for attempt in range(20):
        _, version = await state_of(ledger)
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_later(attempt * 1e-4, scope.cancel)
            await commit(ledger, {"n": str(version)}, version)
            returned += 1
    state, version = await state_of(ledger)

    assert state == {"n": str(version - 1)}
    assert version - 1 >= returned
    assert len(await ledger.log(limit=100)) == version + 1
    await commit(ledger, {"n": "last"}, version)


@pytest.mark.asyncio
async def test_a_shielded_commit_is_never_cancelled(ledger):
    await ledger.register(stored({"n": "0"}))
    for version in range(1, 11):
        with anyio.CancelScope() as scope:
            async with ledger.locked():
                scope.cancel()
                with anyio.CancelScope(shield=True):
                    await ledger.commit(stored({"n": str(version)}), version, NOTE)
    assert await state_of(ledger) == ({"n": "10"}, 11)


@pytest.mark.asyncio
async def test_steps_do_not_overlap_when_a_bare_task_is_cancelled(ledger):
    await ledger.register(stored({"n": "0"}))
    for attempt in range(10):
        _, version = await state_of(ledger)
        task = asyncio.create_task(commit(ledger, {"n": str(attempt)}, version))
        asyncio.get_running_loop().call_later(attempt * 2e-4, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    _, version = await state_of(ledger)
    assert len(await ledger.log(limit=100)) == version + 1
    assert (await commit(ledger, {"n": "last"}, version))[1] == version + 1


@pytest.mark.asyncio
async def test_closing_lets_a_commit_that_has_begun_finish(ledger):
    await ledger.register(stored({"n": "0"}))
    made = []

    async def last():
        made.append(await commit(ledger, {"n": "1"}, 1))

    async with anyio.create_task_group() as group:
        group.start_soon(last)
        await anyio.wait_all_tasks_blocked()
        await ledger.close()

    again = await opened(ledger.path)
    assert await state_of(again) == ({"n": "1"}, 2)
    assert (await again.log())[0].startswith(made[0][0][:7])
    await again.close()


@pytest.mark.asyncio
async def test_opening_twice_at_once_opens_once(tmp_path):
    ledger = GitLedger(tmp_path)
    async with anyio.create_task_group() as group:
        group.start_soon(ledger.open)
        group.start_soon(ledger.open)
    assert len(list((tmp_path / ".git" / "agentdescent-owners").iterdir())) == 1
    assert await ledger.live_runs() == ()
    await ledger.close()


@pytest.mark.asyncio
async def test_what_is_closed_while_it_opens_stays_closed(ledger):
    other, outcome = GitLedger(ledger.path), []

    async def opens():
        with pytest.raises(LedgerClosed):
            await other.open()
        outcome.append("refused")

    async with anyio.create_task_group() as group, ledger.locked():
        group.start_soon(opens)
        await anyio.sleep(0.05)
        await other.close()

    assert outcome == ["refused"]
    assert await ledger.live_runs() == ()
