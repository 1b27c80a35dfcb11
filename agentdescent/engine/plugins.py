"""Calling strategies, samplers, plans and aggregators: a fault of theirs is the caller's."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from agentdescent.errors import ContractError, PluginError, describe


def ask(role: str, method: Callable[..., Any], *args: object) -> Any:
    """Call a plug-in method.

    Raises:
        PluginError: If it raises, with the original error as `__cause__`.
    """
    try:
        return method(*args)
    except ContractError:
        raise
    except Exception as error:
        raise plugin_error(role, _name(method), error) from error


async def consult(role: str, method: Callable[..., Any], *args: object) -> Any:
    """As `ask`, for a method that may be `def` or `async def`."""
    value = ask(role, method, *args)
    if not isawaitable(value):
        return value
    try:
        return await value
    except ContractError:
        raise
    except Exception as error:
        raise plugin_error(role, _name(method), error) from error


def plugin_error(role: str, name: str, error: Exception) -> PluginError:
    """The error that tells the caller which plug-in broke and how."""
    return PluginError(
        f"{role} failed in {name}: {describe(error)}; mend the plug-in, a retry would not help"
    )


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__qualname__", repr(method))
