"""Calls of models: what for, and what each took."""

from dataclasses import dataclass
from enum import StrEnum

from agentdescent.core.reply import Tokens


class Role(StrEnum):
    """What a model is asked for."""

    SOLVE = "solve"
    REFLECT = "reflect"
    JUDGE = "judge"
    MERGE = "merge"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a provider, from the turn it waited for to the end of its reply.

    Attributes:
        provider: Whose API it spoke, e.g. "anthropic".
        model: As it was asked for.
        endpoint: The base URL, without credentials.
        role: What for.
        attempt: Which try of one logical call, from 1.
        queued: Seconds it waited for its turn at the endpoint.
        seconds: From the request to the end of the reply, or to the failure.
        first_token: Seconds to the first piece of text; None when it was not streamed.
        status: The HTTP status, or None if there was no reply.
        finish_reason: The provider's word for why the model stopped, or "".
        tokens: None when the provider did not say.
        usd: None when the price is not known.
        error: "" or what went wrong, without secrets.
        cancelled: Nobody waited for the reply any more, so what it took is not known.
    """

    provider: str
    model: str
    endpoint: str
    role: Role
    attempt: int = 1
    queued: float = 0.0
    seconds: float = 0.0
    first_token: float | None = None
    status: int | None = None
    finish_reason: str = ""
    tokens: Tokens | None = None
    usd: float | None = None
    error: str = ""
    cancelled: bool = False
