"""Running an actor that exposes its turns."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from agentdescent.core.leash import Leash
from agentdescent.core.turns import Course, Cut, Turn
from agentdescent.errors import ContractError
from agentdescent.threads import DaemonThreads, follow


async def take_turns(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    threads: DaemonThreads,
    leash: Leash | None,
    course: Course | None = None,
) -> Any:
    """Run the async generator that `function` makes to its output, and return that.

    Cancelled, it cancels the turn that is under way. The generator is closed in any case.

    Args:
        function: What to call.
        args: With what.
        threads: Where the generator sends its own blocking calls.
        leash: Counts these.
        course: What it goes on with, and who is told of its turns; None runs all of them.

    Raises:
        Cut: If the course, or the leash once a thread has returned, wants no further turn.
        ContractError: If it yields anything but turns, or ends without an output.
    """
    options = {} if course is None else course.options
    async with aclosing(function(*args, **options)) as turns:
        while True:
            try:
                turn = await follow(anext(turns), threads, leash)
            except StopAsyncIteration:
                raise _broken(args, "ended") from None
            if not isinstance(turn, Turn):
                raise _broken(args, f"yielded {turn!r:.80}")
            if turn.is_last:
                return turn.output
            if course is not None:
                course.note(turn)
                if leash is not None and leash.overdue:
                    raise Cut


def _broken(args: tuple[Any, ...], what: str) -> ContractError:
    task = args[1]
    return ContractError(
        f"run {what} for task {task.id!r}; as an async generator it must yield Turn(state) after "
        "each turn and Turn(output=...) last"
    )
