"""What went wrong with one request, and whether it may go better the next time."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from agentdescent.errors import (
    BadRequest,
    CutReply,
    EmptyReply,
    NotJson,
    Overloaded,
    ProviderAuthError,
    ProviderError,
    ProviderTimeout,
    ProviderUnreachable,
    RateLimited,
    Redirected,
    ServerError,
    UnknownModel,
    WrongShape,
)
from agentdescent.retry import retry_after_s

THROTTLING = frozenset({429, 503, 529})
"""Statuses that say: not so many at once."""

LUCK = frozenset({408, 409, 425, *THROTTLING})
"""Statuses below 500 that another try may change, and those above are all such."""

QUOTED = 400
"""So many characters of what a server says are shown."""

_KINDS: Mapping[int, type[ProviderError]] = {
    401: ProviderAuthError,
    403: ProviderAuthError,
    404: UnknownModel,
    408: ProviderTimeout,
    409: ServerError,
    425: ServerError,
    429: RateLimited,
    503: Overloaded,
    529: Overloaded,
}

_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}

_NO_MATTER_OF_TIME = re.compile(r"insufficient_quota|billing_hard_limit")

HINTS: Mapping[type[ProviderError], str] = {
    ProviderAuthError: "check {key_env} or api_key=",
    UnknownModel: "check model=, and that {url_env} or base_url= is like {default_url}",
    BadRequest: "keywords of the completion go into the body as they are; is one of them refused?",
    ProviderTimeout: "raise timeout= (now {timeout:g} s) or deadline= (now {deadline:g} s)",
    ProviderUnreachable: "check that {url_env} or base_url= names a running server",
    RateLimited: "ask for less at once (eval_concurrency=), or raise deadline= ({deadline:g} s)",
    Overloaded: "try again later, or raise deadline= (now {deadline:g} s)",
    ServerError: "try again later, or raise retries= (now {retries})",
    NotJson: "check that {url_env} or base_url= is like {default_url}",
    CutReply: "something on the way cuts replies short; raise retries= (now {retries})",
    WrongShape: "check that {url_env} or base_url= speaks this API, like {default_url}",
    Redirected: "set {url_env} or base_url= to where it points",
    EmptyReply: "ask in another way, or raise retries= (now {retries})",
}
"""The knob to turn, by what went wrong."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request brought no reply.

    Attributes:
        kind: The error it becomes if nothing helps.
        problem: What happened, and what the server said; may hold secrets until `cleaned`.
        is_luck: Another try may go better.
        status: The HTTP status, or None.
        retry_after: The seconds that the server asked to wait.
        hint: Instead of the hint for `kind`.
    """

    kind: type[ProviderError]
    problem: str
    is_luck: bool = False
    status: int | None = None
    retry_after: float | None = None
    hint: str = ""

    @property
    def is_throttling(self) -> bool:
        """It is a matter of how much is asked for at once."""
        return self.is_luck and self.status in THROTTLING

    def cleaned(self, redact: Callable[[str], str]) -> "Failure":
        """The same, without secrets and what steers terminals, and no longer than necessary."""
        words = " ".join(redact(self.problem).split())
        problem = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
        if len(problem) > QUOTED:
            problem = f"{problem[:QUOTED]}..."
        return replace(self, problem=problem)


def of_status(status: int, headers: Mapping[str, str], body: str) -> Failure:
    """A reply whose status says that it is no success."""
    if 300 <= status < 400:
        target = re.split(r"[?#]", headers.get("location", "nowhere"))[0]
        return Failure(Redirected, f"status {status} points to {target}", status=status)
    wait = _wait_asked_for(headers)
    asks = "" if wait is None else f" and asks to wait {wait:g} s"
    said = f"status {status}{asks}: {words_of(body)}"
    if status == 429 and _NO_MATTER_OF_TIME.search(body):
        hint = "the quota is used up, which waiting does not change: look at the account"
        return Failure(RateLimited, said, status=status, hint=hint)
    kind = _KINDS.get(status, ServerError if status >= 500 else BadRequest)
    is_luck = status >= 500 or status in LUCK
    return Failure(kind, said, is_luck, status, wait)


def embedded(data: object) -> Failure | None:
    """An error where a reply should be, as proxies and streams send it; else None."""
    error = cast("Mapping[str, Any]", data).get("error") if isinstance(data, dict) else None
    if not error:
        return None
    code = kind = None
    if isinstance(error, dict):
        code = cast("Mapping[str, Any]", error).get("code")
        kind = cast("Mapping[str, Any]", error).get("type")
    is_status = re.fullmatch(r"[45]\d\d", str(code)) is not None
    status = int(str(code)) if is_status else _STATUS_OF_TYPE.get(str(kind))
    text = json.dumps(data)
    if status is None:
        return Failure(WrongShape, f"an error in place of a reply: {words_of(text)}", status=200)
    return of_status(status, {}, text)


def words_of(body: str) -> str:
    """What an error's body says: the message in its JSON, else its beginning."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip() or "(no text)"
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("error", found)
    if isinstance(found, dict):
        found = cast("dict[str, Any]", found).get("message", found)
    return found if isinstance(found, str) else json.dumps(found)


def not_json(content_type: str, body: str) -> Failure:
    """A successful reply that cannot be read as JSON.

    The body must be without secrets already: it is cut, and half a secret would not be found.
    """
    begins = body[:QUOTED].strip()
    if begins.startswith("<"):
        return Failure(NotJson, f"a web page in place of a reply: {begins}", status=200)
    kind = content_type.partition(";")[0].strip()
    if kind and "json" not in kind:
        return Failure(NotJson, f"{kind} in place of JSON: {begins}", status=200)
    problem = f"broken JSON that ends in {body[-60:]!r}" if body else "a reply without a body"
    return Failure(CutReply, problem, is_luck=True, status=200)


def _wait_asked_for(headers: Mapping[str, str]) -> float | None:
    if "retry-after" not in headers:
        return None
    try:
        now: datetime | None = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        now = None
    return retry_after_s(headers["retry-after"], now)
