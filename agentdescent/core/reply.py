"""What a model gave back: its text, how that ended, and the tokens it took."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one call, or of several, in the same buckets whoever the provider is.

    Attributes:
        input: The whole prompt, what came out of a cache or went into one included.
        output: Everything that was generated, reasoning included.
        cache_read: The part of `input` that the provider had cached.
        cache_write: The part of `input` that the provider put into its cache.
        reasoning: The part of `output` that was thought and not said.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
        )


class Reply(str):
    """A completion's text that knows how it came about. Plain text counts as complete.

    Attributes:
        cut: The model ran into its length limit: this is half an answer, or none.
        finish_reason: The provider's word for why the model stopped, or "".
        tokens: What the call took; None when that is not known.
        seconds: From the request to the end of the reply, waiting for a turn excluded.
    """

    __slots__ = ("cut", "finish_reason", "seconds", "tokens")

    cut: bool
    finish_reason: str
    tokens: Tokens | None
    seconds: float

    def __new__(
        cls,
        text: str,
        *,
        cut: bool = False,
        finish_reason: str = "",
        tokens: Tokens | None = None,
        seconds: float = 0.0,
    ) -> Self:
        """`text`, and what is known about it."""
        reply = super().__new__(cls, text)
        reply.cut = cut
        reply.finish_reason = finish_reason
        reply.tokens = tokens
        reply.seconds = seconds
        return reply

    def stripped(self) -> "Reply":
        """The same without white space around the text."""
        return Reply(
            self.strip(),
            cut=self.cut,
            finish_reason=self.finish_reason,
            tokens=self.tokens,
            seconds=self.seconds,
        )


def is_cut(output: object) -> bool:
    """True of a reply that ran into its length limit: no answer, whatever its text says."""
    return isinstance(output, Reply) and output.cut
