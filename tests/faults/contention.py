"""Processes that write to one ledger at once."""

import time

import anyio

from agentdescent.ledger import GitLedger
from faults.children import Child
from support.ledgers import NOTE, state_of, stored

P99_MS = 100.0


def contention(driver):
    """Four processes increment one number; how long each takes to be served."""
    increments = 200 if driver.long else 50
    path = driver.fresh(on_disk=True)
    anyio.run(_begin_counting, path)
    children = [Child(lambda report: anyio.run(_count, path, increments, report)) for _ in range(4)]
    times = sorted(ms for child in children for ms in child.wait()[0])
    total = anyio.run(_counted, path)
    driver.attempt("no update is lost", lambda: _equal(total, 4 * increments))
    p99 = times[int(len(times) * 0.99)]
    return {
        "increments": 4 * increments,
        "lost": 4 * increments - total,
        "p50 ms": round(times[len(times) // 2], 1),
        "p99 ms": round(p99, 1),
        "bar ms": P99_MS,
        "reached": p99 < P99_MS,
    }


async def _begin_counting(path):
    ledger = GitLedger(path)
    await ledger.open()
    await ledger.register(stored({"n": "0"}))
    await ledger.close()


async def _count(path, increments, report):
    ledger, times = GitLedger(path), []
    await ledger.open()
    for _ in range(increments):
        began = time.perf_counter()
        async with ledger.locked():
            state, version = await state_of(ledger)
            await ledger.commit(stored({"n": str(int(state["n"]) + 1)}), version, NOTE)
        times.append((time.perf_counter() - began) * 1000)
    await ledger.close()
    report(times)


async def _counted(path):
    ledger = GitLedger(path)
    await ledger.open()
    state, _ = await state_of(ledger)
    await ledger.close()
    return int(state["n"])


def _equal(one, other):
    assert one == other, (one, other)
