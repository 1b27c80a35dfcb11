"""The twins of what waits, for code without an event loop; Ctrl-C cancels them."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from agentdescent.blocking import run_blocking
from agentdescent.core.contracts import SOLVED
from agentdescent.data.files import afetch_bytes, afetch_text
from agentdescent.data.hard import aselect_hard
from agentdescent.data.hub import ROWS_URL, ahf_feature_names, ahf_rows, aload_gated_hf
from agentdescent.data.readers import Row
from agentdescent.data.synthetic import BATCH, SyntheticTasks, asynthesize
from agentdescent.data.web import DOWNLOADING, TOKEN_VARIABLES
from agentdescent.retry import Backoff

P = ParamSpec("P")
T = TypeVar("T")


def _run(function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    name = function.__name__
    return run_blocking(
        partial(function, *args, **kwargs),
        caller=f"{name.removeprefix('a')}()",
        instead=f"await {name}(...)",
    )


def fetch_bytes(
    url: str, *, cache: bool = True, timeout: float = 60.0, backoff: Backoff = DOWNLOADING
) -> bytes:
    """The file at `url`, as `afetch_bytes`."""
    return _run(afetch_bytes, url, cache=cache, timeout=timeout, backoff=backoff)


def fetch_text(
    url: str,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    cache: bool = True,
    timeout: float = 60.0,
    backoff: Backoff = DOWNLOADING,
) -> str:
    """The text at `url`, as `afetch_text`."""
    return _run(
        afetch_text,
        url,
        encoding=encoding,
        errors=errors,
        cache=cache,
        timeout=timeout,
        backoff=backoff,
    )


def hf_rows(
    dataset: str,
    split: str,
    *,
    config: str = "default",
    limit: int | None = 100,
    cache: bool = True,
    timeout: float = 60.0,
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[Row]:
    """The first rows of a split, as `ahf_rows`."""
    return _run(
        ahf_rows,
        dataset,
        split,
        config=config,
        limit=limit,
        cache=cache,
        timeout=timeout,
        base_url=base_url,
        backoff=backoff,
    )


def hf_feature_names(
    dataset: str,
    split: str,
    feature: str,
    *,
    config: str = "default",
    cache: bool = True,
    timeout: float = 60.0,
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[str]:
    """The names of the classes in a column, as `ahf_feature_names`."""
    return _run(
        ahf_feature_names,
        dataset,
        split,
        feature,
        config=config,
        cache=cache,
        timeout=timeout,
        base_url=base_url,
        backoff=backoff,
    )


def load_gated_hf(
    dataset: str,
    split: str,
    *,
    config: str = "default",
    limit: int | None = None,
    token_envs: Sequence[str] = TOKEN_VARIABLES,
    timeout: float = 60.0,
    base_url: str = ROWS_URL,
    backoff: Backoff = DOWNLOADING,
) -> list[Row] | None:
    """The rows of a gated data set, or None without a token, as `aload_gated_hf`."""
    return _run(
        aload_gated_hf,
        dataset,
        split,
        config=config,
        limit=limit,
        token_envs=token_envs,
        timeout=timeout,
        base_url=base_url,
        backoff=backoff,
    )


def select_hard(
    items: Iterable[T],
    score: Callable[[T], float | Awaitable[float]],
    *,
    keep: int | None = None,
    threshold: float = SOLVED,
    samples: int = 2,
    min_items: int = 12,
    concurrency: int = 8,
) -> list[T]:
    """The items that `score` fails on each time it is asked, as `aselect_hard`."""
    return _run(
        aselect_hard,
        items,
        score,
        keep=keep,
        threshold=threshold,
        samples=samples,
        min_items=min_items,
        concurrency=concurrency,
    )


def synthesize(
    completion: Callable[[str], str | Awaitable[str]],
    description: str,
    n: int,
    *,
    batch_size: int = BATCH,
) -> SyntheticTasks:
    """Have a model make up `n` tasks with answers, as `asynthesize`."""
    return _run(asynthesize, completion, description, n, batch_size=batch_size)
