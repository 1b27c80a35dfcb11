"""Rows of a hub's data set: aligned pages of a hundred, each cached as it came."""

import json
from dataclasses import dataclass, field
from typing import Any, cast

from agentdescent.data.cache import Download, cache_directory, unique_name
from agentdescent.data.readers import Row
from agentdescent.data.web import ACCESS, Wanted
from agentdescent.errors import FetchError

PAGE = 100
"""Rows of a page, the most a server hands out at once."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a split.

    Attributes:
        rows: In their order.
        truncated: Per row the columns of which the server sent the beginning alone.
        total: Rows of the whole split; None if the server does not tell.
        is_partial: The server itself holds only the beginning of the split.
        features: The columns and their types, as the server describes them.
        revision: Of the data set; None if the server does not tell.
    """

    rows: list[Row]
    truncated: list[list[str]]
    total: int | None
    is_partial: bool
    features: list[Any]
    revision: str | None


@dataclass(frozen=True, slots=True)
class Split:
    """One split of one configuration of a data set on a server.

    Attributes:
        dataset: Such as "owner/name".
        config: The configuration.
        split: Such as "train".
        base_url: Of the server.
        token: Sent along; never shown.
    """

    dataset: str
    config: str
    split: str
    base_url: str
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.dataset} (config {self.config!r}, split {self.split!r})"

    def page(self, offset: int, *, cache: bool) -> Wanted[Page]:
        """The rows from `offset` on, a page of them at most."""
        identity = (self.base_url, self.dataset, self.config, self.split)
        directory = unique_name(f"{self.dataset}_{self.config}_{self.split}", *identity)
        return Wanted(
            name=f"rows {offset}-{offset + PAGE - 1} of {self}",
            url=f"{self.base_url.rstrip('/')}/rows",
            parse=lambda download: parse_page(download, offset),
            path=cache_directory() / "hf" / directory / f"rows-{offset:09d}" if cache else None,
            query={
                "dataset": self.dataset,
                "config": self.config,
                "split": self.split,
                "offset": str(offset),
                "length": str(PAGE),
            },
            token=self.token,
            denied=ACCESS,
        )


def parse_page(download: Download, offset: int) -> Page:
    """The page that begins at row `offset`.

    Raises:
        FetchError: If the body is no such page, or lacks rows that it should have.
    """
    body = _object(download.body)
    entries = body.get("rows")
    if not isinstance(entries, list):
        raise FetchError("the answer has no list of rows")
    total = body.get("num_rows_total")
    page = Page(
        rows=[],
        truncated=[],
        total=total if isinstance(total, int) else None,
        is_partial=body.get("partial") is True,
        features=body.get("features") or [],
        revision=download.revision,
    )
    for position, entry in enumerate(cast("list[Any]", entries), start=offset):
        row, truncated = _row(entry, position)
        page.rows.append(row)
        page.truncated.append(truncated)
    _check_length(page, offset)
    return page


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = cast("object", json.loads(content))
    except (ValueError, RecursionError):
        is_markup = content.lstrip()[:1] == b"<"
        what = "an HTML page" if is_markup else f"{len(content)} bytes that are no JSON"
        raise FetchError(f"the answer is {what}, where JSON was expected") from None
    if not isinstance(body, dict):
        raise FetchError("the answer is no JSON object")
    return cast("dict[str, Any]", body)


def _row(entry: object, position: int) -> tuple[Row, list[str]]:
    cells = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    row = cells.get("row")
    if not isinstance(row, dict) or cells.get("row_idx", position) != position:
        raise FetchError(f"the answer has something else in the place of row {position}")
    truncated = cast("list[Any]", cells.get("truncated_cells") or [])
    return cast("Row", row), [str(column) for column in truncated]


def _check_length(page: Page, offset: int) -> None:
    n = len(page.rows)
    expected = n if page.total is None else min(PAGE, max(0, page.total - offset))
    if n > PAGE or n != expected:
        raise FetchError(f"the answer has {n} rows, where {min(PAGE, expected)} were expected")
