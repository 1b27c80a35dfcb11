"""What callers owe the engine, checked where it can first be known."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.errors import ProposalContractError, RewardContractError

SOLVED = 0.999
"""A reward this high counts as solved: no proposal is asked for."""

SLACK = 1e-6


def check_reward(task: Task, value: object) -> float:
    """Return `value` as a float in [0, 1]; a hair outside is clamped.

    Raises:
        RewardContractError: If it is no number, not finite, or outside by more than 1e-6.
    """
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        raise RewardContractError(
            f"reward must return a number in [0, 1]; for task {task.id!r} it returned "
            f"{_shown(value)}; return a float, or raise to report a failure"
        ) from None
    if math.isnan(number) or not -SLACK <= number <= 1.0 + SLACK:
        raise RewardContractError(
            f"reward returned {number!r} for task {task.id!r}, which is outside [0, 1]; "
            "normalise it, for example by dividing by the largest possible score"
        )
    return min(1.0, max(0.0, number))


def check_parts(task: Task, scored: Scored) -> Mapping[str, float]:
    """Return the parts of `scored` as floats.

    Raises:
        RewardContractError: If one is no finite number.
    """
    parts: dict[str, float] = {}
    for name, part in scored.parts.items():
        try:
            parts[name] = float(part)
        except (TypeError, ValueError, OverflowError):
            parts[name] = math.nan
        if not math.isfinite(parts[name]):
            raise RewardContractError(
                f"the part {name!r} of the reward for task {task.id!r} is {_shown(part)}; parts "
                "must be finite numbers: put words into feedback"
            )
    return parts


def check_proposal(task: Task, value: object) -> str | None:
    """Return `value` if it is text or None.

    Raises:
        ProposalContractError: Otherwise.
    """
    if value is None or isinstance(value, str):
        return value
    raise ProposalContractError(
        f"propose must return a string or None; for task {task.id!r} it returned "
        f"{_shown(value)}; join several lines into one string, or return None for no proposal"
    )


def check_callable(name: str, function: object, parameters: Iterable[str]) -> None:
    """Check that `function` can be called with as many positionals as `parameters`.

    A callable whose signature cannot be read is let through.

    Raises:
        TypeError: If it is not callable or does not take them.
    """
    expected = f"{name}({', '.join(parameters)})"
    if not callable(function):
        raise TypeError(f"{name} must be a function of the form {expected}, got {_shown(function)}")
    signature = _signature(function)
    if signature is None:
        return
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise TypeError(
            f"{name} must be callable as {expected}, but it is {name}{signature}: {error}"
        ) from None


def reflect_of(propose: Callable[..., Any]) -> Callable[..., Any] | None:
    """The method `reflect(reflection)` of the object that `propose` is, or is the `propose` of.

    None if it offers none that takes one positional. A class that overrides `propose` and inherits
    `reflect` is to be asked by what it overrides.
    """
    owner = getattr(propose, "__self__", propose)
    if owner is not propose and getattr(owner, "propose", None) != propose:
        return None
    reflect = getattr(owner, "reflect", None)
    if not callable(reflect) or not takes(reflect, ("reflection",)):
        return None
    called = "__call__" if owner is propose else "propose"
    return reflect if _depth(owner, "reflect") <= _depth(owner, called) else None


def takes(function: Callable[..., Any], parameters: Iterable[str]) -> bool:
    """True if `function` can be called with as many positionals, as far as its signature tells."""
    signature = _signature(function)
    if signature is None:
        return True
    try:
        signature.bind(*parameters)
    except TypeError:
        return False
    return True


def _depth(owner: object, name: str) -> int:
    """How far up in the classes of `owner` the attribute `name` is defined; -1 on itself."""
    scopes = [getattr(owner, "__dict__", {}), *map(vars, type(owner).__mro__)]
    return next((depth for depth, names in enumerate(scopes) if name in names), len(scopes)) - 1


def require_methods(role: str, plugin: object, methods: Iterable[str]) -> None:
    """Check that `plugin` has every one of `methods`.

    Raises:
        TypeError: Naming the first that is missing and what the role needs, or if it is a class.
    """
    needed = tuple(methods)
    if isinstance(plugin, type):
        raise TypeError(f"{role} is the class {plugin.__name__}; give an instance of it")
    for method in needed:
        if not callable(getattr(plugin, method, None)):
            raise TypeError(
                f"{role} must have the methods {', '.join(needed)}; {type(plugin).__name__} has no "
                f"{method}()"
            )


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
