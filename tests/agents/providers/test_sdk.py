"""Clients that are given: objects with ``messages.create``."""

from types import SimpleNamespace

import pytest

from agentdescent.agents.providers import claude
from agentdescent.core.reply import Tokens
from agentdescent.errors import (
    Overloaded,
    ProviderTimeout,
    ProviderUnreachable,
    RateLimited,
    WrongShape,
)


def message(*texts, reason="end_turn", usage=None):
    blocks = [SimpleNamespace(type="text", text=text) for text in texts]
    thought = SimpleNamespace(type="thinking", thinking="hm")
    return SimpleNamespace(content=[thought, *blocks], stop_reason=reason, usage=usage)


class Client:
    """Plays a script; an exception in it is raised."""

    def __init__(self, *script, is_async=False):
        self.asked = []
        self._script = list(script)
        self.messages = SimpleNamespace(create=self._later if is_async else self._now)

    def _now(self, **options):
        self.asked.append(options)
        act = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(act, Exception):
            raise act
        return act

    async def _later(self, **options):
        return self._now(**options)


class APIStatusError(Exception):
    def __init__(self, status, headers=None):
        super().__init__(f"the status is {status}")
        self.status_code = status
        self.response = SimpleNamespace(headers=headers or {})


class APITimeoutError(Exception):
    pass


class APIConnectionError(Exception):
    pass


def asking(client, **options):
    return claude("m", client=client, backoff=0, **options)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.asyncio
async def test_text_blocks_are_joined_and_options_passed_on(is_async):
    counts = SimpleNamespace(input_tokens=3, output_tokens=2)
    client = Client(message("a", "b", usage=counts), is_async=is_async)

    reply = await asking(client, timeout=7, temperature=0)("hi")

    assert (reply, reply.tokens) == ("ab", Tokens(3, 2))
    assert client.asked == [
        {
            "model": "m",
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": "hi"}],
            "temperature": 0,
            "timeout": 7,
        }
    ]


@pytest.mark.asyncio
async def test_a_plain_function_may_return_an_awaitable():
    client = Client(message("a"))
    answer = client.messages.create

    async def later(options):
        return answer(**options)

    client.messages.create = lambda **options: later(options)

    assert await asking(client)("hi") == "a"


@pytest.mark.parametrize(
    ("error", "kind", "attempts"),
    [
        (APIStatusError(529, {"retry-after": "900"}), Overloaded, 1),
        (APIStatusError(429, {"retry-after": "4000"}), RateLimited, 1),
        (APITimeoutError("slow"), ProviderTimeout, 3),
        (APIConnectionError("gone"), ProviderUnreachable, 3),
        (ConnectionResetError("gone"), ProviderUnreachable, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
@pytest.mark.asyncio
async def test_what_the_client_raises_is_told_apart(error, kind, attempts):
    client = Client(error)

    with pytest.raises(kind) as raised:
        await asking(client)("hi")

    assert raised.value.attempts_made == attempts == len(client.asked)


@pytest.mark.asyncio
async def test_bad_luck_is_overcome():
    client = Client(APIStatusError(500), APITimeoutError(), message("here"))

    assert await asking(client)("hi") == "here"


@pytest.mark.asyncio
async def test_other_errors_of_the_client_are_raised_as_they_are(account):
    with pytest.raises(ZeroDivisionError):
        await asking(Client(ZeroDivisionError()), usage=account)("hi")

    assert (account.provider_calls, account.failures) == (1, 1)


@pytest.mark.asyncio
async def test_a_reply_without_content_has_the_wrong_shape():
    with pytest.raises(WrongShape, match="without content"):
        await asking(Client(SimpleNamespace()))("hi")


def test_it_cannot_stream():
    with pytest.raises(ValueError, match=r"stream=True cannot be honoured.*messages\.create"):
        asking(Client(message("a")), stream=True)
