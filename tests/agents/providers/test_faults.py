"""Everything a real endpoint does to its clients, and what the completions make of it."""

import logging
import traceback
import warnings
from dataclasses import dataclass

import httpx
import pytest

from agentdescent.errors import (
    BadRequest,
    CutReply,
    EmptyReply,
    NotJson,
    Overloaded,
    ProviderAuthError,
    ProviderError,
    ProviderTimeout,
    ProviderUnreachable,
    RateLimited,
    Redirected,
    ServerError,
    UnknownModel,
    WrongShape,
)
from agentdescent.retry import is_worth_another_try
from support.apis import (
    FLAVOURS,
    KEY,
    cuts,
    drips,
    free_port,
    hangs,
    hangs_up,
    in_an_hour,
    mumbles,
    refuses,
    resets,
    says,
    serving,
    streams,
)

flavours = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)


@dataclass
class Fault:
    act: object  # what the server does, given the flavour
    error: type
    attempts: int
    says: str
    options: dict | None = None


def with_status(status, error, attempts, text, **extra):
    return Fault(lambda _: refuses(status, **extra), error, attempts, text)


FAULTS = {
    "401": with_status(401, ProviderAuthError, 1, "status 401: no, not even for"),
    "403": with_status(403, ProviderAuthError, 1, "API_KEY or api_key="),
    "unknown model": with_status(404, UnknownModel, 1, "check model="),
    "400": with_status(400, BadRequest, 1, "status 400"),
    "422": with_status(422, BadRequest, 1, "go into the body as they are"),
    "408": with_status(408, ProviderTimeout, 3, "status 408"),
    "409": with_status(409, ServerError, 3, "status 409"),
    "425": with_status(425, ServerError, 3, "status 425"),
    "500": with_status(500, ServerError, 3, "raise retries= (now 3)"),
    "502": with_status(502, ServerError, 3, "status 502"),
    "429 for too many seconds": with_status(
        429, RateLimited, 1, "asks to wait 3600 s", extra=["retry-after: 3600"]
    ),
    "429 until too late a date": with_status(
        429, RateLimited, 1, "asks to wait 3600 s", extra=in_an_hour()
    ),
    "429 for an empty account": with_status(
        429, RateLimited, 1, "look at the account", type="insufficient_quota"
    ),
    "503 for too long": with_status(
        503, Overloaded, 1, "asks to wait 900 s", extra=["retry-after: 900"]
    ),
    "529 for too long": with_status(
        529, Overloaded, 1, "asks to wait 900 s", extra=["retry-after: 900"]
    ),
    "reset": Fault(lambda _: resets(), ProviderUnreachable, 3, "broke"),
    "empty reply": Fault(lambda _: hangs_up(), ProviderUnreachable, 3, "no HTTP reply"),
    "short body": Fault(
        lambda api: cuts(api.reply(), claims_all=True), CutReply, 3, "ends too early"
    ),
    "cut JSON": Fault(
        lambda api: cuts(api.reply(), claims_all=False), CutReply, 3, "broken JSON that ends in"
    ),
    "no body": Fault(lambda _: says(b""), CutReply, 3, "a reply without a body"),
    "HTML": Fault(
        lambda _: says(b"<html>gateway</html>", kind="text/html"), NotJson, 1, "a web page"
    ),
    "wrong content type": Fault(
        lambda _: says(b"upstream says hello", kind="text/plain; charset=x"),
        NotJson,
        1,
        "text/plain in place of JSON: upstream says hello",
    ),
    "drip": Fault(
        lambda api: drips(api.reply()),
        ProviderTimeout,
        2,
        "no whole reply within 0.1 s",
        {"timeout": 0.1, "retries": 2},
    ),
    "hang": Fault(
        lambda _: hangs(), ProviderTimeout, 2, "raise timeout= (now 0.1 s)",
        {"timeout": 0.1, "retries": 2},
    ),
    "nothing said": Fault(lambda api: says(api.reply("")), EmptyReply, 3, "an empty reply"),
    "no message": Fault(lambda api: says(api.nothing), WrongShape, 1, "a reply without c"),
    "no HTTP": Fault(lambda _: mumbles(), ProviderUnreachable, 3, "no HTTP reply"),
    "a choice without a message": Fault(
        lambda _: says({"choices": [{}], "content": None}), WrongShape, 1, "a reply without"
    ),
    "a number for a message": Fault(
        lambda _: says({"choices": [{"message": {"content": 7}}], "content": 7}),
        WrongShape,
        1,
        "a reply without",
    ),
    "prose without an end": Fault(
        lambda _: says(b"No! " * 999, status=500), ServerError, 3, "... (3 attempts)"
    ),
    "silence": Fault(lambda _: says(b"", status=500), ServerError, 3, "(no text)"),
    "an odd error": Fault(lambda _: says([1], status=400), BadRequest, 1, "status 400: [1]"),
    "a list": Fault(lambda _: says([1]), WrongShape, 1, "a reply without fields"),
    "error with 200": Fault(
        lambda _: says({"error": {"message": "no upstream"}}), WrongShape, 1, "no upstream"
    ),
    "error text with 200": Fault(
        lambda _: says({"error": "no upstream"}), WrongShape, 1, "no upstream"
    ),
    "code in words with 200": Fault(
        lambda _: says({"error": {"message": "deep down", "code": "502"}}), ServerError, 3, "deep d"
    ),
    "odd code with 200": Fault(
        lambda _: says({"error": {"message": "deep down", "code": 7}}), WrongShape, 1, "deep d"
    ),
    "words that steer": Fault(
        lambda _: says({"error": {"message": "\x1b[2J\ud800"}}, status=400),
        BadRequest,
        1,
        "status 400: \ufffd[2J\ufffd (1",
    ),
    "coded error with 200": Fault(
        lambda _: says({"error": {"message": "deep down", "code": 502}}), ServerError, 3, "deep d"
    ),
    "redirect": Fault(
        lambda _: says(b"", status=308, extra=["location: https://else.where/v1?a=b"]),
        Redirected,
        1,
        "points to https://else.where/v1 (1 attempt); set",
    ),
    "cut stream": Fault(
        lambda api: streams(*opening(api), cut=True), CutReply, 3, "ends too early",
        {"stream": True},
    ),
    "stream without an end": Fault(
        lambda api: streams(*opening(api)), CutReply, 3, "the stream ended before the reply did",
        {"stream": True},
    ),
    "broken stream": Fault(
        lambda api: streams(*opening(api), "data: {oh"), CutReply, 3, "broken JSON in the stream",
        {"stream": True},
    ),
    "error in the stream": Fault(
        lambda api: streams(
            *opening(api), {"type": "error", "error": {"type": "api_error", "message": "oh no"}}
        ),
        ServerError,
        3,
        "oh no",
        {"stream": True},
    ),
    "stream of a web page": Fault(
        lambda _: says(b"<html>", kind="text/html"), NotJson, 1, "a web page", {"stream": True}
    ),
    "refused stream": Fault(
        lambda _: refuses(401), ProviderAuthError, 1, "status 401", {"stream": True}
    ),
}  # fmt: skip


