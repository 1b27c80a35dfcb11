"""Asking constraints."""

from collections.abc import Iterable
from typing import Any

from agentdescent.core.diff import State
from agentdescent.core.protocols import Constraint
from agentdescent.errors import ContractError, PluginError, describe


def violation(constraints: Iterable[Constraint], before: State, after: State) -> str:
    """The first reason why `before` may not become `after`, or "".

    Raises:
        PluginError: If a constraint raises, or gives anything but text or None.
    """
    for constraint in constraints:
        reason = _asked(constraint, before, after)
        if reason:
            return reason
    return ""


def _asked(constraint: Constraint, before: State, after: State) -> str:
    try:
        reason: Any = constraint(dict(before), dict(after))
    except ContractError:
        raise
    except Exception as error:
        raise PluginError(
            f"constraint {_name(constraint)} failed: {describe(error)}; mend the constraint, a "
            "retry would not help"
        ) from error
    if reason is None or isinstance(reason, str):
        return reason or ""
    raise PluginError(
        f"constraint {_name(constraint)} must return a reason or None, got "
        f"{type(reason).__name__} {reason!r:.80}; return None where there is nothing to object to"
    )


def _name(constraint: object) -> str:
    return getattr(constraint, "__qualname__", type(constraint).__qualname__)
