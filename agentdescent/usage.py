"""What the models cost."""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Self

from agentdescent.core.model_calls import ModelCall, Role
from agentdescent.core.reply import Tokens
from agentdescent.core.samples import Samples
from agentdescent.core.spend import Exhausted
from agentdescent.threads import Lock

_recording = Lock()  # completions in threads write to the same account as those on the loop


@dataclass(slots=True)
class Usage:
    """Calls, tokens, seconds and dollars spent on models. May be shared between threads.

    Equal accounts have equal sums; percentiles and roles are not compared.

    Attributes:
        calls: Every attempt, failed ones included.
        prompt_tokens: As far as the models report them, cached ones included.
        completion_tokens: As far as the models report them, reasoning included.
        seconds: Summed over the calls, so that it may exceed the wall clock.
        failures: How many of the calls failed.
        provider_calls: Requests made to a provider; None when they cannot be known, because none
            of this package's completions was asked.
        retries: How many of the provider calls were not the first try.
        cache_read_tokens: The part of `prompt_tokens` that the provider had cached.
        cache_write_tokens: The part of `prompt_tokens` that the provider put into its cache.
        reasoning_tokens: The part of `completion_tokens` that was thought and not said.
        usd: The price of the calls whose price is known; None if there is no such call.
        unpriced_calls: Provider calls that `usd` leaves out because their price is not known.
        latency: Seconds from a request to the end of its reply, of calls that came to a good end.
        queued: Seconds such calls waited for their turn before, as far as providers say.
        first_token: Seconds from a request to the first piece of text, where it was streamed.
        call_tokens: Input and output tokens of a call, as far as they are known.
        roles: The same account for each role that models were asked in, where that is known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    failures: int = 0
    provider_calls: int | None = None
    retries: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    usd: float | None = None
    unpriced_calls: int = 0
    latency: Samples = field(default_factory=Samples, compare=False, repr=False)
    queued: Samples = field(default_factory=Samples, compare=False, repr=False)
    first_token: Samples = field(default_factory=Samples, compare=False, repr=False)
    call_tokens: Samples = field(default_factory=Samples, compare=False, repr=False)
    roles: dict[Role, "Usage"] = field(
        default_factory=dict[Role, "Usage"], compare=False, repr=False
    )

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens(self) -> Tokens:
        """All tokens, by bucket."""
        return Tokens(
            self.prompt_tokens,
            self.completion_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        )

    @property
    def cache_hit_ratio(self) -> float | None:
        """The share of the prompt tokens that the provider had cached; None without any."""
        return self.cache_read_tokens / self.prompt_tokens if self.prompt_tokens else None

    def record(
        self,
        *,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        seconds: float = 0.0,
        failed: bool = False,
        role: Role | None = None,
    ) -> None:
        """Add one call. Safe from any thread.

        The `Counted` blocks of this account around it count no call of their own.
        """
        has_tokens = bool(prompt_tokens or completion_tokens)
        tokens = Tokens(prompt_tokens, completion_tokens) if has_tokens else None
        with _recording:
            for account in self._accounts(role):
                _add(account, tokens, seconds, failed=failed)
                if seconds and not failed:
                    account.latency.add(seconds)
        _counted_within(self)

    def note(self, call: ModelCall) -> None:
        """Add one request to a provider; otherwise as `record`."""
        with _recording:
            for account in self._accounts(call.role):
                _add_request(account, call)
        _counted_within(self)

    def absorb(self, earlier: "Usage") -> None:
        """Add the sums of another account; percentiles stay those of the calls seen here."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(earlier, name))
        for name in ("provider_calls", "usd"):
            known = [value for value in (getattr(self, name), getattr(earlier, name)) if value]
            setattr(self, name, sum(known) if known else getattr(self, name))
        for role, account in earlier.roles.items():
            self.roles.setdefault(role, Usage()).absorb(account)

    def estimated_cost(self, per_1m_prompt: float, per_1m_completion: float) -> float:
        """The price of the tokens, given the price of a million of each kind."""
        return (
            self.prompt_tokens * per_1m_prompt + self.completion_tokens * per_1m_completion
        ) / 1e6

    def summary(self) -> str:
        """One line for people."""
        tokens = f"{self.prompt_tokens:,} prompt + {self.completion_tokens:,} completion tokens"
        if not (self.total_tokens or self.call_tokens.count):
            tokens = "tokens unknown"
        line = f"{self.calls:,} calls, {tokens}, {self.seconds:.1f}s in the model"
        return f"{line}, {self.failures:,} failed" if self.failures else line

    def table(self) -> str:
        """One line a role, and one for all calls: counts, tokens, dollars and percentiles.

        What is not known is shown as "unknown". Empty if no call has a role.
        """
        if not self.roles:
            return ""
        rows = [_HEADER, *(_row(role, self.roles[role]) for role in Role if role in self.roles)]
        rows.append(_row("all", self))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in cells)
            for cells in (enumerate(zip(row, widths, strict=True)) for row in rows)
        )

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads; percentiles are kept, by whole percents."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in record.items():
            if isinstance(value, Samples):
                record[name] = value.as_json()
        record["roles"] = {str(role): account.as_json() for role, account in self.roles.items()}
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """What `as_json` has written. What is missing is empty, what is unknown is ignored."""
        known = {f.name: record[f.name] for f in fields(cls) if f.name in record}
        for name in _SAMPLED & known.keys():
            known[name] = Samples.from_json(known[name])
        known["roles"] = {
            Role(role): cls.from_json(account)
            for role, account in record.get("roles", {}).items()
            if role in _ROLES
        }
        return cls(**known)

    def _accounts(self, role: Role | None) -> list["Usage"]:
        if role is None:
            return [self]
        if role not in self.roles:
            self.roles[role] = Usage()
        return [self, self.roles[role]]


