"""Names for behaviour: equal names mean that a remembered measurement still holds."""

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs or scores.

    Attributes:
        name: Equal names mean equal behaviour, as far as can be known.
        explicit: The callable said so itself, through an attribute `identity`.
    """

    name: str
    explicit: bool

    def __str__(self) -> str:
        return self.name


def identity_of(function: Callable[..., Any]) -> Identity:
    """Name a callable: by its own `identity`, else by where it is defined and its source.

    A method of an object that has an `identity` goes by that. Any other object is named by its
    class, a partial by its function and arguments. Without source (built
    in, or typed at a prompt) only module and name are left. What is made of other callables may
    give an `Identity` as its `identity`, which says whether all of them vouch for themselves.
    """
    own = getattr(function, "identity", None)
    if own is not None:
        return own if isinstance(own, Identity) else Identity(str(own), explicit=True)
    owner: Any = getattr(function, "__self__", None)
    if inspect.ismethod(function) and getattr(owner, "identity", None) is not None:
        whose = identity_of(owner)
        return Identity(f"{function.__name__} of {whose.name}", whose.explicit)
    if isinstance(function, partial):
        inner = identity_of(function.func)
        bound, _ = canonical_json({"args": function.args, **function.keywords})
        return Identity(f"{inner.name} with {bound}", inner.explicit)
    home = function if hasattr(function, "__qualname__") else type(function)
    name = f"{home.__module__}.{home.__qualname__}"
    try:
        source = inspect.getsource(home)
    except (OSError, TypeError):
        return Identity(name, explicit=False)
    return Identity(f"{name} {digest(utf8(source)).hex()}", explicit=False)


def canonical_json(value: object) -> tuple[str, bool]:
    """Write `value` so that equal values give equal text; (text, it holds no object address).

    Mappings and sets are sorted. What JSON cannot write becomes its type and `repr`; a value that
    cannot be written down at all, such as one that contains itself, is named by its address.
    """
    try:
        text = json.dumps(_plain(value), separators=(",", ":"))
    except Exception:  # noqa: BLE001 - a `repr` is anybody's code
        text = object.__repr__(value)
    return text, _ADDRESS.search(text) is None


def _plain(value: object) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {"map": _sorted([_plain(key), _plain(item)] for key, item in pairs)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, AbstractSet):
        return {"set": _sorted(_plain(item) for item in cast("Iterable[Any]", value))}
    return {f"{type(value).__module__}.{type(value).__qualname__}": repr(value)}


def _sorted(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=json.dumps)


def utf8(text: str) -> bytes:
    """`text` as bytes, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def digest(*parts: bytes) -> bytes:
    """SHA-256 over parts whose boundaries count."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part))
        whole.update(part)
    return whole.digest()
