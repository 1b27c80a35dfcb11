"""The one door to the network of data: downloads with retries, from the cache where it has them."""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from random import Random
from ssl import SSLContext
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast
from urllib.parse import urlsplit

from agentdescent.data.cache import (
    DIRECTORY_VARIABLE,
    OFFLINE_VARIABLE,
    Download,
    cache_directory,
    is_offline,
    load,
    store,
)
from agentdescent.errors import FetchError
from agentdescent.retry import Backoff, retry_after_s, retrying
from agentdescent.threads import in_thread

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

DOWNLOADING = Backoff(attempts=5, first_wait_s=0.5)
"""Five attempts; where no server asks for more, seven and a half seconds of waiting at most."""

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Where the bearer token of the hub is looked for, in this order."""

ACCESS = (
    "set HF_TOKEN to a token of an account that has access; for a gated data set, accept its terms "
    "on its page first"
)

_PASSING = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
}
_DENIED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_EXCERPT = 200


@dataclass(frozen=True, slots=True)
class Wanted(Generic[T]):
    """Something to download.

    Attributes:
        name: What it is, for messages.
        url: Where it is.
        parse: Makes a value of it; raises FetchError for what the server cannot have meant.
        path: Its cache entry; None for none.
        query: Added to the URL.
        token: Sent along, to that host alone; never shown.
        denied: What to do about a refusal to hand it out, for messages.
    """

    name: str
    url: str
    parse: Callable[[Download], T]
    path: Path | None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = field(default=None, repr=False)
    denied: str = ""


class Web:
    """Downloads over one client, which is opened by the first and closed at the end of the block.

    Args:
        timeout: Seconds without a byte from the server, or until it accepts a connection.
        backoff: How often a failure that may pass is tried again.
    """

    def __init__(self, timeout: float, backoff: Backoff) -> None:
        self._timeout, self._backoff = timeout, backoff
        self._rng = Random()  # noqa: S311 - jitter is no secret
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def obtain(
        self, wanted: Wanted[T], is_current: Callable[[T], bool] = lambda _: True
    ) -> T:
        """The value of `wanted`, from the cache if a whole and current entry is there.

        What is downloaded is cached; where that is impossible, a RuntimeWarning says so.

        Raises:
            FetchError: If it cannot be had; `attempts_made` is how often that was tried.
        """
        kept = None if wanted.path is None else await in_thread(_read, wanted, wanted.path)
        if kept is not None and is_current(kept):
            return kept
        if is_offline():
            raise _off_limits(wanted)
        download, value = await self._get(wanted)
        if wanted.path is not None:
            await _keep(wanted.path, download)
        return value

    async def _get(self, wanted: Wanted[T]) -> tuple[Download, T]:
        made = 0

        async def attempt() -> tuple[Download, T]:
            nonlocal made
            made += 1
            download = await self._request(wanted)
            return download, wanted.parse(download)

        try:
            return await retrying(attempt, self._rng, self._backoff)
        except FetchError as error:
            reason = _without(wanted.token, str(error))
            host = urlsplit(wanted.url).hostname
            final = FetchError(f"{wanted.name}: {reason} (from {host}, attempts: {made})")
            final.attempts_made, final.retry_after_s = made, error.retry_after_s
        raise final

    async def _request(self, wanted: Wanted[T]) -> Download:
        import httpx  # noqa: PLC0415 - loaded by the first download

        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=_certificates(), timeout=self._timeout, follow_redirects=True
            )
        headers = {"Authorization": f"Bearer {wanted.token}"} if wanted.token else {}
        try:
            answer = await self._client.get(
                wanted.url, params=wanted.query or None, headers=headers
            )
        except httpx.TimeoutException:
            raise FetchError(f"no answer for {self._timeout:g} s (timeout=)") from None
        except httpx.HTTPError as error:
            raise FetchError(f"{type(error).__name__}: {error}") from None
        if not answer.is_success:
            raise _refusal(answer, wanted)
        return Download(answer.content, answer.headers.get("X-Revision"))


def checked_url(url: str) -> str:
    """`url`.

    Raises:
        ValueError: If it is none of http or https.
    """
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
        is_whole = parts.scheme in {"http", "https"} and has_host and url.isprintable()
    except ValueError:
        is_whole = False
    if not is_whole:
        start = url.partition("?")[0].rpartition("@")[2]
        raise ValueError(f"a URL begins with https:// or http:// and a host; got {start!r:.80}")
    return url


def shown_url(url: str) -> str:
    """`url` without what may be secret: user name, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}{'?...' if parts.query else ''}"


def hub_token(variables: Iterable[str] = TOKEN_VARIABLES) -> str | None:
    """The first token that one of the environment `variables` holds.

    Raises:
        ValueError: If it cannot be one; the message names the variable alone.
    """
    for variable in variables:
        token = os.environ.get(variable, "").strip()
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise ValueError(f"{variable} holds no token: there are blanks or odd letters in it")
        if token:
            return token
    return None


@cache
def _certificates() -> SSLContext:
    """What hosts are trusted by; it takes longer to read than many a file."""
    import httpx  # noqa: PLC0415 - loaded by the first download

    return httpx.create_ssl_context()


def _read(wanted: Wanted[T], path: Path) -> T | None:
    download = load(path)
    try:
        return None if download is None else wanted.parse(download)
    except FetchError:
        return None


async def _keep(path: Path, download: Download) -> None:
    try:
        await in_thread(store, path, download)
    except OSError as error:
        warnings.warn(
            f"{path} could not be cached ({error.strerror}), so it will be downloaded again; set "
            f"{DIRECTORY_VARIABLE} to a directory that can be written",
            RuntimeWarning,
            stacklevel=2,
        )


def _off_limits(wanted: Wanted[T]) -> FetchError:
    if wanted.path is None:
        advice = "cache=False leaves nothing else to read it from"
    else:
        advice = (
            f"there is no whole and current entry {wanted.path}; make the same call once with "
            f"network access and {DIRECTORY_VARIABLE}={cache_directory()}, or copy that file from "
            "a cache that has it"
        )
    error = FetchError(f"{wanted.name}: {OFFLINE_VARIABLE} forbids to download it, and {advice}")
    error.attempts_made = 0
    return error


def _refusal(answer: "httpx.Response", wanted: Wanted[T]) -> FetchError:
    status = answer.status_code
    reason = f"HTTP {status} {answer.reason_phrase}".rstrip()
    message = _message(_without(wanted.token, answer.text))
    wait = retry_after_s(answer.headers.get("Retry-After", ""))
    asked = "" if wait is None else f"the server asks to wait {wait:g} s"
    advice = wanted.denied if status in _DENIED else ""
    error = FetchError("; ".join(part for part in (reason, message, asked, advice) if part))
    error.retry_after_s = wait
    if status not in _PASSING and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        error.attempts_made = 1
    return error


def _message(body: str) -> str:
    """What an error's body says, for people."""
    try:
        said = cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return _excerpt(body)
    if isinstance(said, dict):
        said = cast("dict[str, object]", said).get("error", body)
    return _excerpt(str(said))


def _excerpt(body: str) -> str:
    if body.lstrip()[:1] == "<":
        return "an HTML page"
    line = " ".join(body.split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]} ..."


def _without(secret: str | None, text: str) -> str:
    return text.replace(secret, "***") if secret else text
