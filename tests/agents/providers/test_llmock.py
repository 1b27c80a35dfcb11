"""Both dialects against an independent server of many providers, which judges its clients."""

import pytest

from agentdescent.agents.providers import claude, openai_compatible
from agentdescent.errors import BadRequest, CutReply, Overloaded, RateLimited

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.leaves_thread,  # the server's workers outlast a test
]

makers = pytest.mark.parametrize("make", [claude, openai_compatible])


def completion(make, **options):
    return make(**{"model": "m-1", "backoff": 0.02, **options})


@makers
async def test_environment_alone_is_enough(make, llmock):
    llmock.reply("from the server")
    async with completion(make) as complete:
        reply = await complete("say it")

    assert reply == "from the server"
    assert reply.tokens is not None


@makers
async def test_rate_limits_are_kept_to(make, llmock):
    llmock.rate_limit(times=1, retry_after=0.1)
    async with completion(make) as complete:
        assert await complete("x")

    assert len(llmock.requests) == 2
    llmock.assert_resilient()


@makers
async def test_failures_are_waited_out(make, llmock):
    llmock.fail(529).fail(500)
    async with completion(make) as complete:
        assert await complete("x")

    llmock.assert_resilient()


@makers
async def test_an_outage_ends_at_the_deadline(make, llmock):
    llmock.outage()
    async with completion(make, deadline=0.3, backoff=0.1) as complete:
        with pytest.raises(Overloaded):
            await complete("x")


@makers
async def test_a_long_wait_is_refused_at_once(make, llmock):
    llmock.rate_limit(times=1, retry_after=1000)
    async with completion(make) as complete:
        with pytest.raises(RateLimited, match="asks to wait 1000 s"):
            await complete("x")


@makers
async def test_a_prompt_that_is_too_long_is_a_bad_request(make, llmock):
    llmock.context_overflow()
    async with completion(make) as complete:
        with pytest.raises(BadRequest, match="maximum context length"):
            await complete("x")

    assert len(llmock.requests) == 1
    llmock.assert_resilient()


@makers
async def test_streams_are_read(make, llmock):
    llmock.reply("one two three four")
    async with completion(make, stream=True) as complete:
        reply = await complete("x")

    assert (reply, reply.tokens is not None) == ("one two three four", True)


@makers
@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt"])
async def test_a_stream_that_breaks_is_never_taken_for_a_reply(make, fault, llmock):
    getattr(llmock, fault)(after_chunks=1, times=None)
    llmock.reply("one two three four", times=None)
    async with completion(make, stream=True) as complete:
        with pytest.raises(CutReply) as error:
            await complete("x")

    assert error.value.attempts == 3


@makers
@pytest.mark.parametrize("fault", ["disconnect", "truncate", "corrupt"])
async def test_a_stream_that_breaks_once_is_asked_for_again(make, fault, llmock):
    getattr(llmock, fault)(after_chunks=1)
    llmock.reply("one two three four", times=None)
    async with completion(make, stream=True) as complete:
        assert await complete("x") == "one two three four"

    llmock.assert_resilient()


@makers
async def test_a_stream_that_stalls_is_given_up(make, llmock):
    llmock.stall(after_chunks=1, seconds=1)
    async with completion(make, stream=True, timeout=0.3) as complete:
        assert await complete("x")
