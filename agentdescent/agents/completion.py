"""Completions: anything that turns a prompt into text, plain or awaitable."""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isawaitable
from typing import cast

from agentdescent.agents.metering import Counted
from agentdescent.core.contracts import check_callable
from agentdescent.core.reply import Reply
from agentdescent.errors import ContractError
from agentdescent.threads import in_thread, is_async
from agentdescent.usage import Usage

__all__ = ["Completion", "Reply", "asking", "echo", "from_callable", "metered"]

Completion = Callable[[str], str | Awaitable[str]]
"""A model, an agent or a stub: prompt in, text out. May be a coroutine function."""


def from_callable(function: Completion) -> Completion:
    """Use `function`, any callable from prompt to text, as a completion; it is returned as it is.

    Raises:
        TypeError: If it cannot be called with one prompt.
    """
    check_callable("completion", function, ("prompt",))
    return function


def echo(transform: Callable[[str], str] | None = None) -> Completion:
    """A stub without a model: it replies `transform(prompt)`, by default the prompt itself."""

    def complete(prompt: str) -> str:
        return prompt if transform is None else transform(prompt)

    return complete


def metered(completion: Completion, usage: Usage) -> Completion:
    """`completion`, recording calls, seconds and failures in `usage`; tokens stay unknown.

    The result is a coroutine function if `completion` is one.
    """

    async def awaited(reply: Awaitable[str]) -> str:
        with Counted(usage):
            return await reply

    if is_async(completion):
        called = cast("Callable[[str], Awaitable[str]]", completion)

        @wraps(completion, updated=())
        async def complete_async(prompt: str) -> str:
            return await awaited(called(prompt))

        return complete_async

    @wraps(completion, updated=())
    def complete(prompt: str) -> str | Awaitable[str]:
        with Counted(usage) as call:
            reply = completion(prompt)
            if not isawaitable(reply):
                return reply
            call.is_counted = True  # that is, it will be, once it is awaited
            return awaited(reply)

    return complete


def asking(completion: Completion) -> Callable[[str], Awaitable[str]]:
    """`completion`, to be awaited whatever it is; a missing reply becomes "".

    A synchronous one runs in a daemon thread, which is abandoned on cancellation.

    Raises:
        TypeError: If it cannot be called with one prompt.
        ContractError: By what is returned, if a reply is neither text nor None.
    """
    check_callable("completion", completion, ("prompt",))
    on_the_loop = is_async(completion)

    async def ask(prompt: str) -> str:
        reply = completion(prompt) if on_the_loop else await in_thread(completion, prompt)
        return _text(await reply if isawaitable(reply) else reply)

    return ask


def _text(reply: object) -> str:
    if isinstance(reply, str):
        return reply
    if reply is None:
        return ""
    raise ContractError(
        f"a completion must return text; this one returned {type(reply).__name__}; return the "
        "message's text instead of the object around it"
    )
