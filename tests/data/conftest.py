"""A hub, an empty cache and no token."""

from contextlib import ExitStack
from functools import partial

import pytest

from agentdescent.dataloader import hf_rows
from support.hub import QUICK, Server


@pytest.fixture
def new_server():
    with ExitStack() as servers:
        yield lambda: servers.enter_context(Server())


@pytest.fixture
def server(new_server):
    return new_server()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AGENTDESCENT_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    directory = tmp_path / "cache"
    monkeypatch.setenv("AGENTDESCENT_CACHE", str(directory))
    return directory


@pytest.fixture
def entries(cache):
    """The files of the cache, in order."""
    return lambda: sorted(path for path in cache.rglob("*") if path.is_file())


@pytest.fixture
def rows(server):
    """Ask the server for rows of one data set."""
    return partial(hf_rows, "a/b", "train", base_url=server.url, backoff=QUICK)
