"""The Messages API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentdescent.agents.providers.dialects import (
    Draft,
    Pieces,
    Question,
    mapping,
    misshapen,
    text_of,
    tokens_of,
)
from agentdescent.agents.providers.failures import Failure, embedded
from agentdescent.core.prompt import Prompt, turns_before
from agentdescent.core.reply import Tokens

VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class Anthropic:
    """Speaks ``/v1/messages``."""

    provider: str = "anthropic"
    path: str = "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        """What tells the server who asks."""
        version = {"anthropic-version": VERSION}
        return {"x-api-key": key, **version} if key else version

    def body(self, question: Question) -> dict[str, Any]:
        """The request; a long stable beginning of the prompt is marked for the cache."""
        messages: list[dict[str, Any]] = [*turns_before(question.prompt)]
        content = _content(question.prompt, question.cache_prefix)
        messages.append({"role": "user", "content": content})
        body: dict[str, Any] = {"model": question.model, "messages": messages}
        body[question.limit_key] = question.limit
        if question.system is not None:
            body["system"] = question.system
        if question.temperature is not None:
            body["temperature"] = question.temperature
        if question.stream:
            body["stream"] = True
        return {**body, **question.body}

    def read(self, data: Mapping[str, Any]) -> Draft | Failure:
        """The reply: its text blocks; thinking is left out."""
        error = embedded(data)
        if error is not None:
            return error
        text = text_of(data.get("content"))
        if text is None:
            return misshapen(data, "content")
        reason = str(data.get("stop_reason") or "")
        return Draft(
            text,
            reason,
            is_cut=reason in {"max_tokens", "model_context_window_exceeded"},
            is_chosen=reason in {"", "end_turn"},
            tokens=_tokens(mapping(data.get("usage"))),
        )

    def pieces(self) -> Pieces:
        """An empty reply."""
        return _Pieces()


def _content(prompt: str, cache_prefix: int | None) -> str | list[dict[str, Any]]:
    stable = prompt.stable if isinstance(prompt, Prompt) else 0
    if cache_prefix is None or stable < cache_prefix:
        return prompt
    head, rest = prompt[:stable], prompt[stable:]
    if not (head.strip() and rest.strip()):
        return prompt
    mark = {"cache_control": {"type": "ephemeral"}}
    return [{"type": "text", "text": head, **mark}, {"type": "text", "text": rest}]


def _tokens(usage: Mapping[str, Any]) -> Tokens | None:
    """Its `input_tokens` are those that no cache had anything to do with."""
    read: Any = usage.get("cache_read_input_tokens") or 0
    written: Any = usage.get("cache_creation_input_tokens") or 0
    rest: Any = usage.get("input_tokens")
    if not all(type(count) is int and count >= 0 for count in (read, written, rest)):
        return None
    return tokens_of((read + written + rest, usage.get("output_tokens"), read, written, 0))


class _Pieces:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reason: object = None
        self._usage: dict[str, Any] = {}
        self.is_whole: bool = False

    @property
    def has_text(self) -> bool:
        return bool(self._texts)

    @property
    def is_closed(self) -> bool:
        return self.is_whole

    def take(self, event: Mapping[str, Any]) -> Failure | None:
        match event.get("type"):
            case "error":
                return embedded(event) or misshapen(event, "a reason for its error")
            case "message_start":
                self._usage.update(mapping(mapping(event.get("message")).get("usage")))
            case "content_block_delta":
                text = mapping(event.get("delta")).get("text")
                if isinstance(text, str) and text:
                    self._texts.append(text)
            case "message_delta":
                self._reason = mapping(event.get("delta")).get("stop_reason")
                self._usage.update(mapping(event.get("usage")))
            case "message_stop":
                self.is_whole = True
            case _:
                pass  # pings, and kinds of events that are still to come
        return None

    def whole(self) -> Mapping[str, Any]:
        content = [{"type": "text", "text": "".join(self._texts)}]
        return {"content": content, "stop_reason": self._reason, "usage": self._usage}
