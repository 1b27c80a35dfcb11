"""What the two dialects of model APIs have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from agentdescent.agents.providers.failures import Failure
from agentdescent.core.reply import Tokens
from agentdescent.errors import WrongShape

NONSENSE = 10**9
"""So many tokens are in no single call."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply as it was read.

    Attributes:
        text: What the model said.
        finish_reason: The provider's word for why it stopped, or "".
        is_cut: It ran into its length limit.
        is_chosen: The model ended of its own accord, so that there should be text.
        tokens: None if the provider does not say, or says nonsense.
    """

    text: str
    finish_reason: str
    is_cut: bool
    is_chosen: bool
    tokens: Tokens | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for.

    Attributes:
        model: The model.
        prompt: The user's message.
        limit: Tokens that may be generated; None leaves that to the server.
        limit_key: How the server calls that number.
        system: The system prompt, or None.
        temperature: Or None, for the server's.
        seed: Or None.
        stream: Ask for the reply piece by piece.
        cache_prefix: The shortest stable beginning worth a mark, in characters; None for no mark.
        body: More fields, which win.
    """

    model: str
    prompt: str
    limit: int | None
    limit_key: str
    system: str | None
    temperature: float | None
    seed: int | None
    stream: bool
    cache_prefix: int | None
    body: Mapping[str, Any]


class Pieces(Protocol):
    """A reply that comes piece by piece."""

    @property
    def has_text(self) -> bool:
        """The model has begun to speak."""
        ...

    def take(self, event: Mapping[str, Any]) -> Failure | None:
        """Add one event; the failure it tells of, if any."""
        ...

    @property
    def is_whole(self) -> bool:
        """Nothing of the text is missing."""
        ...

    @property
    def is_closed(self) -> bool:
        """An event has said that no other will come."""
        ...

    def whole(self) -> Mapping[str, Any]:
        """What would have come at once without streaming."""
        ...


class Dialect(Protocol):
    """How one kind of API is spoken to."""

    @property
    def provider(self) -> str:
        """Whose kind."""
        ...

    @property
    def path(self) -> str:
        """What follows the base URL."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """What tells the server who asks."""
        ...

    def body(self, question: Question) -> dict[str, Any]:
        """The request."""
        ...

    def read(self, data: Mapping[str, Any]) -> Draft | Failure:
        """The reply."""
        ...

    def pieces(self) -> Pieces:
        """An empty reply, to be streamed into."""
        ...


def misshapen(data: Any, lacks: str) -> Failure:
    """A reply without what a reply has."""
    return Failure(WrongShape, f"a reply without {lacks}: {data!r}", status=200)


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def listed(value: object) -> list[object]:
    """`value` if it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def text_of(blocks: object) -> str | None:
    """The text of a message: plain, or the blocks of type "text" joined; None if it is neither."""
    if isinstance(blocks, str):
        return blocks
    if not isinstance(blocks, list):
        return None
    texts = map(mapping, cast("list[object]", blocks))
    return "".join(str(block.get("text") or "") for block in texts if block.get("type") == "text")


def tokens_of(counts: tuple[object, object, object, object, object]) -> Tokens | None:
    """(input, output, cache_read, cache_write, reasoning), or None if a number makes no sense."""
    numbers = [count for count in counts if type(count) is int and 0 <= count < NONSENSE]
    if len(numbers) < len(counts):
        return None
    tokens = Tokens(*numbers)
    is_possible = (
        tokens.cache_read + tokens.cache_write <= tokens.input and tokens.reasoning <= tokens.output
    )
    return tokens if is_possible else None
