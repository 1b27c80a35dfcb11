"""`verbose=True` reaches somebody, and leaves logging as it was."""

import logging

import anyio
import pytest

from agentdescent import async_evolve
from agentdescent.console import LOGGER
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules


async def verbose_run(run=None, **options):
    world = HiddenRules(rules=2)
    await async_evolve(
        world.tasks,
        world.reward,
        run=run or world.run,
        propose=world.propose,
        verbose=True,
        ledger=MemoryLedger(),
        **options,
    )


def test_rounds_and_the_end_are_logged_to_stderr(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    anyio.run(lambda: verbose_run(asynchronous=False, rounds=2, n_workers=2))

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "version 1 at reward 0.0"
    assert lines[1] == "round 0: reward 1.000, 2 items, +1/-0 merges {'committed': 1}"
    assert lines[2] == "round 1: reward 1.000, 2 items, +0/-0 merges {}"
    assert lines[3].startswith("ended (rounds) at reward 1.000; 4 rollouts, ")
    assert LOGGER.handlers == []
    assert LOGGER.level == logging.NOTSET


def test_backing_off_is_logged(caplog):
    async def run(rendered, task):
        raise ConnectionError("down")

    with caplog.at_level(logging.INFO, "agentdescent"), pytest.warns(RuntimeWarning):
        anyio.run(lambda: verbose_run(run, asynchronous=True, n_workers=1, max_worker_errors=2))

    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "worker w0 waits 0.5 s after: ConnectionError: down",
        "worker w0 gives up after: ConnectionError: down",
    ]
