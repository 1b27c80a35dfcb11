import asyncio

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_current_loop():
    """Say that the absence of an event loop is meant, else virtual time opens one and leaves it."""
    asyncio.set_event_loop(None)