_SUMS = (
    "calls",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
    "failures",
    "retries",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "unpriced_calls",
)
_SAMPLED = frozenset({"latency", "queued", "first_token", "call_tokens"})
_ROLES = frozenset(map(str, Role))
_UNKNOWN = "unknown"
_HEADER = ("role", "calls", "failed", "tokens in", "cached", "tokens out", "USD", "p50", "p90")


def _row(name: str, account: Usage) -> tuple[str, ...]:
    are_known = account.call_tokens.count > 0
    tokens = (account.prompt_tokens, account.cache_read_tokens, account.completion_tokens)
    return (
        name,
        f"{account.calls:,}",
        f"{account.failures:,}",
        *(f"{count:,}" if are_known else _UNKNOWN for count in tokens),
        _dollars(account),
        _seconds(account.latency.p50),
        _seconds(account.latency.p90),
    )


def _seconds(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}s"


def _dollars(account: Usage) -> str:
    if account.usd is None:
        return _UNKNOWN
    known = f"{account.usd:.4f}"
    return f"{known} + {account.unpriced_calls:,} unknown" if account.unpriced_calls else known


def _add(account: Usage, tokens: Tokens | None, seconds: float, *, failed: bool) -> None:
    account.calls += 1
    account.seconds += seconds
    account.failures += failed
    if tokens is not None:
        account.prompt_tokens += tokens.input
        account.completion_tokens += tokens.output
        account.cache_read_tokens += tokens.cache_read
        account.cache_write_tokens += tokens.cache_write
        account.reasoning_tokens += tokens.reasoning
        account.call_tokens.add(tokens.total)


def _add_request(account: Usage, call: ModelCall) -> None:
    _add(account, call.tokens, call.seconds, failed=bool(call.error))
    account.provider_calls = (account.provider_calls or 0) + 1
    account.retries += call.attempt > 1
    if call.usd is not None:
        account.usd = (account.usd or 0.0) + call.usd
    elif call.tokens is not None or not call.error:
        account.unpriced_calls += 1
    if not (call.error or call.cancelled):
        account.latency.add(call.seconds)
        account.queued.add(call.queued)
        if call.first_token is not None:
            account.first_token.add(call.first_token)


class Counted:
    """A block that is one call in `usage`, unless a call inside it has been counted there.

    An exception makes it a failed call; a cancelled one is a call like any other. One that a spent
    budget has ended made no call.
    """

    __slots__ = ("_began", "_outer", "_role", "_token", "is_counted", "usage")

    def __init__(self, usage: Usage, role: Role | None = None) -> None:
        self.usage: Usage = usage
        self.is_counted: bool = False
        self._role = role

    def __enter__(self) -> Self:
        self._outer = _innermost.get()
        self._token = _innermost.set(self)
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _innermost.reset(self._token)
        if self.is_counted:
            _counted_within(self.usage)
        if self.is_counted or (kind is not None and issubclass(kind, Exhausted)):
            return
        seconds = time.perf_counter() - self._began
        failed = kind is not None and issubclass(kind, Exception)
        self.usage.record(seconds=seconds, failed=failed, role=self._role)

    @property
    def outer(self) -> "Counted | None":
        """The block around this one."""
        return self._outer


_innermost: ContextVar[Counted | None] = ContextVar("_innermost", default=None)


def _counted_within(usage: Usage) -> None:
    """Tell the blocks around a call that it is in `usage`."""
    block = _innermost.get()
    while block is not None:
        if block.usage is usage:
            block.is_counted = True
        block = block.outer
