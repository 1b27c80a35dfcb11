"""What models were asked for and gave."""

from dataclasses import dataclass


@dataclass(slots=True)
class Usage:
    """A running account of model calls.

    It may be shared with model adapters, which then add what they know. It is not locked: whoever
    records from several threads brings a lock.

    Attributes:
        calls: Calls seen nearest to the model.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        seconds: Time in calls, summed.
        failures: Calls that raised.
        provider_calls: Requests to providers, or None when they cannot be known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    failures: int = 0
    provider_calls: int | None = None

    @property
    def total_tokens(self) -> int:
        """Tokens sent and received."""
        return self.prompt_tokens + self.completion_tokens

    def record(
        self,
        *,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        seconds: float = 0.0,
        failed: bool = False,
    ) -> None:
        """Add one call."""
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        self.seconds += seconds
        self.failures += failed

    def estimated_cost(self, per_1m_prompt: float, per_1m_completion: float) -> float:
        """The price of all tokens, in the currency of the two prices per million."""
        sent = self.prompt_tokens * per_1m_prompt
        return (sent + self.completion_tokens * per_1m_completion) / 1e6

    def summary(self) -> str:
        """One line for people."""
        line = (
            f"{self.calls:,} calls, {self.prompt_tokens:,} prompt + "
            f"{self.completion_tokens:,} completion tokens, {self.seconds:.1f}s in the model"
        )
        return f"{line}, {self.failures:,} failed" if self.failures else line
