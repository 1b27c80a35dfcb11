"""What becomes of replies that are replies."""

import warnings

import pytest

from agentdescent.core.reply import Reply, Tokens
from support.apis import CLAUDE, FLAVOURS, OPENAI, refuses, says, serving, streams

flavours = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)


async def ask(flavour, *acts, **options):
    """The reply, and the requests it took."""
    async with serving(*acts) as server, flavour.complete(server, **options) as complete:
        return await complete("x"), server.requests


async def reply_to(flavour, data, **options):
    return (await ask(flavour, says(data), **options))[0]


@flavours
@pytest.mark.asyncio
async def test_reply_is_text_that_knows_how_it_came_about(flavour):
    reply = await reply_to(flavour, flavour.reply(" 42\n"))

    assert isinstance(reply, Reply)
    assert (reply, reply.cut, reply.tokens) == (" 42\n", False, Tokens(3, 1))
    assert reply.finish_reason in {"stop", "end_turn"}
    assert reply.seconds > 0


@flavours
@pytest.mark.asyncio
async def test_half_a_reply_is_marked_and_complained_of_now_and_then(flavour):
    half = says(flavour.reply("four and", reason=flavour.length))
    async with serving(half) as server, flavour.complete(server, max_tokens=9) as complete:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            replies = [await complete("x") for _ in range(11)]

    assert {(str(reply), reply.cut) for reply in replies} == {("four and", True)}
    complaint = "m-1 gave half a reply, cut off at its length limit ({} so far); raise max_tokens "
    assert {warning.category for warning in told} == {RuntimeWarning}
    assert [str(warning.message) for warning in told] == [
        f"{complaint.format(count)}(now 9)" for count in (1, 10)
    ]


@flavours
@pytest.mark.asyncio
async def test_a_reply_that_is_all_thought_is_given_twice_the_room_once(flavour):
    nothing = flavour.reply("", reason=flavour.length)

    reply, requests = await ask(flavour, says(nothing), says(flavour.reply()), max_tokens=9)

    assert (reply, reply.cut) == ("fine", False)
    assert [request.body["max_tokens"] for request in requests] == [9, 18]


@flavours
@pytest.mark.parametrize("second", ["as empty", "refused"])
@pytest.mark.asyncio
async def test_a_reply_that_stays_empty_at_its_limit_is_cut_and_warns(flavour, second):
    empty = says(flavour.reply("", reason=flavour.length))
    then = {"as empty": empty, "refused": refuses(400)}[second]

    with pytest.warns(RuntimeWarning, match=r"gave an empty reply.*raise max_tokens \(now 18\)"):
        reply, requests = await ask(flavour, empty, then, max_tokens=9)

    assert (reply, reply.cut, len(requests)) == ("", True, 2)


@pytest.mark.asyncio
async def test_no_limit_cannot_be_doubled():
    empty = says(OPENAI.reply("", reason="length"))

    with pytest.warns(RuntimeWarning, match="raise max_tokens"):
        reply, requests = await ask(OPENAI, empty, max_tokens=None)

    assert (reply, reply.cut, len(requests)) == ("", True, 1)
    assert "max_tokens" not in requests[0].body


@flavours
@pytest.mark.asyncio
async def test_an_empty_reply_is_asked_for_again(flavour):
    reply, requests = await ask(flavour, says(flavour.reply(" ")), says(flavour.reply("there")))

    assert (reply, len(requests)) == ("there", 2)


@pytest.mark.parametrize(
    ("flavour", "reason"), [(OPENAI, "content_filter"), (CLAUDE, "refusal"), (CLAUDE, "tool_use")]
)
@pytest.mark.asyncio
async def test_a_model_that_was_stopped_for_a_reason_may_say_nothing(flavour, reason):
    reply, requests = await ask(flavour, says(flavour.reply("", reason=reason)))

    assert (reply, reply.finish_reason, reply.cut, len(requests)) == ("", reason, False, 1)


@pytest.mark.asyncio
async def test_thoughts_are_left_out():
    thought = {"type": "thinking", "thinking": "hm", "text": "hm"}
    spoken = CLAUDE.reply("and 3", blocks=[thought, {"type": "text", "text": "2 "}, thought])

    assert await reply_to(CLAUDE, spoken) == "2 and 3"
    assert await reply_to(OPENAI, OPENAI.reply("5", reasoning_content="hm")) == "5"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"text": None, "refusal": "I would rather not."}, "I would rather not."),
        ({"text": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 7]}, "ab"),
    ],
)
@pytest.mark.asyncio
async def test_other_shapes_of_messages_are_understood(message, text):
    assert await reply_to(OPENAI, OPENAI.reply(**message)) == text