def opening(flavour):
    if flavour.name == "claude":
        delta = {"type": "text_delta", "text": "fi"}
        return [{"type": "content_block_delta", "index": 0, "delta": delta}]
    return [{"choices": [{"delta": {"content": "fi"}, "finish_reason": None}]}]


def everything_told(error):
    """What anybody could print of an error: chains, and the variables of every frame, included."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    told = [str(error), repr(error), *whole.format(chain=True)]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            told += everything_told(other)
    return "\n".join(map(str, [*told, vars(error)]))


@flavours
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.asyncio
async def test_fault_is_told_apart_and_tells_no_secret(flavour, name, caplog):
    fault = FAULTS[name]
    caplog.set_level(logging.DEBUG)
    async with serving(fault.act(flavour)) as server:
        complete = flavour.complete(server, **fault.options or {})

        with (
            warnings.catch_warnings(record=True) as warned,
            pytest.raises(ProviderError) as raised,
        ):
            await complete("the prompt")

        error = raised.value
        assert type(error) is fault.error
        assert fault.says in str(error)
        assert error.attempts == error.attempts_made == fault.attempts == len(server.requests)
        assert (error.endpoint, error.model) == (server.url, "m-1")
        assert f"m-1 at {server.url}: " in str(error)
        assert error.hint
        assert error.hint in str(error)
        assert not is_worth_another_try(error)
        told = [everything_told(error), caplog.text, repr(complete), complete.identity]
        assert KEY not in "\n".join([*told, *map(str, warned)])
        await complete.aclose()


def echoes(form, *, room, kind="application/json"):
    """The credentials in `form`, the last `room` characters of a page that is no JSON."""

    async def act(writer, request):
        sent = request.headers.get("x-api-key") or request.headers["authorization"]
        page = form.format(sent).rjust(room, "<")
        return await says(page.encode(), kind=kind)(writer, request)

    return act


LONG_KEY = f"sk-{'0123456789' * 12}"


@flavours
@pytest.mark.parametrize(
    "act",
    [echoes("{}", room=900), echoes("{}", room=460, kind="text/html")],
    ids=["the end", "the beginning"],
)
@pytest.mark.asyncio
async def test_half_a_key_is_not_quoted_either(flavour, act):
    async with (
        serving(act) as server,
        flavour.complete(server, api_key=LONG_KEY, retries=1) as complete,
    ):
        with pytest.raises((NotJson, CutReply)) as error:
            await complete("x")

        assert "0123" not in str(error.value)


@flavours
@pytest.mark.asyncio
async def test_a_key_with_quotes_is_found_where_it_is_quoted(flavour):
    key = 'it\'s \\ a "key"'
    reply = says({"sent": key})
    async with serving(reply) as server, flavour.complete(server, api_key=key) as complete:
        with pytest.raises(WrongShape, match=r"{'sent': ['\"]\*\*\*['\"]}"):
            await complete("x")


@flavours
@pytest.mark.parametrize(
    "url",
    [
        "http://me:pass?word@host",
        "http://me:pass#word@host",
        "http://me:pa\nss@host:0",
        "me:pass@host",
    ],
)
@pytest.mark.asyncio
async def test_of_a_base_url_that_is_none_no_password_is_shown(flavour, url):
    complete = flavour.make(model="m-1", base_url=url, api_key=KEY)

    with pytest.raises(BadRequest, match="no http or https URL") as error:
        await complete("x")

    shown = str(error.value) + repr(complete) + complete.identity
    assert "host" in shown
    assert not [word for word in ("pa", "ss", "me:") if word in error.value.endpoint]


@flavours
@pytest.mark.parametrize("proxy", ["socks5://me:s3cr3t@{}", "odd://me:s3cr3t@{}", "http://{}x"])
@pytest.mark.asyncio
async def test_a_proxy_that_cannot_be_used_is_told_like_other_faults(flavour, proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy.format("127.0.0.1:9"))

    with pytest.raises(ProviderUnreachable, match=r"0 attempts.*; check HTTP_PROXY") as error:
        await flavour.make(model="m-1", base_url="http://a.test", api_key=KEY)("x")

    assert error.value.attempts_made == 0
    assert "s3cr3t" not in str(error.value)


@flavours
@pytest.mark.asyncio
async def test_zero_seconds_to_wait_are_no_invitation_to_hurry(flavour):
    async with (
        serving(refuses(429, extra=["retry-after: 0"])) as server,
        flavour.complete(server, deadline=0.5, backoff=0.1) as complete,
    ):
        with pytest.raises(RateLimited):
            await complete("x")

        assert len(server.requests) <= 3  # at 0, 0.1 and 0.3 s


@flavours
@pytest.mark.asyncio
async def test_refused_connection_is_tried_again(flavour):
    port = free_port()
    complete = flavour.make(
        model="m-1", api_key=KEY, base_url=f"http://127.0.0.1:{port}", backoff=0.001
    )

    with pytest.raises(ProviderUnreachable, match=r"no connection.*\(3 attempts\); check") as error:
        await complete("x")

    assert error.value.status is None
    assert KEY not in everything_told(error.value)


@flavours
@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.asyncio
async def test_throttling_is_borne_until_the_deadline_whatever_retries_says(flavour, status):
    async with (
        serving(refuses(status)) as server,
        flavour.complete(server, retries=2, deadline=0.5, backoff=0.01) as complete,
    ):
        with pytest.raises(RateLimited if status == 429 else Overloaded, match="deadline") as error:
            await complete("x")

        assert error.value.attempts == len(server.requests) > 3
        assert error.value.status == status


RECOVERIES = {
    "408": refuses(408),
    "429 in seconds": refuses(429, extra=["retry-after: 0"]),
    "429 in a fraction": refuses(429, extra=["retry-after: 0.02"]),
    "503": refuses(503),
    "529": refuses(529),
    "500": refuses(500, extra=["retry-after: 0"]),
    "reset": resets(),
    "empty reply": hangs_up(),
    "short body": cuts({"x": "y" * 100}, claims_all=True),
    "cut JSON": cuts({"x": "y" * 100}, claims_all=False),
}


@flavours
@pytest.mark.parametrize("name", RECOVERIES)
@pytest.mark.asyncio
async def test_bad_luck_is_overcome(flavour, name):
    async with (
        serving(RECOVERIES[name], RECOVERIES[name], says(flavour.reply("here"))) as server,
        flavour.complete(server) as complete,
    ):
        assert await complete("x") == "here"
        assert len(server.requests) == 3


@flavours
@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.asyncio
async def test_one_attempt_is_one_attempt_whatever_happens(flavour, status):
    async with serving(refuses(status)) as server, flavour.complete(server, retries=1) as complete:
        with pytest.raises(ProviderError) as error:
            await complete("x")

        assert error.value.attempts == len(server.requests) == 1


@flavours
@pytest.mark.parametrize(
    "base", ["http://agent:pass-4711@{host}", "http://agent:p%40ss-4711@{host}/"]
)
@pytest.mark.asyncio
async def test_credentials_in_the_base_url_are_sent_and_not_shown(flavour, base, caplog):
    caplog.set_level(logging.DEBUG)
    async with serving(refuses(401)) as server:
        url = base.format(host=server.url.removeprefix("http://"))
        async with flavour.complete(server, base_url=url) as complete:
            with pytest.raises(ProviderAuthError) as error:
                await complete("x")

        told = everything_told(error.value) + caplog.text + repr(complete) + complete.identity
        # the test's own variables hold the URL
        told = told.replace(repr(url), "").replace(repr(base), "")
        sent = server.requests[0].headers["authorization"]
        assert sent.startswith("Basic ")
        assert not [secret for secret in ("ss-4711", sent.split()[1], KEY) if secret in told]
        assert error.value.endpoint == server.url


@pytest.mark.asyncio
async def test_other_errors_of_a_given_client_are_no_matter_of_luck():
    def fail(request):
        raise ValueError(f"cannot send {request.headers}")

    async with httpx.AsyncClient(transport=httpx.MockTransport(fail)) as client:
        complete = FLAVOURS[0].make(model="m-1", api_key=KEY, client=client)
        with pytest.raises(ProviderUnreachable, match="could not be made: ValueError") as error:
            await complete("x")

    assert error.value.attempts == 1
    assert KEY not in everything_told(error.value)


@pytest.mark.asyncio
async def test_a_body_that_cannot_be_unpacked_is_asked_for_again():
    def fail(request):
        raise httpx.DecodingError("incorrect header check")

    async with httpx.AsyncClient(transport=httpx.MockTransport(fail)) as client:
        with pytest.raises(CutReply, match=r"body is damaged: incorrect.*\(3 attempts\)"):
            await FLAVOURS[0].make(model="m-1", client=client, backoff=0)("x")
