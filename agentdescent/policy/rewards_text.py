"""How the scorers read text: what makes two answers the same, and where a word ends."""

import re
import unicodedata

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    }
)
_EMPHASIS = re.compile(r"(?<![\w*`])[*_`]++(?=\S)|(?<=[^\s*_`])[*_`]++(?!\w)")
_QUOTES = " \"'"
_PUNCTUATION = ".!?,;:\u3002"
_BRACKETS = ("()", "[]", "{}", "<>")
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = rf"[^\W{_UNSPACED}]"
_ARTICLES = frozenset({"a", "an", "the"})


def normalised(text: str) -> str:
    """`text` without what does not change an answer.

    That is: the case, the form of its characters (NFKC, straight quotes, plain hyphens), Markdown
    emphasis, runs of white space, quotes and brackets around the whole, and punctuation at its end.
    """
    text = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY)).casefold()
    return _bared(" ".join(without_emphasis(text).split()))


def without_emphasis(text: str) -> str:
    """`text` without the asterisks, underscores and backticks of Markdown at its words' edges."""
    return _EMPHASIS.sub("", text)


def holds(text: str, part: str, *, whole_words: bool) -> bool:
    """True when `part`, which is not empty, occurs in `text`.

    With `whole_words` it must not be a piece of a word or a number. Scripts without spaces between
    words have no such boundaries.
    """
    if not whole_words:
        return part in text
    before, after = "", ""
    if re.match(_WORD, part[0]):
        before = rf"(?<!{_WORD})" + (r"(?<!\d[.,])" if part[0].isdigit() else "")
    if re.match(_WORD, part[-1]):
        after = rf"(?!{_WORD})" + (r"(?![.,]\d)" if part[-1].isdigit() else "")
    return re.search(before + re.escape(part) + after, text) is not None


def words(text: str) -> list[str]:
    """The words of the normalised `text` without English articles, unless it has no others.

    In scripts without spaces every character counts as a word.
    """
    listed = re.findall(rf"[{_UNSPACED}]|{_WORD}+", normalised(text))
    return [word for word in listed if word not in _ARTICLES] or listed


def _bared(text: str) -> str:
    bare = text.lstrip(_QUOTES).rstrip(_QUOTES + _PUNCTUATION)
    inner = bare[1:-1]
    for opening, closing in _BRACKETS:
        if bare == opening + inner + closing and opening not in inner:
            return _bared(inner)
    return bare
