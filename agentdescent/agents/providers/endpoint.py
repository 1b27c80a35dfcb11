"""Where an API is and what opens it, kept out of sight."""

import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, unquote, urlsplit

from agentdescent.errors import BadRequest, ProviderAuthError

SHORTEST_SECRET = 4
"""Shorter keys, such as those of local servers, are no secret, and no word to search for."""

_USER = re.compile(r"^((?:\w+:)?//)?.*@", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API at one moment: its address and credentials, of which `repr` shows nothing.

    Attributes:
        shown: The base URL without credentials.
        url: The same, to send to.
        key: The API key, or "".
        user: The "user:password" of the base URL, or "".
    """

    shown: str
    url: str = field(repr=False)
    key: str = field(repr=False)
    user: str = field(repr=False, default="")

    @property
    def basic(self) -> str:
        """What an Authorization header says for `user`."""
        return f"Basic {b64encode(self.user.encode()).decode()}"

    @property
    def digest(self) -> str:
        """A name for address and credentials together."""
        return hashlib.sha256(repr((self.url, self.key, self.user)).encode()).hexdigest()

    def redact(self, text: str) -> str:
        """`text` with every secret in it blotted out, also where it is quoted or in a URL."""
        secrets = {self.key}
        if self.user:
            password = self.user.partition(":")[2]
            secrets |= {self.user, password, self.basic.removeprefix("Basic ")}
        written = {form for secret in secrets for form in _forms(secret)}
        for secret in sorted(written, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


class Access:
    """How to find an endpoint: explicit values, else the environment as it is at that time.

    Args:
        base_url: Wins over the environment, unless None.
        api_key: Wins over the environment, unless None; "" sends no key.
        url_env: The environment variable with the base URL.
        key_env: The environment variable with the key.
        default_url: When there is neither.
        model: For error messages.
        needs_key: Whether to refuse to go on without a key.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        *,
        url_env: str,
        key_env: str,
        default_url: str,
        model: str,
        needs_key: bool,
    ) -> None:
        self.url_env: str = url_env
        self.key_env: str = key_env
        self.default_url: str = default_url
        self._base_url = base_url
        self._api_key = api_key
        self._model = model
        self._needs_key = needs_key and api_key is None

    def endpoint(self) -> Endpoint:
        """The endpoint as it is now.

        Raises:
            ProviderAuthError: If there is no key, or one that cannot be sent.
            BadRequest: If the base URL is none.
        """
        endpoint = self._found()
        problem, kind, hint = "", ProviderAuthError, ""
        if not endpoint.url:
            problem, kind = "this is no http or https URL without a query", BadRequest
            hint = f"set {self.url_env} or base_url= to something like {self.default_url}"
        elif self._needs_key and not endpoint.key and not endpoint.user:
            problem = f"{self.key_env} is not set, so nothing was sent"
            hint = (
                f"set {self.key_env} or api_key=, and {self.url_env} or base_url= for another "
                'server; api_key="" for one that wants no key'
            )
        elif not (endpoint.key.isascii() and (endpoint.key or "x").isprintable()):
            problem = "the API key has a character that cannot be sent"
            hint = f"check {self.key_env} or api_key="
        if problem:
            raise kind(problem, endpoint=endpoint.shown, model=self._model, attempts=0, hint=hint)
        return endpoint

    def shown(self) -> str:
        """The base URL as it is now, without credentials."""
        return self._found().shown

    def _found(self) -> Endpoint:
        url = self._base_url
        if url is None:
            url = os.environ.get(self.url_env) or self.default_url
        key = self._api_key
        if key is None:
            key = os.environ.get(self.key_env, "")
        return _endpoint(url.strip().rstrip("/"), key.strip())


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield quote(secret, safe="")


def _endpoint(url: str, key: str) -> Endpoint:
    shown = re.split(r"[?#]", _USER.sub(r"\1", url))[0]
    parts = _sound(url)
    if parts is None:
        return Endpoint(shown, "", key)
    user, at, host = parts.netloc.rpartition("@")
    return Endpoint(shown, parts._replace(netloc=host).geturl(), key, unquote(user) if at else "")


def _sound(url: str) -> SplitResult | None:
    """The parts of a base URL; None if it is none."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return None
    is_http = parts.scheme in {"http", "https"} and bool(parts.hostname)
    return parts if is_http and has_port and not (parts.query or parts.fragment) else None
