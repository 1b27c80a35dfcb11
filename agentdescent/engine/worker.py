"""The worker task."""

from collections.abc import Awaitable, Callable

from anyio.streams.memory import MemoryObjectSendStream

from agentdescent.engine.journal import Journal
from agentdescent.engine.messages import Report, Ticket
from agentdescent.engine.schedule import Schedule


async def work(
    index: int,
    schedule: Schedule,
    roll_out: Callable[[Ticket], Awaitable[Report]],
    journal: Journal,
    outbox: MemoryObjectSendStream[Report],
) -> None:
    """Run rollouts for worker `index` until the schedule admits no more."""
    async with outbox:
        while (ticket := await schedule.admit(index)) is not None:
            report = await roll_out(ticket)
            journal.note(report)
            schedule.note(report)
            if schedule.wants(report):
                outbox.send_nowait(report)
