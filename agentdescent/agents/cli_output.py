"""Reading what command-line agents print when asked for JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from agentdescent.agents.providers.dialects import tokens_of
from agentdescent.core.reply import Tokens

_Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said.

    Attributes:
        text: Its last message.
        tokens: What it took; None when it did not say.
        error: "" or what the agent says went wrong; then `text` means nothing.
    """

    text: str
    tokens: Tokens | None
    error: str


def read_answer(printed: str) -> Answer:
    """Read one JSON object, a list of them, or one on each line among lines that are none.

    Understood are `{"type": "result", "result": ..., "usage": ...}` as `claude` prints it, and the
    events "item.completed", "turn.completed" and "turn.failed" of `codex`.

    Raises:
        ValueError: If there is no answer in it.
    """
    text, error, tokens = None, "", None
    for event in _events(printed):
        text = _said(event, text)
        error = _complaint(event, error)
        took = _tokens(event.get("usage"))
        if took is not None:
            tokens = took if tokens is None else tokens + took
    if text is None and not error:
        raise ValueError("no JSON result")
    return Answer(text or "", tokens, error)


def _events(printed: str) -> Iterable[_Event]:
    whole = _json(printed)
    values = [_json(line) for line in printed.splitlines()] if whole is None else whole
    listed = cast("list[object]", values) if isinstance(values, list) else [values]
    return (cast("_Event", value) for value in listed if isinstance(value, dict))


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _said(event: _Event, before: str | None) -> str | None:
    item = event.get("item")
    said = event.get("result")
    if isinstance(item, dict) and cast("_Event", item).get("type") == "agent_message":
        said = cast("_Event", item).get("text")
    return said if isinstance(said, str) else before


def _complaint(event: _Event, before: str) -> str:
    match event:
        case {"is_error": True} | {"type": "result", "subtype": "error_max_turns"}:
            return str(event.get("result") or event.get("subtype") or "an error it does not name")
        case {"type": "turn.failed", "error": {"message": str(message)}}:
            return message
        case _:
            return before


def _tokens(usage: object) -> Tokens | None:
    """Both report buckets; only `claude` leaves the cached ones out of `input_tokens`."""
    if not isinstance(usage, dict):
        return None
    counts = {name: n for name, n in cast("_Event", usage).items() if isinstance(n, int)}
    written = counts.get("cache_creation_input_tokens", 0)
    read = counts.get("cache_read_input_tokens", 0)
    return tokens_of(
        (
            counts.get("input_tokens", 0) + written + read,
            counts.get("output_tokens", 0),
            read + counts.get("cached_input_tokens", 0),
            written,
            counts.get("reasoning_output_tokens", 0),
        )
    )
