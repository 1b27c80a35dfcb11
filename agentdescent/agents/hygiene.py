"""What a model's reply says once its packaging is off."""

import re
from collections.abc import Container, Iterator

_THOUGHT = re.compile(r"^[ \t]*<(think|thinking)>", re.MULTILINE)
_TAIL_OF_THOUGHT = re.compile(
    r"\A(?:(?!<think).)*?</(?:think|thinking)>[ \t]*$", re.DOTALL | re.MULTILINE
)
_FENCE = re.compile(r"(`{3,}|~{3,})([^`\n]*)\Z")
_LABEL = r"((?:(?:new|general|proposed|suggested|revised|improved) )?(?:rule|proposal))"
_LABELLED = re.compile(
    rf"(?:(\*\*|__|\*|_){_LABEL}(?:\1[ \t]*:|:[ \t]*\1)|{_LABEL}[ \t]*:)\s*", re.IGNORECASE
)
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
_NONE = re.compile(r"[\W_]*none[\W_]*", re.IGNORECASE)


def visible(reply: str) -> str:
    """The answer in `reply`: without thinking, without a fence around the whole, stripped.

    A think block counts where it begins a line, so that a sentence may speak of such tags. "" when
    nothing is left, or when thinking never came to an end.
    """
    text = _TAIL_OF_THOUGHT.sub("", "".join(_said(reply)))
    if _THOUGHT.search(text):
        return ""
    return _unfenced(text.strip()).strip()


def _said(reply: str) -> Iterator[str]:
    """The parts of `reply` around finished thoughts."""
    at = 0
    while (begin := _THOUGHT.search(reply, at)) is not None:
        mark = f"</{begin[1]}>"
        end = reply.find(mark, begin.end())
        if end < 0:
            break
        yield reply[at : begin.start()]
        at = end + len(mark)
    yield reply[at:]


def bare(reply: str, keys: Container[str] = ()) -> str:
    """As `visible`, without a label such as "Rule:" in front or quotes around the whole.

    A label that is one of `keys`, in lower case, says where the proposal belongs, and stays.
    """
    text = _unquoted(visible(reply))
    found = _LABELLED.match(text)
    if found is None or (found[2] or found[3]).lower() in keys:
        return text
    return _unquoted(_unfenced(text[found.end() :]).strip())


def _unquoted(text: str) -> str:
    """`text` without the quotes around it, if those are all there are of them."""
    closing = _QUOTES.get(text[:1])
    inner = text[1:-1]
    if not inner or closing is None or text[-1] != closing or {text[0], closing} & {*inner}:
        return text
    return inner.strip()


def declines(text: str) -> bool:
    """True if `text` is the word NONE and nothing else but decoration."""
    return _NONE.fullmatch(text) is not None


def _unfenced(text: str) -> str:
    lines = text.split("\n")
    opening = _FENCE.match(lines[0])
    if opening is None or len(lines) < 2:
        return text
    mark = opening[1]
    depth = 1
    for index, line in enumerate(lines[1:], start=1):
        fence = _FENCE.match(line.strip())
        if fence is None or not fence[1].startswith(mark):
            continue
        depth += 1 if fence[2].strip() else -1
        if depth == 0:
            return "\n".join(lines[1:index]) if index == len(lines) - 1 else text
    return text
