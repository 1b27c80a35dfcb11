import anyio
from hypothesis import Phase, find, given, settings

from agentdescent.core.diff import apply_ops
from agentdescent.testing import MemoryLedger, run_trio
from agentdescent.testing.strategies import diffs, states


def test_run_trio_jumps_over_the_waiting_time():
    async def sleep(hours):
        began = anyio.current_time()
        await anyio.sleep(hours * 3600)
        return anyio.current_time() - began

    assert run_trio(sleep, 5) == 18_000


def test_run_trio_shuffles_ready_tasks():
    async def order():
        seen = []

        async def note(number):
            seen.append(number)

        async with anyio.create_task_group() as tg:
            for number in range(12):
                tg.start_soon(note, number)
        return seen

    orders = {tuple(run_trio(order)) for _ in range(20)}

    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(12))}


def test_the_ledger_in_memory_is_at_hand():
    assert MemoryLedger(delay=1) is not None


@given(states(), diffs("skill"))
def test_diffs_apply_to_states(state, diff):
    after = apply_ops(state, diff.ops)

    assert diff.target == "skill"
    assert after.keys() == (state.keys() | diff.ops.keys()) - {
        key for key, value in diff.ops.items() if value is None
    }


def some(condition):
    return find(diffs(), condition, settings=settings(phases=[Phase.generate], database=None))


def test_diffs_set_and_delete_and_contradict():
    assert None in some(lambda diff: None in diff.ops.values()).ops.values()
    assert some(lambda diff: diff.size() > 1).size() > 1
    one = some(lambda diff: diff.size() == 1)
    assert some(one.contradicts).contradicts(one)
