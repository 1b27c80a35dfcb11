"""The searches of runs: written beside the branches, adopted by those who come later."""

import pytest
import pytest_asyncio

from agentdescent.core.store import SearchSave
from agentdescent.errors import CASConflict, ContractError, LedgerFull
from agentdescent.ledger import GitLedger, Step
from agentdescent.ledger.reader import read
from agentdescent.ledger.searches import PLACE, Left
from faults.children import check_with_git
from support.faults import Failing
from support.ledgers import NOTE, commit, state_of, stored

pytestmark = pytest.mark.asyncio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


@pytest_asyncio.fixture
async def ledger(path):
    async with a_run(path) as opened:
        yield opened


class a_run:  # noqa: N801 - it reads as one
    """A ledger that is open for a block, with two artifacts in it."""

    def __init__(self, path, **options):
        self._ledger = GitLedger(path, **options)

    async def __aenter__(self):
        await self._ledger.open()
        for name in ("skill", "other"):
            await self._ledger.register(stored({"n": "1"}, name))
        return self._ledger

    async def __aexit__(self, *_):
        await self._ledger.close()


def a_save(artifact="skill", head=1, pages=(), **document):
    content = {name: f"{text}\n".encode() for name, text in dict(pages).items()}
    return SearchSave({"artifact": artifact, "head": head, **document}, content)


async def left(path, *saves, **options):
    """A run that has come, saved and gone; its id."""
    async with a_run(path, **options) as ledger:
        for save in saves:
            await ledger.save(save)
        return ledger.run_id


def references(path):
    return sorted(file.name for file in (path / ".git" / PLACE).glob("*"))


def loose(path):
    return {file.parent.name + file.name for file in path.glob(".git/objects/??/*")}


class TestSaving:
    async def test_what_was_saved_is_given_back(self, path):
        pages = {"history/00000000": '{"a": 1}', "evaluations/00000000": '["x"]'}
        run = await left(path, a_save(pages=pages, mood="good"))

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")

        assert saved.run == run
        assert saved.document["mood"] == "good"
        assert saved.pages == {name: f"{text}\n".encode() for name, text in pages.items()}
        assert (saved.base.version, dict(saved.base.state), saved.commits) == (1, {"n": "1"}, [])

    async def test_a_document_replaces_the_last_one_and_pages_add_up(self, path):
        saves = [
            a_save(pages={f"history/{n:08d}": str(n) for n in range(n * 60, n * 60 + 60)}, step=n)
            for n in range(3)
        ]
        await left(path, *saves)

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")

        assert saved.document["step"] == 2
        assert [page.decode().strip() for _, page in sorted(saved.pages.items())] == [
            str(n) for n in range(180)
        ]

    async def test_nothing_of_a_document_that_was_replaced_is_left(self, path, ledger):
        await ledger.save(a_save(pages={"history/00000000": "a"}))
        before = loose(path)
        for n in range(5):
            await ledger.save(a_save(step=n))

        assert len(loose(path)) == len(before)
        check_with_git(path)

    async def test_a_document_may_be_as_it_was_before(self, path, ledger):
        for step in (1, 2, 1, 1):
            await ledger.save(a_save(step=step))

        assert (await self._heir(path, ledger)).document["step"] == 1

    async def test_what_is_no_json_is_refused_and_changes_nothing(self, path, ledger):
        await ledger.save(a_save(step=1))
        before = loose(path)

        for value in (float("nan"), object()):
            with pytest.raises(ContractError, match="cannot be saved as JSON"):
                await ledger.save(a_save(step=value))

        assert loose(path) == before
        assert (await self._heir(path, ledger)).document["step"] == 1

    async def test_searches_of_equal_content_share_no_object(self, path):
        page = {"evaluations/00000000": "the same"}
        await left(path, a_save(pages=page))
        async with a_run(path) as first, a_run(path) as second:
            await first.adopt("skill")
            await second.save(a_save(pages=page))
            await first.save(a_save(pages=page))
            await first.save(a_save("other"))
        check_with_git(path)

        async with a_run(path) as heir:
            assert (await heir.adopt("skill")).pages == {"evaluations/00000000": b"the same\n"}

    @pytest.mark.parametrize("step", [Step.SEARCH_WRITTEN, Step.SEARCH_MOVED, Step.SEARCH_PRUNED])
    async def test_a_full_disk_leaves_the_last_search_or_the_new_one(self, path, step):
        async with a_run(path, faults=Failing(step, 2)) as ledger:
            await ledger.save(a_save(pages={"history/00000000": "1"}, step=1))
            with pytest.raises(LedgerFull):
                await ledger.save(a_save(pages={"history/00000001": "2"}, step=2))
            check_with_git(path)
            await ledger.save(a_save(pages={"history/00000001": "2"}, step=3))

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")
        assert saved.document["step"] == 3
        assert [saved.pages[name] for name in sorted(saved.pages)] == [b"1\n", b"2\n"]

    async def _heir(self, path, ledger):
        await ledger.close()
        async with a_run(path) as heir:
            return await heir.adopt("skill")


