"""What is asked, of whom, and which arguments are refused."""

import httpx
import pytest

from agentdescent.agents.llm import LLMAgent
from agentdescent.agents.providers import claude, openai_compatible
from agentdescent.core.prompt import Prompt
from agentdescent.core.task import Task
from agentdescent.errors import BadRequest, ProviderAuthError
from support.apis import CLAUDE, FLAVOURS, KEY, OPENAI, refuses, says, serving

flavours = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)


async def request_for(flavour, prompt="x", **options):
    async with serving(says(flavour.reply())) as server:
        async with flavour.complete(server, **options) as complete:
            await complete(prompt)
        (request,) = server.requests
        return request


@pytest.mark.asyncio
async def test_claude_asks_the_messages_api():
    request = await request_for(CLAUDE, "hi", model="m-2", max_tokens=7)

    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {
        "model": "m-2",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.asyncio
async def test_openai_compatible_asks_chat_completions():
    request = await request_for(OPENAI, "hi", model="m-2", seed=5)

    assert request.path == "/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m-2",
        "max_tokens": 4096,
        "seed": 5,
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.asyncio
async def test_system_prompt_stands_where_each_api_has_it():
    claude_body = (await request_for(CLAUDE, system="be brief", temperature=0.5)).body
    openai_body = (await request_for(OPENAI, system="be brief", temperature=0)).body

    assert (claude_body["system"], claude_body["temperature"]) == ("be brief", 0.5)
    assert openai_body["messages"][0] == {"role": "system", "content": "be brief"}
    assert openai_body["temperature"] == 0


@flavours
@pytest.mark.asyncio
async def test_other_keywords_go_into_the_body_and_win(flavour):
    body = (await request_for(flavour, top_p=0.1, messages=["mine"], max_tokens=3)).body

    assert (body["top_p"], body["messages"], body["max_tokens"]) == (0.1, ["mine"], 3)


@flavours
@pytest.mark.asyncio
async def test_any_text_can_be_asked(flavour):
    prompt = 'a "quoted" \ud83d, \u2028 and \x00'

    body = (await request_for(flavour, prompt)).body

    assert body["messages"][0]["content"] == prompt


@pytest.mark.asyncio
async def test_a_server_that_has_renamed_the_limit_is_told_once():
    refusal = refuses(400, param="max_tokens", message="use max_completion_tokens, please")
    async with (
        serving(refusal, says(OPENAI.reply())) as server,
        OPENAI.complete(server, max_tokens=5) as complete,
    ):
        assert [await complete("x"), await complete("y")] == ["fine", "fine"]

    limits = [
        {name: value for name, value in request.body.items() if "max" in name}
        for request in server.requests
    ]
    assert limits == [{"max_tokens": 5}, *[{"max_completion_tokens": 5}] * 2]


@pytest.mark.asyncio
async def test_the_new_name_of_the_limit_may_be_given():
    body = (await request_for(OPENAI, max_completion_tokens=5)).body

    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


@pytest.mark.asyncio
async def test_no_limit_is_not_sent():
    assert "max_tokens" not in (await request_for(OPENAI, max_tokens=None)).body


@flavours
@pytest.mark.asyncio
async def test_environment_is_read_at_each_call(flavour, monkeypatch):
    prefix = "ANTHROPIC" if flavour is CLAUDE else "OPENAI"
    complete = flavour.make(model="m-1")
    async with serving(says(flavour.reply())) as first, serving(says(flavour.reply())) as second:
        for server, key in ((first, "key-one"), (second, " key-two\n")):
            monkeypatch.setenv(f"{prefix}_BASE_URL", f"{server.url}/")
            monkeypatch.setenv(f"{prefix}_API_KEY", key)
            await complete("x")
            header = server.requests[0].headers
            assert (header.get("x-api-key") or header["authorization"]).endswith(key.strip())
            assert repr(complete) == f"<{_provider(flavour)} m-1 at {server.url}>"
        await complete.aclose()


def _provider(flavour):
    return "anthropic" if flavour is CLAUDE else "openai_compatible"


@pytest.mark.asyncio
async def test_environment_variables_may_have_other_names(monkeypatch):
    monkeypatch.setenv("MY_KEY", "k")
    async with serving(says(OPENAI.reply())) as server:
        monkeypatch.setenv("MY_URL", server.url)
        complete = openai_compatible("m", base_url_env="MY_URL", api_key_env="MY_KEY")

        assert await complete("x") == "fine"
        await complete.aclose()


@flavours
@pytest.mark.asyncio
async def test_a_server_without_keys_is_sent_none(flavour):
    headers = (await request_for(flavour, api_key="")).headers

    assert not {"x-api-key", "authorization"} & headers.keys()


@flavours
@pytest.mark.asyncio
async def test_without_a_key_nothing_is_sent(flavour):
    prefix = "ANTHROPIC" if flavour is CLAUDE else "OPENAI"

    with pytest.raises(ProviderAuthError) as error:
        await flavour.make(model="m-1")("x")

    assert (error.value.attempts_made, error.value.status) == (0, None)
    assert f"{prefix}_API_KEY is not set, so nothing was sent (0 attempts)" in str(error.value)
    assert f"{prefix}_BASE_URL or base_url=" in error.value.hint


@flavours
@pytest.mark.parametrize("key", ["sk-ünsent-4711", "sk-4711\nx: y"])
@pytest.mark.asyncio
async def test_a_key_that_cannot_be_sent_is_not_repeated(flavour, key):
    with pytest.raises(ProviderAuthError, match="character that cannot be sent") as error:
        await flavour.make(model="m-1", api_key=key)("x")

    assert "4711" not in str(error.value)


@flavours
@pytest.mark.parametrize(
    "url",
    [
        "api.example.com/v1",
        "ftp://example.com",
        "http://",
        "http://example.com:port",
        "http://example.com/v1?key=hidden",
        "me:hidden@example.com",
    ],
)
@pytest.mark.asyncio
async def test_a_base_url_that_is_none_is_refused_before_anything_is_sent(flavour, url):
    with pytest.raises(BadRequest, match="no http or https URL") as error:
        await flavour.make(model="m-1", api_key=KEY, base_url=url)("x")

    assert error.value.attempts == 0
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "options", "says_why"),
    [
        (claude, {"seed": 3}, "seed=3"),
        (claude, {"max_tokens": None}, "max_tokens=None"),
        (claude, {"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        (openai_compatible, {"max_completion_tokens": 0}, "max_completion_tokens must be at"),
        (openai_compatible, {"timeout": 0}, "timeout must be a positive number"),
        (openai_compatible, {"deadline": -1}, "deadline must be a positive number"),
        (claude, {"backoff": -1}, "backoff must be a number of seconds and not negative, got -1"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused(make, options, says_why):
    with pytest.raises(ValueError, match=says_why) as error:
        make(model="m", api_key=KEY, **options)

    frames = error.getrepr(showlocals=True).reprtraceback.reprentries[1:]
    assert frames
    assert KEY not in "".join(map(str, frames))


def test_keywords_that_are_no_json_are_refused():
    with pytest.raises(TypeError, match="the keywords tools go into the request"):
        openai_compatible("m", tools={1, 2})


@pytest.mark.asyncio
async def test_the_artifact_at_the_start_of_a_prompt_is_marked_for_the_cache():
    rendered = "# Rules\n" + "Be brief. " * 600
    async with serving(says(CLAUDE.reply())) as server, CLAUDE.complete(server) as complete:
        agent = LLMAgent(complete)
        for number in range(2):
            await agent.solve(rendered, Task(id=f"t{number}", prompt=f"task {number}"))

    first, second = (request.body["messages"][0]["content"] for request in server.requests)
    assert first[0] == second[0]
    assert first[0]["text"].endswith(rendered)
    assert first[0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in first[1]
    assert ("task 0" in first[1]["text"], "task 1" in second[1]["text"]) == (True, True)


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        (Prompt("a" * 50 + "b", 50), {}),
        (Prompt("a" * 5000, 4999), {"cache_prefix": None}),
        (Prompt("a" * 5000 + "  ", 5000), {}),
        ("a" * 5000, {}),
    ],
    ids=["short", "not wanted", "nothing follows", "plain"],
)
@pytest.mark.asyncio
async def test_other_prompts_are_not_marked(prompt, options):
    body = (await request_for(CLAUDE, prompt, **options)).body

    assert body["messages"][0]["content"] == prompt


@flavours
@pytest.mark.asyncio
async def test_what_was_said_before_a_prompt_comes_before_it(flavour):
    turns = [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}]

    body = (await request_for(flavour, Prompt("1 + 2", turns=turns))).body

    assert body["messages"] == [*turns, {"role": "user", "content": "1 + 2"}]


@pytest.mark.asyncio
async def test_where_marks_begin_can_be_set():
    body = (await request_for(CLAUDE, Prompt("abc", 2), cache_prefix=2)).body

    assert [block["text"] for block in body["messages"][0]["content"]] == ["ab", "c"]


@flavours
@pytest.mark.asyncio
async def test_a_given_client_is_used_and_left_open(flavour):
    seen = []

    def answer(request):
        seen.append(request.url.path)
        return httpx.Response(200, json=flavour.reply("mocked"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        async with flavour.make(model="m", client=client) as complete:
            assert await complete("x") == "mocked"

        assert not client.is_closed
    assert len(seen) == 1


@flavours
def test_identity_names_who_answers_and_how_without_secrets(flavour):
    def identity(**options):
        given = {"model": "m", "api_key": KEY, "base_url": "http://me:hidden@host/v1", **options}
        return flavour.make(**given).identity

    plain = identity()
    assert all(word in plain for word in (_provider(flavour), " m at http://host/v1", "4096"))
    assert not [secret for secret in (KEY, "hidden") if secret in plain]
    others = [
        identity(model="n"),
        identity(base_url="http://other"),
        identity(temperature=0),
        identity(system="s"),
        identity(max_tokens=5),
        identity(top_k=3),
    ]
    assert len({plain, *others}) == 7
    assert plain == identity(api_key="another", retries=9, timeout=1)
