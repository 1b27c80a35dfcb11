"""What every ledger owes the engine."""

import anyio
import pytest

from agentdescent.core.artifact import Contract
from agentdescent.core.store import CommitNote
from agentdescent.errors import (
    CASConflict,
    ContractError,
    ContractRejected,
    LedgerClosed,
    LedgerDamaged,
)
from support.ledgers import NOTE, commit, state_of, stored


@pytest.mark.asyncio
async def test_a_new_ledger_is_empty(store):
    assert await store.read() == await store.read("stable") == {}
    assert [line[8:] for line in await store.log()] == ["genesis"]


@pytest.mark.asyncio
async def test_registration_gives_version_one_on_both_branches(store):
    contract = Contract("task", "text", ("network",), 2)
    entry = await store.register(stored({"b": "2", "a": [1]}, contract=contract, blast_radius=0.5))

    assert (entry.artifact_id, entry.version, entry.blast_radius) == ("skill", 1, 0.5)
    assert entry.contract == contract
    assert list(entry.state.items()) == [("a", [1]), ("b", "2")]
    assert (await store.read())["skill"] == (await store.read("stable"))["skill"] == entry
    for branch in ("dev", "stable"):
        assert [line[8:] for line in await store.log(branch)] == ["register skill", "genesis"]


@pytest.mark.asyncio
async def test_registering_again_returns_what_is_there(store):
    await store.register(stored({"a": "1"}))
    await commit(store, {"a": "2"}, 1)

    entry = await store.register(stored({"a": "other"}, blast_radius=0.9))

    assert (dict(entry.state), entry.version, entry.blast_radius) == ({"a": "2"}, 2, 0.2)
    assert len(await store.log()) == 3


@pytest.mark.asyncio
async def test_a_commit_replaces_the_state_on_dev_alone(store):
    await store.register(stored({"a": "1", "b": "2"}))

    made, version = await commit(store, {"b": "3", "c": "4"}, 1)

    assert version == 2
    assert await state_of(store) == ({"b": "3", "c": "4"}, 2)
    assert await state_of(store, branch="stable") == ({"a": "1", "b": "2"}, 1)
    assert (await store.log())[0] == f"{made[:7]} merge w0:1 into skill (v1 -> v2)"


@pytest.mark.asyncio
async def test_what_a_commit_says_of_itself_is_in_the_log(store):
    await store.register(stored())
    await commit(store, {}, 1, note=CommitNote(reward=(0.5, 0.75)))
    assert (await store.log(limit=1))[0][8:] == "update into skill (v1 -> v2): 0.500 -> 0.750"


@pytest.mark.asyncio
@pytest.mark.parametrize("base", [0, 1, 3])
async def test_a_commit_on_another_version_conflicts_and_leaves_no_trace(store, base):
    await store.register(stored({"a": "1"}))
    await commit(store, {"a": "2"}, 1)
    before = await store.log()

    with pytest.raises(CASConflict, match=f"is at version 2, .* builds on version {base}"):
        await commit(store, {"a": "late"}, base)

    assert await state_of(store) == ({"a": "2"}, 2)
    assert await store.log() == before


@pytest.mark.asyncio
async def test_a_commit_of_an_unknown_artifact_conflicts(store):
    with pytest.raises(CASConflict, match="'skill' is not registered"):
        await commit(store, {"a": "1"}, 1)


@pytest.mark.asyncio
async def test_artifacts_have_versions_of_their_own(store):
    await store.register(stored({"a": "1"}))
    await store.register(stored({"b": "1"}, "skills/other"))

    await commit(store, {"a": "2"}, 1)
    await commit(store, {"b": "2"}, 1, "skills/other")
    await commit(store, {"a": "3"}, 2)

    assert await state_of(store) == ({"a": "3"}, 3)
    assert await state_of(store, "skills/other") == ({"b": "2"}, 2)


@pytest.mark.asyncio
async def test_a_commit_may_change_the_blast_radius_but_not_the_contract(store):
    await store.register(stored())
    async with store.locked():
        await store.commit(stored(blast_radius=0.9), 1, NOTE)
        with pytest.raises(ContractRejected, match="contract major 1, but the commit has major 2"):
            await store.commit(stored(contract=Contract(major=2)), 2, NOTE)
    assert (await store.read())["skill"].blast_radius == 0.9


@pytest.mark.asyncio
async def test_a_value_that_is_not_json_is_refused_by_name(store):
    with pytest.raises(ContractError, match="key 'bad', of type bytes"):
        await store.register(stored({"bad": b""}))
    await store.register(stored())
    with pytest.raises(ContractError, match="key 'bad', of type set"):
        await commit(store, {"bad": {1}}, 1)
    assert await state_of(store) == ({"rule": "be brief"}, 1)


