import anyio
import pytest

from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted
from agentdescent.merge.together import together


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_all_items_are_awaited_at_once_and_answered_in_their_order(looptime):
    async def after(seconds):
        await anyio.sleep(seconds)
        return seconds

    assert await together(after, [3, 1, 2]) == [3, 1, 2]
    assert looptime == 3


@pytest.mark.asyncio
async def test_nothing_gives_nothing():
    assert await together(anyio.sleep, []) == []


@pytest.mark.parametrize("error", [ValueError("odd"), Exhausted(StopReason.MAX_CALLS)])
@pytest.mark.asyncio
async def test_the_first_error_is_raised_as_it_is_and_cancels_the_others(error):
    ended = []

    async def act(item):
        if item == "fails":
            raise error
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(item)

    with pytest.raises(type(error)) as caught:
        await together(act, ["waits", "fails"])

    assert caught.value is error
    assert ended == ["waits"]
