"""Clients that are given: an object with ``messages.create``, as the vendor's SDK has it."""

from collections.abc import Mapping
from inspect import isawaitable
from typing import Any

from agentdescent.agents.providers.dialects import Dialect, Draft
from agentdescent.agents.providers.failures import Failure, of_status
from agentdescent.errors import ProviderTimeout, ProviderUnreachable
from agentdescent.threads import in_thread, is_async

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def is_sdk(client: object) -> bool:
    """True if `client` has ``messages.create``."""
    return hasattr(getattr(client, "messages", None), "create")


async def create(
    client: Any, dialect: Dialect, body: Mapping[str, Any], seconds: float
) -> Draft | Failure:
    """Have `client` ask, for at most so many seconds; a synchronous one, in a daemon thread.

    What it raises is told apart by its `status_code` and by its class. An error that says nothing
    of either is raised as it is.
    """
    ask = client.messages.create

    def call() -> Any:
        return ask(**body, timeout=seconds)

    try:
        message = call() if is_async(ask) else await in_thread(call)
        if isawaitable(message):
            message = await message
    except Exception as error:
        failure = _of_sdk(error)
        if failure is None:
            raise
        return failure
    return dialect.read(_plain(message))


def _of_sdk(error: Exception) -> Failure | None:
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        headers = getattr(getattr(error, "response", None), "headers", None)
        return of_status(status, {} if headers is None else headers, str(error))
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    if "Timeout" in names:
        return Failure(ProviderTimeout, f"no reply in time ({error})", is_luck=True)
    if "Connection" in names or isinstance(error, OSError):
        return Failure(ProviderUnreachable, f"the connection failed ({error})", is_luck=True)
    return None


def _plain(message: Any) -> dict[str, Any]:
    blocks: Any = getattr(message, "content", None)
    usage = getattr(message, "usage", None)
    return {
        "content": blocks
        and [
            {"type": getattr(block, "type", None), "text": getattr(block, "text", None)}
            for block in blocks
        ],
        "stop_reason": getattr(message, "stop_reason", None),
        "usage": {name: getattr(usage, name, None) for name in _COUNTS},
    }
