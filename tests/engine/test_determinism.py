"""Same seed, same outputs: timing, width and hash seeds decide nothing."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from agentdescent import async_evolve
from agentdescent.ledger import MemoryLedger
from support.router import RouterWorld

TESTS = Path(__file__).parents[1]


def without_seconds(history):
    return [{k: v for k, v in asdict(info).items() if k != "elapsed_s"} for info in history]


async def route(max_concurrency, run_s, **options):
    world = RouterWorld(seed=3, run_s=run_s, propose_s=run_s / 3, clusters=12)
    return await async_evolve(
        **world.parts,
        asynchronous=False,
        rounds=10,
        n_workers=8,
        max_concurrency=max_concurrency,
        shuffle=False,
        ledger=MemoryLedger(),
        **options,
    )


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_history_does_not_depend_on_max_concurrency():
    one, eight = await route(1, 0.05), await route(8, 0.05)

    assert without_seconds(one.history) == without_seconds(eight.history)
    assert one.state == eight.state
    assert one.ledger_log == eight.ledger_log


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_decisions_do_not_depend_on_latency_or_the_width_of_the_gate():
    slow = await route(8, 3.0, eval_concurrency=1)
    fast = await route(3, 0.01)

    assert slow.state == fast.state
    assert slow.outcomes() == fast.outcomes()


SCRIPT = """
import json, anyio, sys
sys.path.insert(0, sys.argv[1])
from engine.test_determinism import route, without_seconds
result = anyio.run(route, 8, 0.0)
print(json.dumps([without_seconds(result.history), dict(result.state)]))
"""


def test_two_processes_with_different_hash_seeds_agree():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(TESTS)],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert json.loads(outputs[0]) == json.loads(outputs[1])
    assert json.loads(outputs[0])[0]
