"""Every test in this folder runs with several orders of the tasks that are ready at one time.

Run the code under test by `agentdescent.testing.run_trio`.
"""

import pytest
import trio


@pytest.fixture(params=range(10), autouse=True)
def shuffled_order(request, monkeypatch):
    """Make trio shuffle, rather than reverse now and then, and the same way each time."""
    scheduler = trio._core._run
    monkeypatch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    state = scheduler._r.getstate()
    scheduler._r.seed(request.param)
    yield
    scheduler._r.setstate(state)