class TestAdopting:
    async def test_the_newest_is_adopted_first_and_each_once(self, path):
        runs = [await left(path, a_save(n=n)) for n in range(3)]

        async with (
            a_run(path) as one,
            a_run(path) as two,
            a_run(path) as three,
            a_run(path) as four,
        ):
            adopted = [await heir.adopt("skill") for heir in (one, two, three, four)]

        assert sorted(saved.run for saved in adopted[:3]) == sorted(runs)
        assert adopted[3] is None

    async def test_the_search_of_a_live_run_is_not_given_away(self, path, ledger):
        await ledger.save(a_save())

        async with a_run(path) as heir:
            assert await heir.adopt("skill") is None
            (other,) = await heir.live_runs()

        assert str(other).startswith(f"run {ledger.run_id} (process ")

    async def test_each_artifact_has_searches_of_its_own(self, path):
        skill = await left(path, a_save("skill"))
        other = await left(path, a_save("other"))

        async with a_run(path) as heir, a_run(path) as second:
            assert (await heir.adopt("skill")).run == skill
            assert (await second.adopt("other")).run == other

    async def test_more_than_eight_are_forgotten_but_those_of_other_artifacts(self, path):
        other = await left(path, a_save("other"))
        runs = [await left(path, a_save(n=n, pages={"history/00000000": n})) for n in range(11)]
        before = len(loose(path))

        async with a_run(path) as heir:
            adopted = await heir.adopt("skill")
            kept = references(path)

        assert adopted.run == runs[-1]
        assert len(kept) == 9
        assert {other, heir.run_id} <= set(kept)
        assert len(loose(path)) <= before - 3 * 4
        check_with_git(path)

    async def test_the_first_save_removes_what_was_adopted(self, path):
        await left(path, a_save(pages={f"history/{n:08d}": "x" * n for n in range(50)}))
        async with a_run(path) as heir:
            before = loose(path)
            await heir.adopt("skill")
            await heir.save(a_save())
            after = loose(path)

        assert len(before - after) == 50 + 5
        assert references(path) == [heir.run_id]
        check_with_git(path)

    async def test_a_run_that_dies_before_it_saves_leaves_what_it_had_adopted(self, path):
        await left(path, a_save(pages={"history/00000000": "x"}))
        async with a_run(path) as heir:
            await heir.adopt("skill")

        async with a_run(path) as second:
            assert (await second.adopt("skill")).pages == {"history/00000000": b"x\n"}

    async def test_a_search_for_an_artifact_that_is_not_there_is_left_alone(self, path):
        run = await left(path, a_save("third"))

        async with a_run(path) as heir:
            assert await heir.adopt("third") is None

        assert references(path) == [run]

    async def test_many_runs_leave_few_files(self, path):
        for n in range(30):
            async with a_run(path) as ledger:
                await ledger.adopt("skill")
                await ledger.save(a_save(pages={"history/00000000": n}))
            if n == 4:
                files = len(loose(path))

        assert len(loose(path)) == files
        assert len(references(path)) == 1


class TestCommittingWithASearch:
    async def test_both_are_there(self, path):
        async with a_run(path) as ledger:
            await _commit_with_search(ledger, {"n": "2"}, 1)

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")

        assert saved.base.version == 1
        assert [(entry.version, dict(entry.state)) for _, entry in saved.commits] == [
            (2, {"n": "2"})
        ]

    async def test_a_commit_whose_run_died_before_dev_moved_is_finished(self, path):
        async with a_run(path, faults=Failing(Step.BRANCH_LOCKED, 5)) as ledger:
            with pytest.raises(LedgerFull):
                await _commit_with_search(ledger, {"n": "2"}, 1)
            assert await state_of(ledger) == ({"n": "1"}, 1)

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")
            assert await state_of(heir) == ({"n": "2"}, 2)
        assert [entry.version for _, entry in saved.commits] == [2]
        check_with_git(path)

    async def test_it_is_not_finished_when_another_run_has_moved_dev(self, path):
        async with a_run(path, faults=Failing(Step.BRANCH_LOCKED, 5)) as ledger:
            with pytest.raises(LedgerFull):
                await _commit_with_search(ledger, {"n": "2"}, 1)
        async with a_run(path) as other:
            await commit(other, {"n": "theirs"}, 1)

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")
            assert await state_of(heir) == ({"n": "theirs"}, 2)
        assert [dict(entry.state) for _, entry in saved.commits] == [{"n": "theirs"}]
        check_with_git(path)

    async def test_commits_of_other_artifacts_in_between_count_for_nothing(self, path):
        async with a_run(path) as ledger:
            await ledger.save(a_save(head=1))
            await commit(ledger, {"n": "2"}, 1, "other")
            await commit(ledger, {"n": "2"}, 1)
            await commit(ledger, {"n": "3"}, 2, "other")
            commits = await ledger.log()

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")

        ((made, entry),) = saved.commits
        assert (entry.version, dict(entry.state)) == (2, {"n": "2"})
        assert commits[1].startswith(made[:7])

    async def test_it_is_checked_like_any_commit(self, path, ledger):
        with pytest.raises(CASConflict):
            await _commit_with_search(ledger, {"n": "2"}, 7)

        assert references(path) == []

    async def test_pages_count_as_files(self, path, ledger):
        before = ledger._session.store.n_loose
        await _commit_with_search(ledger, {"n": "2"}, 1, pages={"history/00000000": "x"})

        grown = ledger._session.store.n_loose - before
        assert grown <= len(loose(path)) <= before + grown + 10


