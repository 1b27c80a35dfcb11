import asyncio
import signal
import sys
import threading
from contextvars import ContextVar
from types import SimpleNamespace

import anyio
import pytest

from agentdescent.blocking import run_blocking
from agentdescent.errors import RunningLoopError

colour = ContextVar("colour", default="none")


@pytest.fixture
def notebook(monkeypatch):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


@pytest.fixture
def as_cell():
    """Call a function as a notebook does: inside a running loop that ignores signals."""
    loop = asyncio.new_event_loop()

    async def cell(function, *args):
        return function(*args)

    yield lambda function, *args: loop.run_until_complete(cell(function, *args))
    loop.close()


async def which_thread():
    await anyio.sleep(0)
    return threading.current_thread()


class Interrupted:
    """Sends Ctrl-C once it runs, and logs that it could clean up."""

    def __init__(self):
        self.log = []

    async def __call__(self):
        try:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0)
            self.log.append("cleaned up")


def test_a_script_gets_the_result_from_a_loop_in_its_own_thread():
    assert run_blocking(which_thread) is threading.current_thread()


def test_an_error_comes_out_as_it_is():
    async def fail():
        raise KeyError("no such task")

    with pytest.raises(KeyError, match="no such task"):
        run_blocking(fail)


def test_what_a_second_ctrl_c_tears_is_no_error_of_its_own():
    async def torn():
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("left halfway")

    with pytest.raises(KeyboardInterrupt):
        run_blocking(torn)


@pytest.mark.asyncio
async def test_in_a_running_loop_it_says_what_to_write():
    with pytest.raises(RunningLoopError) as caught:
        run_blocking(which_thread)

    assert str(caught.value) == (
        "evolve() was called from a running event loop; use `await async_evolve(...)`"
    )


@pytest.mark.asyncio
async def test_other_callers_name_themselves():
    with pytest.raises(RunningLoopError, match=r"^load\(\) was .* use `await aload\(\)`$"):
        run_blocking(which_thread, caller="load()", instead="await aload()")


@pytest.mark.asyncio
async def test_a_terminal_with_ipython_is_no_notebook(monkeypatch):
    shell = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    with pytest.raises(RunningLoopError):
        run_blocking(which_thread)


def test_in_a_notebook_it_runs_on_a_helper_thread(notebook, as_cell):
    helper = as_cell(run_blocking, which_thread)

    assert helper is not threading.current_thread()
    assert not helper.is_alive()


def test_in_a_notebook_the_context_goes_along(notebook, as_cell):
    async def look():
        return colour.get()

    def cell():
        colour.set("red")
        return run_blocking(look)

    assert as_cell(cell) == "red"


def test_in_a_notebook_an_error_comes_out_as_it_is(notebook, as_cell):
    async def fail():
        raise KeyError("no such task")

    with pytest.raises(KeyError, match="no such task"):
        as_cell(run_blocking, fail)


def test_in_a_notebook_without_a_loop_no_thread_is_needed(notebook):
    assert run_blocking(which_thread) is threading.current_thread()


def test_ctrl_c_cleans_up_and_surfaces():
    interrupted = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        run_blocking(interrupted)

    assert interrupted.log == ["cleaned up"]


def test_ctrl_c_in_a_notebook_cleans_up_and_surfaces(notebook, as_cell):
    interrupted = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        as_cell(run_blocking, interrupted)

    assert interrupted.log == ["cleaned up"]
