"""`verbose=True`: a run's progress on the log."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from agentdescent.core.events import Event, RoundEnded, RunEnded, RunStarted, WorkerBackedOff
from agentdescent.result import EvolutionResult, RoundInfo

LOGGER = logging.getLogger("agentdescent")


@contextmanager
def progress_on_log() -> Generator[None]:
    """Make sure the logger `agentdescent` reaches somebody while a verbose run lasts.

    A stream handler is added only if neither the logger nor the root logger has one.
    """
    if LOGGER.handlers or logging.getLogger().handlers:
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def log_progress(event: Event) -> None:
    """An event listener: one line a round, and one for whatever went wrong."""
    match event:
        case RunStarted():
            if event.resumed_from:
                LOGGER.info(event.resumed_from)
            LOGGER.info("version %d at reward %s", event.version, event.initial_reward)
        case RoundEnded(info=RoundInfo() as info):
            LOGGER.info(
                "round %d: reward %.3f, %d items, +%d/-%d merges %s",
                info.round,
                info.held_out_reward,
                info.n_items,
                info.committed,
                info.rejected,
                dict(info.reasons),
            )
        case WorkerBackedOff():
            wait = "gives up" if event.seconds is None else f"waits {event.seconds:g} s"
            LOGGER.warning("worker w%d %s after: %s", event.worker, wait, event.error)
        case RunEnded(result=EvolutionResult() as result):
            LOGGER.info(
                "ended (%s) at reward %.3f; %s",
                result.stop_reason,
                result.final_reward,
                result.cost_summary(),
            )
        case _:
            pass
