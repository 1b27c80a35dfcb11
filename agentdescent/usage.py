"""What the models cost."""

from dataclasses import dataclass

from agentdescent.threads import Lock

_recording = Lock()  # completions in threads write to the same account as those on the loop


@dataclass(slots=True)
class Usage:
    """Calls, tokens and seconds spent on models. May be shared between completions and threads.

    Attributes:
        calls: Every attempt, failed ones included.
        prompt_tokens: As far as the models report them.
        completion_tokens: As far as the models report them.
        seconds: Summed over the calls, so that it may exceed the wall clock.
        failures: How many of the calls failed.
        provider_calls: Requests made to a provider; None when they cannot be known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    failures: int = 0
    provider_calls: int | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def record(
        self,
        *,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        seconds: float = 0.0,
        failed: bool = False,
    ) -> None:
        """Add one call. Safe from any thread."""
        with _recording:
            self.calls += 1
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens
            self.seconds += seconds
            self.failures += failed

    def estimated_cost(self, per_1m_prompt: float, per_1m_completion: float) -> float:
        """The price of the tokens, given the price of a million of each kind."""
        return (
            self.prompt_tokens * per_1m_prompt + self.completion_tokens * per_1m_completion
        ) / 1e6

    def summary(self) -> str:
        """One line for people."""
        line = (
            f"{self.calls:,} calls, {self.prompt_tokens:,} prompt + {self.completion_tokens:,} "
            f"completion tokens, {self.seconds:.1f}s in the model"
        )
        return f"{line}, {self.failures:,} failed" if self.failures else line
