"""Virtual time for scripts."""

import asyncio

import looptime
import pytest


@pytest.fixture
def virtual_time(monkeypatch):
    """Every event loop that `evolve` opens counts virtual seconds, from 0."""
    monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: looptime.new_event_loop(start=0))
