"""The one bridge from synchronous callers to the asynchronous core."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from agentdescent.errors import RunningLoopError
from agentdescent.threads import loop_is_running

T = TypeVar("T")


def run_blocking(
    function: Callable[[], Awaitable[T]],
    *,
    caller: str = "evolve()",
    instead: str = "await async_evolve(...)",
) -> T:
    """Run `function` in an event loop of its own and return its result.

    In a notebook, whose cells run inside a loop, that loop gets a helper thread. Ctrl-C cancels
    `function`; once it has cleaned up, `KeyboardInterrupt` is raised. A second Ctrl-C does not wait
    for that.

    Args:
        function: A coroutine function, for instance a partial, that needs no arguments.
        caller: The synchronous function that the user called; for the error message.
        instead: What to write in asynchronous code.

    Raises:
        RunningLoopError: If an event loop is running in this thread, outside a notebook.
    """
    if not loop_is_running():
        return _run(function)
    if not _is_notebook():
        raise RunningLoopError(f"{caller} was called from a running event loop; use `{instead}`")
    with start_blocking_portal(name="agentdescent") as portal:
        return portal.call(function)


def _run(function: Callable[[], Awaitable[T]]) -> T:
    try:
        return anyio.run(function)
    except Exception as error:
        if _comes_of_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise


def _comes_of_ctrl_c(error: BaseException | None) -> bool:
    """True if a Ctrl-C has torn what was cleaning up after another one, and this is the damage."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_notebook() -> bool:
    """True inside an IPython kernel; IPython is not imported for the question."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if callable(get_ipython) else None
    return getattr(shell, "kernel", None) is not None
