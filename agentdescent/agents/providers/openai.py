"""The Chat Completions API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentdescent.agents.providers.dialects import (
    Draft,
    Pieces,
    Question,
    listed,
    mapping,
    misshapen,
    text_of,
    tokens_of,
)
from agentdescent.agents.providers.failures import Failure, embedded
from agentdescent.core.prompt import turns_before
from agentdescent.core.reply import Tokens


@dataclass(frozen=True, slots=True)
class OpenAI:
    """Speaks ``/chat/completions``."""

    provider: str = "openai_compatible"
    path: str = "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """What tells the server who asks."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, question: Question) -> dict[str, Any]:
        """The request."""
        messages = turns_before(question.prompt)
        messages.append({"role": "user", "content": question.prompt})
        if question.system is not None:
            messages.insert(0, {"role": "system", "content": question.system})
        body: dict[str, Any] = {"model": question.model, "messages": messages}
        if question.limit is not None:
            body[question.limit_key] = question.limit
        if question.temperature is not None:
            body["temperature"] = question.temperature
        if question.seed is not None:
            body["seed"] = question.seed
        if question.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {**body, **question.body}

    def read(self, data: Mapping[str, Any]) -> Draft | Failure:
        """The reply; reasoning is left out, and a refusal is what the model said."""
        choices = listed(data.get("choices"))
        if not choices:
            return embedded(data) or misshapen(data, "choices")
        choice = mapping(choices[0])
        if not isinstance(choice.get("message"), dict):
            return embedded(data) or misshapen(data, "a message")
        message = mapping(choice["message"])
        content = message.get("content")
        text = text_of(message.get("refusal") or "" if content is None else content)
        if text is None:
            return misshapen(data, "text in its message")
        reason = str(choice.get("finish_reason") or "")
        return Draft(
            text,
            reason,
            is_cut=reason == "length",
            is_chosen=reason in {"", "stop"},
            tokens=_tokens(mapping(data.get("usage"))),
        )

    def pieces(self) -> Pieces:
        """An empty reply."""
        return _Pieces()


def _tokens(usage: Mapping[str, Any]) -> Tokens | None:
    prompt = mapping(usage.get("prompt_tokens_details"))
    completion = mapping(usage.get("completion_tokens_details"))
    return tokens_of(
        (
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            prompt.get("cached_tokens") or 0,
            0,
            completion.get("reasoning_tokens") or 0,
        )
    )


class _Pieces:
    is_closed = False  # the token counts come after the last piece of text, and then [DONE]

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reason: object = None
        self._usage: object = None

    @property
    def has_text(self) -> bool:
        return bool(self._texts)

    @property
    def is_whole(self) -> bool:
        return self._reason is not None

    def take(self, event: Mapping[str, Any]) -> Failure | None:
        error = embedded(event)
        if error is not None:
            return error
        self._usage = event.get("usage") or self._usage
        choices = listed(event.get("choices"))
        if choices:
            choice = mapping(choices[0])
            text = mapping(choice.get("delta")).get("content")
            if isinstance(text, str) and text:
                self._texts.append(text)
            self._reason = choice.get("finish_reason") or self._reason
        return None

    def whole(self) -> Mapping[str, Any]:
        message = {"content": "".join(self._texts)}
        choices = [{"message": message, "finish_reason": self._reason}]
        return {"choices": choices, "usage": self._usage}
