"""Prices of models: the caller's own, and the list prices that come with `genai-prices`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Protocol
from urllib.parse import urlsplit

from agentdescent.core.reply import Tokens
from agentdescent.errors import UnpricedModelError

MILLION = 1_000_000


class Tariff(Protocol):
    """How much the tokens of one call cost."""

    def cost(self, tokens: Tokens) -> float | None:
        """In USD; None if that cannot be said."""
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in USD per million tokens.

    Attributes:
        input: Prompt tokens.
        output: Generated tokens, reasoning included.
        cache_read: Prompt tokens out of the provider's cache; None if they cost as much as others.
        cache_write: Prompt tokens put into it; None if they cost as much as others.

    Raises:
        ValueError: If one is negative, not finite or no number.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value: object = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            if not (isinstance(value, int | float) and 0 <= value < inf):
                raise ValueError(
                    f"{each.name}={value!r} is no price; give USD per million tokens, 0.0 for a "
                    "model that costs nothing"
                )

    def cost(self, tokens: Tokens) -> float:
        """The price of one call, in USD."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        plain = max(0, tokens.input - tokens.cache_read - tokens.cache_write)
        return (
            plain * self.input
            + tokens.cache_read * read
            + tokens.cache_write * write
            + tokens.output * self.output
        ) / MILLION


class Prices:
    """Finds the price of a model, and remembers it.

    Args:
        own: By model, as completions name them; they win over the list.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})
        self._found: dict[tuple[str, str, str], Tariff | None] = {}

    def find(self, provider: str, model: str, endpoint: str = "") -> Tariff | None:
        """The tariff of `model`; None if it is not known.

        List prices are those of the provider that `endpoint` belongs to, if it is a known one; else
        those of `provider`, unless the endpoint is in the local network. They are part of the
        installed `genai-prices`: nothing is looked up in the network.
        """
        key = (provider, model, endpoint)
        if key not in self._found:
            self._found[key] = self._own.get(model) or _listed(*key)
        return self._found[key]


def refuse_unpriced(prices: Prices, actors: Iterable[object]) -> None:
    """Refuse models whose price is not known, as far as actors say which ones they ask.

    Those that do have `model` and `provider`, and perhaps `endpoint`, all of them text.

    Raises:
        UnpricedModelError: For the first one without a price.
    """
    for actor in actors:
        for owner in (actor, getattr(actor, "__self__", None)):
            model, provider = getattr(owner, "model", None), getattr(owner, "provider", None)
            if not (isinstance(model, str) and isinstance(provider, str)):
                continue
            if prices.find(provider, model, str(getattr(owner, "endpoint", ""))) is None:
                raise UnpricedModelError(model)


@dataclass(frozen=True, slots=True)
class _Listed:
    model: str
    provider: str | None
    endpoint: str | None

    def cost(self, tokens: Tokens) -> float | None:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - a list of a megabyte

        written = min(tokens.cache_write, tokens.input)
        usage = Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=min(tokens.cache_read, tokens.input - written),
            cache_write_tokens=written,
        )
        try:
            if self.endpoint is not None:
                price = calc_price(usage, self.model, provider_api_url=self.endpoint)
            else:
                price = calc_price(usage, self.model, provider_id=self.provider)
        except (LookupError, ValueError):
            return None
        return float(price.total_price)


def _listed(provider: str, model: str, endpoint: str) -> Tariff | None:
    if _is_local(endpoint):
        return None
    for tariff in (
        _Listed(model, None, endpoint) if endpoint else None,
        _Listed(model, provider, None) if provider else None,
    ):
        if tariff is not None and tariff.cost(Tokens(1, 1)) is not None:
            return tariff
    return None


def _is_local(endpoint: str) -> bool:
    """True of addresses at which nobody sells anything."""
    host = urlsplit(endpoint).hostname
    if host is None:
        return False
    from ipaddress import ip_address  # noqa: PLC0415 - seldom needed

    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
