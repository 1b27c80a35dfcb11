"""`claude` and `openai_compatible`: from arguments to a completion."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from agentdescent.agents.providers.anthropic import Anthropic
from agentdescent.agents.providers.call import NEWER_LIMIT_KEY, Terms
from agentdescent.agents.providers.completion import ApiCompletion
from agentdescent.agents.providers.dialects import Question
from agentdescent.agents.providers.endpoint import Access
from agentdescent.agents.providers.openai import OpenAI
from agentdescent.agents.providers.sdk import is_sdk
from agentdescent.usage import Usage

CACHE_PREFIX = 4096
"""Characters: about the 1,024 tokens below which no cache takes a prompt."""

LIMIT_KEYS = ("max_tokens", NEWER_LIMIT_KEY)


def claude(  # noqa: PLR0913 - the documented form
    model: str = "claude-opus-4-8",
    max_tokens: int = 4096,
    client: Any = None,
    usage: Usage | None = None,
    retries: int = 3,
    timeout: float = 120.0,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    system: str | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    stream: bool = False,
    cache_prefix: int | None = CACHE_PREFIX,
    deadline: float | None = None,
    backoff: float = 0.5,
    **body: Any,
) -> ApiCompletion:
    """A model behind Anthropic's Messages API.

    ``await complete(prompt)`` gives its text, without thinking; ``complete.sync(prompt)`` does so
    in a script. Where the environment is asked, it is asked at each call.

    Timeouts, connections that break, replies that are cut, broken or empty, and the statuses 408,
    409, 425, 429 and 5xx are tried again. So many requests are made at once as the endpoint takes:
    32 at first, more as long as it answers, half as many when it refuses (429, 503, 529). A
    `Retry-After` is kept to, by everyone who asks the same endpoint.

    Args:
        model: Its name.
        max_tokens: The most it may generate, thinking included; the API requires a number.
        client: Ask through this instead: an `httpx.AsyncClient`, or an object with
            ``messages.create`` as the vendor's SDK has it. It is not closed.
        usage: Told of every request. A run keeps its own account without that.
        retries: Attempts that may fail, the first included; 1 makes a single one, whatever
            happens. Refusals for lack of room (429, 503, 529) do not count: they and the wait for
            a turn are limited by `deadline`.
        timeout: Seconds that one attempt may take, to the end of its reply.
        base_url: Else ``ANTHROPIC_BASE_URL``, else Anthropic's own.
        api_key: Else ``ANTHROPIC_API_KEY``; "" for a server that wants none.
        system: The system prompt.
        temperature: The API's default if None.
        seed: Must be None: this API takes none.
        stream: Have the reply sent piece by piece, which tells when it began.
        cache_prefix: The beginning that a prompt shares with other tasks, as a rendered artifact
            in `LLMAgent.solve`, is marked for the provider's cache if it has at least so many
            characters; None marks nothing.
        deadline: Seconds for one call, all attempts and waits included; default retries x timeout.
        backoff: Seconds before the second attempt; each further wait is twice as long.
        **body: Further fields of the request, merged last.

    Raises:
        ValueError: If an argument cannot be honoured.
        TypeError: If `body` cannot be written as JSON.
    """
    access = Access(
        base_url,
        api_key,
        url_env="ANTHROPIC_BASE_URL",
        key_env="ANTHROPIC_API_KEY",
        default_url="https://api.anthropic.com",
        model=model,
        needs_key=client is None,
    )
    del base_url, api_key  # a traceback from here on shows no secret
    if seed is not None:
        raise ValueError(
            f"seed={seed} cannot be honoured: the Messages API takes none; temperature=0 is the "
            "nearest"
        )
    question = _question(model, max_tokens, system, temperature, None, stream=stream, body=body)
    if question.limit is None:
        raise ValueError("max_tokens=None cannot be honoured: the Messages API requires a number")
    if stream and is_sdk(client):
        raise ValueError("stream=True cannot be honoured through a client with messages.create")
    question = replace(question, cache_prefix=cache_prefix)
    terms = _terms(timeout, retries, deadline, backoff, usage)
    return ApiCompletion(Anthropic(), access, question, terms, client)


def openai_compatible(  # noqa: PLR0913 - the documented form
    model: str,
    *,
    base_url_env: str = "OPENAI_BASE_URL",
    api_key_env: str = "OPENAI_API_KEY",
    default_base_url: str = "https://api.openai.com/v1",
    base_url: str | None = None,
    api_key: str | None = None,
    max_tokens: int | None = 4096,
    timeout: float = 120.0,
    usage: Usage | None = None,
    retries: int = 3,
    system: str | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    stream: bool = False,
    client: Any = None,
    deadline: float | None = None,
    backoff: float = 0.5,
    **body: Any,
) -> ApiCompletion:
    """A model behind an API like OpenAI's Chat Completions, as most servers have it.

    It works as `claude` does, retries and turns included.

    Args:
        model: Its name.
        base_url_env: The environment variable with the base URL, to which
            ``/chat/completions`` is added.
        api_key_env: The environment variable with the API key.
        default_base_url: The base URL when there is no other.
        base_url: Wins over the environment.
        api_key: Wins over the environment; "" for a server that wants none.
        max_tokens: The most it may generate, reasoning included; None leaves that to the server.
            To a server that calls it ``max_completion_tokens``, and refuses the old name, it is
            sent under the new one.
        timeout: Seconds that one attempt may take, to the end of its reply.
        usage: Told of every request. A run keeps its own account without that.
        retries: As for `claude`.
        system: The system prompt.
        temperature: The server's default if None.
        seed: Sent along, for servers that sample by it.
        stream: Have the reply sent piece by piece, which tells when it began.
        client: An `httpx.AsyncClient` to ask through. It is not closed.
        deadline: As for `claude`.
        backoff: As for `claude`.
        **body: Further fields of the request, merged last.

    Raises:
        ValueError: If an argument cannot be honoured.
        TypeError: If `body` cannot be written as JSON.
    """
    access = Access(
        base_url,
        api_key,
        url_env=base_url_env,
        key_env=api_key_env,
        default_url=default_base_url,
        model=model,
        needs_key=client is None,
    )
    del base_url, api_key  # a traceback from here on shows no secret
    question = _question(model, max_tokens, system, temperature, seed, stream=stream, body=body)
    terms = _terms(timeout, retries, deadline, backoff, usage)
    return ApiCompletion(OpenAI(), access, question, terms, client)


def _question(
    model: str,
    max_tokens: int | None,
    system: str | None,
    temperature: float | None,
    seed: int | None,
    *,
    stream: bool,
    body: Mapping[str, Any],
) -> Question:
    try:
        json.dumps(body)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the keywords {', '.join(body)} go into the request, but not as JSON: {error}"
        ) from None
    limit, limit_key = max_tokens, LIMIT_KEYS[0]
    rest = dict(body)
    for key in LIMIT_KEYS:
        if key in rest:
            limit, limit_key = rest.pop(key), key
    if limit is not None and limit < 1:
        raise ValueError(f"{limit_key} must be at least 1, got {limit!r}")
    return Question(
        model=model,
        prompt="",
        limit=limit,
        limit_key=limit_key,
        system=system,
        temperature=temperature,
        seed=seed,
        stream=stream,
        cache_prefix=None,
        body=rest,
    )


def _terms(
    timeout: float, retries: int, deadline: float | None, backoff: float, usage: Usage | None
) -> Terms:
    whole = max(1, retries) * timeout if deadline is None else deadline
    for name, value in (("timeout", timeout), ("deadline", whole)):
        if not value > 0:
            raise ValueError(f"{name} must be a positive number of seconds, got {value!r}")
    if not 0 <= backoff < math.inf:
        raise ValueError(f"backoff must be a number of seconds and not negative, got {backoff!r}")
    return Terms(timeout, max(1, retries), whole, backoff, Random(), usage)  # noqa: S311 - jitter
