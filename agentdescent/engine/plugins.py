"""Calling strategies, samplers, plans and aggregators: a fault of theirs is the caller's."""

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any

from agentdescent.core.diff import Diff, Dropped, State
from agentdescent.core.protocols import Strategy
from agentdescent.errors import ContractError, PluginError, describe
from agentdescent.threads import awaited, called


def ask(role: str, method: Callable[..., Any], *args: object) -> Any:
    """Call a plug-in method.

    Raises:
        PluginError: If it raises, with the original error as `__cause__`.
    """
    try:
        return called(method, *args)
    except ContractError:
        raise
    except Exception as error:
        raise plugin_error(role, _name(method), error) from error


async def consult(role: str, method: Callable[..., Any], *args: object) -> Any:
    """As `ask`, for a method that may be `def` or `async def`."""
    value = ask(role, method, *args)
    if value is None or not isawaitable(value):
        return value
    try:
        return await awaited(value)
    except ContractError:
        raise
    except Exception as error:
        raise plugin_error(role, _name(method), error) from error


def first_state(strategy: Strategy) -> State:
    """The state of a new artifact; raises as `ask`, also for anything but a mapping."""
    return _checked("strategy.initial", ask("strategy", strategy.initial), Mapping, "a mapping")


def render(strategy: Strategy, state: State) -> str:
    """`state` as text for `run`; raises as `ask`, also for anything but text.

    As everywhere, the strategy is given a dict of its own to work with.
    """
    text = ask("strategy", strategy.render, dict(state))
    return _checked("strategy.render", text, str, "text")


async def to_diff(strategy: Strategy, state: State, *args: object) -> Diff | Dropped | None:
    """What a proposal comes to; raises as `ask`, also for anything but a diff or a refusal."""
    made = await consult("strategy", strategy.to_diff, dict(state), *args)
    kinds = (Diff, Dropped, type(None))
    _checked("strategy.to_diff", made, kinds, "a Diff, a Dropped or None")
    for key in made.ops if isinstance(made, Diff) else ():
        _checked("strategy.to_diff", key, str, "a Diff whose keys are text")
    return made


def _checked(method: str, value: Any, kind: Any, kind_name: str) -> Any:
    if isinstance(value, kind):
        return value
    raise PluginError(
        f"{method} must return {kind_name}, got {type(value).__name__} {value!r:.80}; mend the "
        "strategy, a retry would not help"
    )


def plugin_error(role: str, name: str, error: Exception) -> PluginError:
    """The error that tells the caller which plug-in broke and how."""
    return PluginError(
        f"{role} failed in {name}: {describe(error)}; mend the plug-in, a retry would not help"
    )


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__qualname__", repr(method))
