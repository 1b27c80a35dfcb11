"""Runs that must end with an error."""

from collections.abc import Awaitable

import pytest

from support.toy import HiddenRules


async def broken(kind: type[Exception], run: Awaitable[object]) -> Exception:
    """The error that `run` ends with, which is of exactly that kind."""
    with pytest.raises(kind) as caught:
        await run
    assert type(caught.value) is kind
    return caught.value


async def refused(kind: type[Exception], run: Awaitable[object], world: HiddenRules) -> str:
    """The text of the error that `run` ends with, having called nothing of `world`."""
    error = await broken(kind, run)
    assert world.calls == []
    return str(error)