@pytest.mark.asyncio
async def test_tokens_are_the_same_buckets_whoever_the_provider_is():
    openai = OPENAI.reply() | {
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 15},
        }
    }
    claude = CLAUDE.reply() | {
        "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
        }
    }

    assert (await reply_to(OPENAI, openai)).tokens == Tokens(100, 20, 60, 0, 15)
    assert (await reply_to(CLAUDE, claude)).tokens == Tokens(100, 20, 60, 30)


NONSENSE = [
    None,
    "many",
    [],
    {},
    {"in": None, "out": 3},
    {"in": "3", "out": "1"},
    {"in": 3, "out": -5},
    {"in": 3.0, "out": 1},
    {"in": True, "out": 1},
    {"in": 10**9, "out": 1},
    {"in": 10**400, "out": 1},
    {"in": 3, "out": 1, "cached": 4},
    {"in": 3, "out": 1, "cached": "some"},
]


@flavours
@pytest.mark.parametrize("usage", NONSENSE, ids=lambda usage: str(usage)[:30])
@pytest.mark.asyncio
async def test_nonsense_about_tokens_is_no_knowledge_of_them(flavour, usage):
    names = {"in": "input_tokens", "out": "output_tokens", "cached": "cache_read_input_tokens"}
    if flavour is OPENAI:
        names = {"in": "prompt_tokens", "out": "completion_tokens"}
    said = usage
    if isinstance(usage, dict):
        said = {names[name]: usage[name] for name in usage if name in names}
        if "cached" in usage and flavour is OPENAI:
            said["prompt_tokens_details"] = {"cached_tokens": usage["cached"]}
        if "cached" in usage and flavour is CLAUDE:
            said["input_tokens"] = -4

    reply = await reply_to(flavour, flavour.reply() | {"usage": said})

    assert (reply, reply.tokens) == ("fine", None)


def said_in_pieces(flavour, *texts, reason=None, end=True):
    if flavour is OPENAI:
        pieces = [{"choices": [{"delta": {"content": text}}]} for text in texts]
        last = {"choices": [{"delta": {}, "finish_reason": reason or "stop"}]}
        counts = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        return [": hello", *pieces, last, counts, *(["data: [DONE]"] if end else [])]
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return [
        "event: message_start",
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "ping"},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason or "end_turn"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]


@flavours
@pytest.mark.asyncio
async def test_a_stream_gives_the_reply_and_when_it_began(flavour, account):
    reply, requests = await ask(
        flavour, streams(*said_in_pieces(flavour, "fi", "", "ne")), stream=True, usage=account
    )

    assert (reply, reply.tokens) == ("fine", Tokens(3, 2))
    assert requests[0].body["stream"] is True
    assert account.first_token.count == 1
    assert 0 < account.first_token.p50 <= reply.seconds


@flavours
@pytest.mark.asyncio
async def test_a_connection_that_breaks_after_the_last_event_does_no_harm(flavour):
    whole = streams(*said_in_pieces(flavour, "fine"), cut=True)

    reply, requests = await ask(flavour, whole, stream=True)

    assert (reply, len(requests)) == ("fine", 1)


@pytest.mark.asyncio
async def test_a_stream_whose_model_said_why_it_stopped_is_whole_without_done():
    whole = streams(*said_in_pieces(OPENAI, "fine", end=False))

    assert (await ask(OPENAI, whole, stream=True))[0] == "fine"


@flavours
@pytest.mark.asyncio
async def test_a_stream_cut_by_length_is_half_a_reply(flavour):
    half = streams(*said_in_pieces(flavour, "fi", reason=flavour.length))

    with pytest.warns(RuntimeWarning, match="half a reply"):
        reply, _ = await ask(flavour, half, stream=True)

    assert reply.cut


@flavours
@pytest.mark.asyncio
async def test_a_server_that_does_not_stream_is_heard_too(flavour):
    assert await reply_to(flavour, flavour.reply(), stream=True) == "fine"


@flavours
@pytest.mark.asyncio
async def test_a_stream_keeps_its_connection(flavour):
    whole = streams(*said_in_pieces(flavour, "fine"))
    async with serving(whole) as server, flavour.complete(server, stream=True) as complete:
        assert [await complete("x"), await complete("y")] == ["fine", "fine"]

        assert server.connections == 1
