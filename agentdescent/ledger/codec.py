"""An artifact's state as files, one a key, and back.

`state/` holds text exactly as it is, `state-json/` every other JSON value, and text that UTF-8
cannot carry. Equal states give equal files.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from agentdescent.core.diff import State
from agentdescent.errors import ContractError
from agentdescent.ledger import keys

Files = Mapping[str, str]
"""Path below the artifact's directory to content."""

_TEXT, _JSON = "state", "state-json"
_JSON_TYPES = "None, a boolean, a finite number, text, or lists and dicts of these with text keys"


def encode(artifact_id: str, state: State) -> dict[str, str]:
    """The files of a state.

    Raises:
        ContractError: If the id or a key is not text or a value is not JSON; it names the key.
    """
    if not _is_utf8(artifact_id):
        raise ContractError(f"artifact id {artifact_id!r} is not text that UTF-8 can carry")
    texts: dict[str, str] = {}
    values: dict[str, str] = {}
    for key, value in state.items():
        _require_text(artifact_id, key)
        if isinstance(value, str) and _is_utf8(value):
            texts[key] = value
        else:
            values[key] = _json_text(artifact_id, key, value)
    return {**_files(_TEXT, texts), **_files(_JSON, values)}


def decode(files: Files) -> dict[str, Any]:
    """The state that `files` hold, its keys sorted.

    Raises:
        ValueError: If they are not what `encode` makes.
    """
    state: dict[str, Any] = {}
    for path, content in files.items():
        folder, _, rest = path.partition("/")
        if rest.startswith(keys.LONG):
            if rest.endswith(keys.KEY):
                continue
            beside = path.removesuffix(keys.VALUE) + keys.KEY
            key = keys.key_of_long(rest, files.get(beside, ""))
        else:
            key = keys.key_of(rest)
        state[key] = content if folder == _TEXT else _value(path, content)
    return {key: state[key] for key in sorted(state)}


def canonical_json(value: object, *, indent: int | None = None) -> str:
    """JSON text that is equal for equal values; readable Unicode wherever UTF-8 can carry it.

    Raises:
        ValueError, TypeError, RecursionError: If `value` is not JSON.
    """
    text = json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)
    if not _is_utf8(text):
        text = json.dumps(value, sort_keys=True, indent=indent)
    return f"{text}\n"


def _files(folder: str, contents: Mapping[str, str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for key, path in keys.paths(contents).items():
        files[f"{folder}/{path}"] = contents[key]
        if path.startswith(keys.LONG):
            files[f"{folder}/{path.removesuffix(keys.VALUE)}{keys.KEY}"] = key
    return files


def _require_text(artifact_id: str, key: object) -> None:
    if not isinstance(key, str):
        raise ContractError(
            f"artifact {artifact_id!r} has the key {key!r}, which is a {type(key).__name__}; "
            "keys of a state must be text"
        )


def _json_text(artifact_id: str, key: str, value: object) -> str:
    try:
        return _exact_json(value)
    except (ValueError, RecursionError) as error:
        raise ContractError(
            f"artifact {artifact_id!r} cannot be committed: the value of key {key!r}, of type "
            f"{type(value).__name__}, is not JSON ({error}); store text or plain JSON"
        ) from None


def _exact_json(value: object) -> str:
    if not _is_json(value):
        raise ValueError(f"it must be {_JSON_TYPES}")
    text = canonical_json(value, indent=2)
    if "\\ud" in text and json.loads(text) != value:
        raise ValueError("it has the two halves of a surrogate pair, which JSON would join")
    return text


def _is_json(value: object) -> bool:
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return math.isfinite(value)
        case list():
            return all(map(_is_json, cast("list[object]", value)))
        case dict():
            items = cast("dict[object, object]", value).items()
            return all(isinstance(key, str) and _is_json(inner) for key, inner in items)
        case _:
            return False


def _value(path: str, content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path!r} is not JSON: {error}") from error


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
