"""Files from the web, each downloaded once."""

from urllib.parse import urlsplit

from agentdescent.data.cache import Download, cache_directory, unique_name
from agentdescent.data.web import (
    ACCESS,
    DOWNLOADING,
    Wanted,
    Web,
    checked_url,
    hub_token,
    shown_url,
)
from agentdescent.retry import Backoff

_HUB = ("huggingface.co", "hf.co")


async def afetch_bytes(
    url: str,
    *,
    cache: bool = True,
    timeout: float = 60.0,  # noqa: ASYNC109 - for a byte, not for the whole
    backoff: Backoff = DOWNLOADING,
) -> bytes:
    """The file at `url`; it is downloaded once, and read from the cache afterwards.

    Timeouts, broken connections, cut bodies, 408, 409, 425, 429 and 5xx are tried again; a
    `Retry-After` is honoured. Cancelled, it leaves no partial entry.

    Args:
        url: Of a file, by https or http; two URLs never share a cache entry.
        cache: False neither reads nor writes the cache.
        timeout: Seconds without a byte from the server.
        backoff: How often a failure that may pass is tried again.

    Raises:
        ValueError: If `url` is none.
        FetchError: If the file cannot be had, or is not cached while `AGENTDESCENT_OFFLINE` is set.
    """
    parts = urlsplit(checked_url(url))
    is_hub = _is_hub(parts.scheme, parts.hostname or "")
    name = unique_name(f"{parts.hostname}_{parts.path.rpartition('/')[2]}", url)
    wanted = Wanted(
        name=shown_url(url),
        url=url,
        parse=_body,
        path=cache_directory() / "raw" / name if cache else None,
        token=hub_token() if is_hub else None,
        denied=ACCESS if is_hub else "",
    )
    async with Web(timeout, backoff) as web:
        return await web.obtain(wanted)


async def afetch_text(
    url: str,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    cache: bool = True,
    timeout: float = 60.0,  # noqa: ASYNC109 - for a byte, not for the whole
    backoff: Backoff = DOWNLOADING,
) -> str:
    """The text at `url`, as `afetch_bytes`; a byte order mark at its start is dropped.

    Args:
        url: Of a file, by https or http.
        encoding: Of the text.
        errors: What to do about bytes that are no such text, as for `bytes.decode`.
        cache: False neither reads nor writes the cache.
        timeout: Seconds without a byte from the server.
        backoff: How often a failure that may pass is tried again.

    Raises:
        ValueError: If `url` is none, or the text is not in `encoding`.
        FetchError: As `afetch_bytes`.
    """
    content = await afetch_bytes(url, cache=cache, timeout=timeout, backoff=backoff)
    try:
        return content.decode(encoding, errors).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{shown_url(url)} is not {encoding}: byte 0x{content[error.start]:02x} at position "
            f"{error.start} ({error.reason}); give its encoding=, or errors='replace'"
        ) from None


def _body(download: Download) -> bytes:
    return download.body


def _is_hub(scheme: str, host: str) -> bool:
    """True where the hub's token may be sent."""
    return scheme == "https" and any(host == hub or host.endswith(f".{hub}") for hub in _HUB)
