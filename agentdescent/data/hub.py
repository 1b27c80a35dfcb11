"""Data sets of a hub, by its rows API."""

import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

import anyio

from agentdescent.data.pages import PAGE, Page, Split
from agentdescent.data.readers import Row
from agentdescent.data.web import (
    DOWNLOADING,
    TOKEN_VARIABLES,
    Web,
    checked_url,
    hub_token,
)
from agentdescent.errors import FetchError, ungrouped
from agentdescent.retry import Backoff

ROWS_URL = "https://datasets-server.huggingface.co"
"""The server that is asked unless another is named."""

CONCURRENT_PAGES = 4


async def ahf_rows(
    dataset: str,
    split: str,
    *,
    config: str = "default",
    limit: int | None = 100,
    cache: bool = True,
    timeout: float = 60.0,  # noqa: ASYNC109 - for a byte, not for the whole
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[Row]:
    """The first rows of a split, in order.

    They come in pages of a hundred, a few at a time. Pages are cached, so that a larger `limit`
    fetches only what is missing. When a page is newer than those in the cache because the data
    set has a new revision, the old ones are fetched again. A token in `HF_TOKEN` or
    `HUGGING_FACE_HUB_TOKEN` is sent along. What is tried again is as for `afetch_bytes`, and also
    an answer that is no page of rows. Cancelled, it keeps the pages that are complete.

    Warns (RuntimeWarning) of cells of which the server sent only the beginning, and when it has
    only the beginning of the split.

    Args:
        dataset: Such as "owner/name".
        split: Such as "train".
        config: The data set's configuration.
        limit: The most rows; None for all.
        cache: False neither reads nor writes the cache.
        timeout: Seconds without a byte from the server.
        base_url: Of another server with the same API, to which the token is sent as well.
        backoff: How often a failure that may pass is tried again.

    Raises:
        ValueError: If `limit` is negative or `base_url` is none.
        FetchError: If a page cannot be had, or is not cached while `AGENTDESCENT_OFFLINE` is set;
            the message names the rows.
    """
    source = Split(dataset, config, split, checked_url(base_url), hub_token())
    return await _rows(source, Web(timeout, backoff), limit, cache=cache)


async def ahf_feature_names(
    dataset: str,
    split: str,
    feature: str,
    *,
    config: str = "default",
    cache: bool = True,
    timeout: float = 60.0,  # noqa: ASYNC109 - for a byte, not for the whole
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[str]:
    """The names of the classes in a column whose cells, or their elements, are class numbers.

    They come with the first page of rows, which is fetched and cached as by `ahf_rows`.

    Raises:
        KeyError: If there is no such column; the message names those there are.
        ValueError: If `base_url` is none.
        FetchError: As `ahf_rows`.
    """
    source = Split(dataset, config, split, checked_url(base_url), hub_token())
    async with Web(timeout, backoff) as web:
        page = await web.obtain(source.page(0, cache=cache))
    found = dict(_class_names(page.features))
    if feature not in found:
        raise KeyError(f"{source} has no column {feature!r} of classes; it has {sorted(found)}")
    return found[feature]


async def aload_gated_hf(
    dataset: str,
    split: str,
    *,
    config: str = "default",
    limit: int | None = None,
    token_envs: Sequence[str] = TOKEN_VARIABLES,
    timeout: float = 60.0,  # noqa: ASYNC109 - for a byte, not for the whole
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[Row] | None:
    """The rows of a data set that is handed out to those alone who have accepted its terms.

    Without a token there is nothing to ask with: it warns (RuntimeWarning) and returns None, so
    that a caller can fall back to other data. With one it is as `ahf_rows`, also in what it caches.

    Args:
        dataset: Such as "owner/name".
        split: Such as "test".
        config: The data set's configuration.
        limit: The most rows; None for all.
        token_envs: The environment variables that may hold the token, in this order.
        timeout: Seconds without a byte from the server.
        base_url: Of another server with the same API, to which the token is sent.
        backoff: How often a failure that may pass is tried again.

    Raises:
        ValueError: As `ahf_rows`.
        FetchError: As `ahf_rows`; also if the token does not open the data set.
    """
    token = hub_token(token_envs)
    if token is None:
        _warn(
            f"{dataset} is not loaded: there is no token; accept its terms on its page, make a "
            f"token that may read it, and set {' or '.join(token_envs)} to it"
        )
        return None
    source = Split(dataset, config, split, checked_url(base_url), token)
    return await _rows(source, Web(timeout, backoff), limit, cache=True)


async def _rows(source: Split, web: Web, limit: int | None, *, cache: bool) -> list[Row]:
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, or None for all rows; got {limit!r}")
    if limit == 0:
        return []
    async with web:
        pages = await _consistent(source, web, limit, cache=cache)
    rows = [row for page in pages for row in page.rows][:limit]
    _report_truncated(source, pages, len(rows))
    if pages[0].is_partial and (limit is None or len(rows) < limit):
        _warn(f"the server has only the first {len(rows)} rows of {source}")
    return rows


async def _consistent(source: Split, web: Web, limit: int | None, *, cache: bool) -> list[Page]:
    """The pages with the first `limit` rows, all of one revision."""
    pages = await _pages(source, web, limit, None, cache=cache)
    if _are_of_one_revision(pages):
        return pages
    first = await web.obtain(source.page(0, cache=cache), lambda _: False)
    pages = await _pages(source, web, limit, first.revision, cache=cache)
    if _are_of_one_revision(pages):
        return pages
    raise FetchError(f"{source} changed while it was read; read it again")


def _are_of_one_revision(pages: Sequence[Page]) -> bool:
    return len({page.revision for page in pages} - {None}) <= 1


async def _pages(
    source: Split, web: Web, limit: int | None, revision: str | None, *, cache: bool
) -> list[Page]:
    """The pages with the first `limit` rows; those cached of another `revision` do not count."""

    async def page(offset: int) -> Page:
        return await web.obtain(
            source.page(offset, cache=cache), lambda page: revision in {None, page.revision}
        )

    first = await page(0)
    if first.total is None:
        return await _until_short(first, page, limit)
    end = first.total if limit is None else min(limit, first.total)
    pages = {0: first}
    turn = anyio.CapacityLimiter(CONCURRENT_PAGES)

    async def add(offset: int) -> None:
        async with turn:
            pages[offset] = await page(offset)

    with ungrouped():
        async with anyio.create_task_group() as group:
            for offset in range(PAGE, end, PAGE):
                group.start_soon(add, offset)
    return [pages[offset] for offset in sorted(pages)]


async def _until_short(
    first: Page, page: Callable[[int], Awaitable[Page]], limit: int | None
) -> list[Page]:
    """The pages up to the first that is not full, for a server that does not tell the total."""
    pages = [first]
    while len(pages[-1].rows) == PAGE and (limit is None or PAGE * len(pages) < limit):
        pages.append(await page(PAGE * len(pages)))
    return pages


def _report_truncated(source: Split, pages: Sequence[Page], n_rows: int) -> None:
    cut = [columns for page in pages for columns in page.truncated][:n_rows]
    affected = [number for number, columns in enumerate(cut) if columns]
    if affected:
        columns = sorted({column for columns in cut for column in columns})
        _warn(
            f"the server sent only the beginning of cells in {len(affected)} rows of {source}, "
            f"first in row {affected[0]}, in the columns {columns}; leave these rows or columns "
            "out, or load the data set another way"
        )


def _class_names(features: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """The columns of classes, with the names of these."""
    for feature in features:
        match feature:
            case {"name": str(name), "type": kind}:
                names = _names_in(kind)
                if names is not None:
                    yield name, names
            case _:
                pass


def _names_in(kind: object) -> list[str] | None:
    """The names of a class label, or of the class labels in a sequence."""
    if isinstance(kind, list):
        return next(map(_names_in, cast("list[Any]", kind)), None)
    if not isinstance(kind, dict):
        return None
    label = cast("dict[str, Any]", kind)
    names = label.get("names")
    if isinstance(names, list):
        return [str(name) for name in cast("list[Any]", names)]
    return _names_in(label.get("feature"))


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
