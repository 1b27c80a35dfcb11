"""Virtual time passes where everybody waits."""

import asyncio
import time

import pytest


@pytest.fixture
def virtual(benchmark_module):
    return benchmark_module("_virtual")


def test_waiting_takes_no_time(virtual):
    async def wait():
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(7200))
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        assert runner.run(wait()) == pytest.approx(7200)
    assert time.perf_counter() - began < 60


def test_waiting_for_nothing_is_an_error(virtual):
    runner = asyncio.Runner(loop_factory=virtual.VirtualLoop)
    with runner, pytest.raises(RuntimeError, match="no timer"):
        try:
            runner.run(asyncio.Event().wait())
        finally:
            loop = runner.get_loop()
            for task in asyncio.all_tasks(loop):
                task.cancel()