class TestDamage:
    async def test_a_search_that_is_damaged_is_forgotten_with_a_warning(self, path):
        older = await left(path, a_save(n=1))
        async with a_run(path) as ledger:
            before = loose(path)
            await ledger.save(a_save(n=2, pages={"history/00000000": "x"}))
            (page,) = (oid for oid in loose(path) - before if _is_page(path, oid))
        _cut(path, page)

        async with a_run(path) as heir:
            with pytest.warns(RuntimeWarning, match=f"search of run {ledger.run_id} .* damaged"):
                saved = await heir.adopt("skill")

        assert saved.run == older

    @pytest.mark.parametrize("which", ["commit", "tree", "document"])
    async def test_wherever_the_damage_is(self, path, which):
        run = await left(path, a_save())
        commit_id = (path / ".git" / PLACE / run).read_text().strip()
        tree = read(path, "read", lambda reader: reader._objects.root(commit_id))
        document = read(path, "read", lambda r: str(r._repository[tree]["search.json"].id))
        _cut(path, {"commit": commit_id, "tree": tree, "document": document}[which])

        async with a_run(path) as heir:
            with pytest.warns(RuntimeWarning, match="was damaged"):
                assert await heir.adopt("skill") is None
        assert references(path) == []

    @pytest.mark.parametrize(
        "content", [b"", b"\0" * 41, b"12ab", b"a" * 40 + b"\n", b"ref: refs/heads/dev\n"]
    )
    async def test_a_torn_reference_is_removed(self, path, content):
        run = await left(path, a_save())
        (path / ".git" / PLACE / "torn").write_bytes(content)

        async with a_run(path) as heir:
            with pytest.warns(RuntimeWarning, match="search of run torn "):
                saved = await heir.adopt("skill")

        assert saved.run == run
        check_with_git(path)

    async def test_a_search_that_git_has_packed_is_adopted_all_the_same(self, path, git):
        run = await left(path, a_save(mood="good"))
        git(path, "pack-refs", "--all")

        async with a_run(path) as heir:
            assert (await heir.adopt("skill")).run == run
        assert run not in git(path, "for-each-ref")

    async def test_what_is_no_search_is_no_search(self, path, git):
        await left(path)
        git(path, "update-ref", f"{PLACE}/foreign", "dev")

        async with a_run(path) as heir:
            with pytest.warns(RuntimeWarning, match="search of run foreign"):
                assert await heir.adopt("skill") is None
        check_with_git(path)

    async def test_versions_are_told_down_to_the_oldest_that_is_intact(self, path):
        async with a_run(path) as ledger:
            await ledger.save(a_save(head=1))
            made = [(await commit(ledger, {"n": str(n + 1)}, n))[0] for n in (1, 2, 3)]
        _cut(path, made[0])

        async with a_run(path) as heir:
            saved = await heir.adopt("skill")

        assert saved.base.version == 3
        assert [commit_id for commit_id, _ in saved.commits] == [made[2]]

    async def test_what_nobody_keeps_is_not_synced(self, path):
        run = await left(path, a_save(), durability="none")

        assert references(path) == [run]


class TestReading:
    async def test_the_last_search_is_read_whether_or_not_its_run_is_alive(self, path, ledger):
        await left(path, a_save(n=1))
        await ledger.save(a_save(n=2))

        found = read(path, "read", lambda reader: reader.last_search("skill"))

        assert found.document["n"] == 2
        assert read(path, "read", lambda reader: reader.last_search("third")) is None

    async def test_a_search_that_is_replaced_while_it_is_read_is_read_again(
        self, path, ledger, monkeypatch
    ):
        await ledger.save(a_save(n=1))
        commit_id = (path / ".git" / PLACE / ledger.run_id).read_text().strip()
        await ledger.save(a_save(n=2))

        def late(repository, objects):
            monkeypatch.undo()
            return [Left(ledger.run_id, commit_id, {"artifact": "skill"})]

        monkeypatch.setattr("agentdescent.ledger.reader.references", late)

        assert read(path, "read", lambda reader: reader.last_search("skill")).document["n"] == 2


async def _commit_with_search(ledger, state, base, **save):
    async with ledger.locked():
        await ledger.commit_with_search(stored(state), base, NOTE, a_save(head=base, **save))


def _cut(path, oid):
    file = path / ".git" / "objects" / oid[:2] / oid[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:8])


def _is_page(path, oid):
    content = read(path, "read", lambda reader: reader._objects.read(oid))
    return content[0] == "blob" and content[1].endswith(b"\nx\n")
