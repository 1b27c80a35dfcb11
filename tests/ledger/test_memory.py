import re

import anyio
import pytest

from agentdescent.errors import CASConflict, LedgerClosed
from agentdescent.ledger import MemoryLedger
from support.ledgers import commit, state_of, stored


async def opened(**options):
    ledger = MemoryLedger(**options)
    await ledger.open()
    await ledger.register(stored({"a": "1"}))
    return ledger


@pytest.mark.asyncio
async def test_before_opening_every_call_raises():
    with pytest.raises(LedgerClosed, match=r"not open: await open\(\) first"):
        await MemoryLedger().read()


@pytest.mark.asyncio
async def test_equal_histories_have_equal_commits_and_others_do_not():
    one, same, other = [await opened() for _ in range(3)]
    first, _ = await commit(one, {"a": "2"}, 1)
    second, _ = await commit(same, {"a": "2"}, 1)
    third, _ = await commit(other, {"a": "3"}, 1)

    assert first == second != third
    assert re.fullmatch("[0-9a-f]{40}", first)
    assert await one.log() == await same.log() != await other.log()


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_commit_takes_its_delay(looptime):
    ledger = await opened(delay=3)
    await commit(ledger, {"a": "2"}, 1)
    await commit(ledger, {"a": "3"}, 2)
    assert looptime == 6


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_cancelled_commit_did_not_happen(looptime):
    ledger = await opened(delay=3)
    with anyio.move_on_after(1):
        await commit(ledger, {"a": "2"}, 1)

    assert looptime == 1
    assert await state_of(ledger) == ({"a": "1"}, 1)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_of_two_commits_on_one_base_the_second_conflicts(looptime):
    ledger = await opened(delay=3)
    outcomes = []

    async def attempt(value):
        try:
            outcomes.append(await commit(ledger, {"a": value}, 1))
        except CASConflict as conflict:
            outcomes.append(conflict)

    async with anyio.create_task_group() as group:
        group.start_soon(attempt, "first")
        group.start_soon(attempt, "second")

    assert looptime == 6
    assert outcomes[0][1] == 2
    assert isinstance(outcomes[1], CASConflict)
    assert await state_of(ledger) == ({"a": "first"}, 2)