@pytest.mark.asyncio
async def test_changing_what_was_read_or_committed_changes_nothing_in_the_ledger(store):
    value = {"list": [1]}
    await store.register(stored(value))
    value["list"].append(2)

    entry = (await store.read())["skill"]
    entry.state["list"].append(3)
    with pytest.raises(TypeError):
        entry.state["new"] = "x"

    assert await state_of(store) == ({"list": [1]}, 1)


@pytest.mark.asyncio
async def test_empty_states_and_long_keys_come_back(store):
    await store.register(stored({}))
    assert await state_of(store) == ({}, 1)
    await commit(store, {"k" * 300: "long"}, 1)
    assert await state_of(store) == ({"k" * 300: "long"}, 2)
    await commit(store, {}, 2)
    assert await state_of(store) == ({}, 3)


@pytest.mark.asyncio
async def test_promotion_takes_the_artifact_to_stable(store):
    await store.register(stored({"a": "1"}))
    await commit(store, {"a": "2"}, 1)
    await commit(store, {"a": "3"}, 2)

    assert await store.promote("skill") == 2
    assert await state_of(store, branch="stable") == ({"a": "3"}, 2)
    assert (await store.log("stable", 1))[0][8:] == "promote skill to stable v2"


@pytest.mark.asyncio
async def test_promoting_what_is_equal_already_writes_nothing(store):
    await store.register(stored({"a": "1"}))
    assert await store.promote("skill") == 1
    await commit(store, {"a": "2"}, 1)
    assert await store.promote("skill") == await store.promote("skill") == 2
    await commit(store, {"a": "2"}, 2)
    assert await store.promote("skill") == 2
    assert len(await store.log("stable")) == 3


@pytest.mark.asyncio
async def test_promotion_heeds_the_blast_radius(store):
    await store.register(stored())
    async with store.locked():
        await store.commit(stored(blast_radius=0.9), 1, NOTE)
    assert await store.promote("skill") == 2
    assert (await store.read("stable"))["skill"].blast_radius == 0.9


@pytest.mark.asyncio
async def test_promoting_an_unknown_or_emptied_artifact(store):
    assert await store.promote("skill") is None
    await store.register(stored({"a": "1"}))
    await commit(store, {}, 1)
    assert await store.promote("skill") == 2
    assert await state_of(store, branch="stable") == ({}, 2)


@pytest.mark.asyncio
async def test_the_log_is_newest_first_and_bounded(store):
    await store.register(stored({"a": "0"}))
    for version in range(1, 5):
        await commit(store, {"a": str(version)}, version)

    subjects = [line.split(" ", 1)[1] for line in await store.log(limit=3)]

    assert subjects == [f"merge w0:1 into skill (v{v} -> v{v + 1})" for v in (4, 3, 2)]
    assert await store.log(limit=0) == []
    assert len(set(await store.log())) == 6


@pytest.mark.asyncio
async def test_an_unknown_branch_is_an_error(store):
    with pytest.raises(LedgerDamaged, match="branch 'main'"):
        await store.read("main")


@pytest.mark.asyncio
async def test_opening_again_changes_nothing(store):
    await store.register(stored())
    await store.open()
    assert await state_of(store) == ({"rule": "be brief"}, 1)


@pytest.mark.asyncio
async def test_after_closing_every_call_raises(store):
    await store.register(stored())
    await store.close()
    await store.close()

    for call in (
        store.open(),
        store.read(),
        store.log(),
        store.register(stored()),
        store.commit(stored(), 1, NOTE),
        store.promote("skill"),
        store.locked().__aenter__(),
    ):
        with pytest.raises(LedgerClosed, match="ledger is closed"):
            await call


@pytest.mark.asyncio
async def test_the_lock_lets_one_writer_in_at_a_time(store):
    inside, most = 0, 0

    async def enter():
        nonlocal inside, most
        async with store.locked():
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(enter)

    assert (inside, most) == (0, 1)


@pytest.mark.asyncio
async def test_a_cancelled_wait_leaves_nothing_locked(store):
    async def wait():
        async with store.locked():
            pytest.fail("two writers at once")

    async with store.locked(), anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    with anyio.fail_after(5):
        async with store.locked():
            pass


@pytest.mark.asyncio
async def test_what_is_cancelled_already_does_not_get_the_lock(store):
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with store.locked():
            pytest.fail("nobody waits for it")
    assert scope.cancelled_caught


@pytest.mark.asyncio
async def test_an_error_inside_the_lock_passes_through_and_frees_it(store):
    with pytest.raises(OSError, match="mine"):
        async with store.locked():
            raise OSError("mine")
    async with store.locked():
        pass


@pytest.mark.asyncio
async def test_rivals_lose_no_update(store):
    await store.register(stored({"n": "0"}))

    async def increment():
        for _ in range(5):
            while True:
                state, version = await state_of(store)
                try:
                    await commit(store, {"n": str(int(state["n"]) + 1)}, version)
                except CASConflict:
                    continue
                break

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(increment)

    assert await state_of(store) == ({"n": "20"}, 21)
