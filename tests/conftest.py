"""After every test nothing is left: no task, thread, descriptor, scratch directory or file."""

import asyncio
import gc
import inspect
import tempfile
import threading
from pathlib import Path

import pytest
import pytest_asyncio

SECONDS_TO_END = 2.0
SPARE_DESCRIPTORS = 2


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "leaves_thread: the test abandons a thread, and releases it itself at its end"
    )
    asyncio.set_event_loop(None)  # else a default loop is made on demand, and closed by nobody


def pytest_collection_modifyitems(items):
    for item in items:
        if inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.fixturenames.append("no_task_left")


@pytest.fixture(scope="session", autouse=True)
def private_scratch(tmp_path_factory):
    """Let scratch directories be made where no other process makes any."""
    directory = str(tmp_path_factory.mktemp("scratch"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", directory)
        patch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


@pytest.fixture(autouse=True)
def nothing_left(request, private_scratch):
    threads, descriptors = set(threading.enumerate()), _descriptors()
    files, scratch = _files(), _scratch(private_scratch)
    yield
    if request.node.get_closest_marker("leaves_thread") is None:
        left = [thread.name for thread in threading.enumerate() if _outlives(thread, threads)]
        assert not left, f"threads still run: {left}"
    if _descriptors() > descriptors + SPARE_DESCRIPTORS:
        gc.collect()
        grown = _descriptors() - descriptors
        assert grown <= SPARE_DESCRIPTORS, f"{grown} more file descriptors are open"
    left = _files() - files | _scratch(private_scratch) - scratch
    assert not left, f"files are left: {left}"


@pytest_asyncio.fixture
async def no_task_left():
    """Requested for every asynchronous test."""
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks still run: {left}"


def _outlives(thread, known):
    if thread in known:
        return False
    thread.join(SECONDS_TO_END)
    return thread.is_alive()


def _descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _files():
    return {path.name for path in Path().iterdir() if not path.name.startswith((".", "__"))}


def _scratch(directory):
    return {path.name for path in directory.iterdir() if path.name.startswith("agentdescent-")}
