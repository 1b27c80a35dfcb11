"""One request over HTTP: the door to the network."""

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import httpx

from agentdescent.agents.providers.dialects import Dialect, Draft, Pieces, mapping, misshapen
from agentdescent.agents.providers.failures import Failure, not_json, of_status
from agentdescent.errors import CutReply, ProviderError, ProviderTimeout, ProviderUnreachable

CONNECT_S = 15.0
"""Seconds within which a connection must be made."""

LINGER_S = 0.5
"""Seconds in which a stream may end after its last event; then the connection is shut."""

_IS_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, ready to be sent.

    Attributes:
        url: Where to.
        headers: Credentials included.
        body: JSON.
        heard: Called at the first piece of text of a stream.
        redact: Blots out secrets.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    heard: Callable[[], None]
    redact: Callable[[str], str] = field(repr=False)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once, because that takes much longer than to fail."""
    return httpx.create_ssl_context()


def new_client() -> httpx.AsyncClient:
    """A pooled client; how much it does at once is decided elsewhere.

    Raises:
        ValueError: If what the environment says of proxies or certificates cannot be used.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    try:
        return httpx.AsyncClient(verify=_certificates(), limits=limits)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        problem = f"{type(error).__name__}: {error}"
    raise ValueError(problem)  # out here, for the frames of that error know the proxy's password


async def post(client: httpx.AsyncClient, dialect: Dialect, request: Request) -> Draft | Failure:
    """Send `request`; a failure of any kind is returned, so that no traceback shows the key.

    Cancelled, it drops the connection.
    """
    sent: dict[str, Any] = {
        "content": json.dumps(request.body),
        "headers": {"content-type": "application/json", **request.headers},
        "timeout": httpx.Timeout(None, connect=CONNECT_S),
    }
    try:
        if request.body.get("stream"):
            async with client.stream("POST", request.url, **sent) as response:
                return await _streamed(response, dialect, request)
        response = await client.post(request.url, **sent)
        return _read(response, dialect, request)
    except Exception as error:  # noqa: BLE001 - the caller raises, where nothing is secret
        return _of_transport(error)
    except BaseException as error:  # noqa: BLE001 - goes on, without the frames that know the key
        raise error.with_traceback(None) from None


def _read(response: httpx.Response, dialect: Dialect, request: Request) -> Draft | Failure:
    if not 200 <= response.status_code < 300:
        return of_status(response.status_code, response.headers, response.text)
    try:
        data: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        body = request.redact(response.content.decode("utf-8", "replace"))
        return not_json(response.headers.get("content-type", ""), body)
    return dialect.read(mapping(data)) if mapping(data) else misshapen(data, "fields")


async def _streamed(
    response: httpx.Response, dialect: Dialect, request: Request
) -> Draft | Failure:
    is_stream = _IS_STREAM in response.headers.get("content-type", "")
    if response.status_code != 200 or not is_stream:
        await response.aread()
        return _read(response, dialect, request)
    events = _Events(dialect.pieces(), request.heard)
    with anyio.CancelScope() as rest:
        try:
            async for line in response.aiter_lines():  # to its end, to use the connection again
                if events.take(line):
                    rest.deadline = anyio.current_time() + LINGER_S
        except httpx.HTTPError:
            if not events.are_over:
                raise
    return events.result(dialect)


class _Events:
    """The events of a stream, up to the one that ends it, well or badly."""

    def __init__(self, pieces: Pieces, heard: Callable[[], None]) -> None:
        self.are_over: bool = False
        self._pieces = pieces
        self._heard = heard
        self._failure: Failure | None = None

    def take(self, line: str) -> bool:
        """Add a line; True if that was the end."""
        name, _, value = line.partition(":")
        text = value.strip()
        if self.are_over or name != "data" or not text:
            return False
        self.are_over = text == "[DONE]" or self._ends_with(text)
        return self.are_over

    def _ends_with(self, text: str) -> bool:
        try:
            event = mapping(json.loads(text))
        except (ValueError, RecursionError):
            self._failure = _cut_short(f"broken JSON in the stream: {text}")
        else:
            self._failure = self._pieces.take(event)
            if self._pieces.has_text:
                self._heard()
        return self._failure is not None or self._pieces.is_closed

    def result(self, dialect: Dialect) -> Draft | Failure:
        """What the stream came to."""
        if self._failure is not None:
            return self._failure
        if not self._pieces.is_whole:
            return _cut_short("the stream ended before the reply did")
        return dialect.read(self._pieces.whole())


def _cut_short(problem: str) -> Failure:
    return Failure(CutReply, problem, is_luck=True, status=200)


_KINDS: tuple[tuple[type[Exception], type[ProviderError], str], ...] = (
    (httpx.ConnectError, ProviderUnreachable, "no connection"),
    (httpx.ConnectTimeout, ProviderUnreachable, f"no connection within {CONNECT_S:g} s"),
    (httpx.TimeoutException, ProviderTimeout, "no reply in time"),
    (httpx.RemoteProtocolError, ProviderUnreachable, "no HTTP reply"),
    (httpx.DecodingError, CutReply, "the reply's body is damaged"),
    (httpx.NetworkError, ProviderUnreachable, "the connection broke"),
    (OSError, ProviderUnreachable, "the connection broke"),
)
"""What the errors of the transport mean; the first that fits."""


def _of_transport(error: Exception) -> Failure:
    said = str(error)
    if isinstance(error, httpx.RemoteProtocolError) and ("body" in said or "chunked" in said):
        return Failure(CutReply, f"the reply's body ends too early: {said}", is_luck=True)
    for kind, becomes, problem in _KINDS:
        if isinstance(error, kind):
            return Failure(becomes, f"{problem}: {said}" if said else problem, is_luck=True)
    name = type(error).__name__
    return Failure(ProviderUnreachable, f"the request could not be made: {name}: {said}")
