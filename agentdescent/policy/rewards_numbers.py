"""How the scorers read numbers: English notation, with whatever models decorate it with."""

import math
import re
import unicodedata
from dataclasses import dataclass

ROUNDING = 1e-12
"""Relative difference that is not a difference but binary rounding."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00a0\u2007\u2009\u202f", " "),
        **dict.fromkeys("\u2018\u2019", "'"),
        "\u2044": "/",
        "\uff05": "%",
        "\uff0c": ",",
        "\uff0e": ".",
        "\uff1a": ":",
    }
)
_VULGAR = "\u00bc-\u00be\u2150-\u215e"
_SUPERSCRIPT = "\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b"
_GROUPED = re.compile(r"(?=\d)(?<![A-Za-z\d./^])\d{1,3}([,'_ ])\d{3}(?:\1\d{3})*(?!\d)")
_TEX = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\(?:text|math)[a-z]*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}"), r"\1/\2"),
)
_POWERS = (
    (
        re.compile(r"(?<=\d) ?(?:[*xX\u00d7\u00b7]|\\times|\\cdot) ?10 ?\^ ?\{?([-+]?\d+)\}?"),
        r"e\1",
    ),
    (re.compile(r"(?<![\w.,])10\^\{?([-+]?\d+)\}?"), r"1e\1"),
)
_CURRENCY = "[$\u20ac\u00a3\u00a5\u20b9]"
_DECLARED = re.compile(
    rf"""
    (?= [\\\#a] )
    (?: \\boxed [ ]? \{{ (?P<boxed> [^{{}}]* )
    | (?: \#{{4}} [\s*_]* (?! \d+[.):][ ]+\w ) (?= [-+]? {_CURRENCY}? [-+]? \.?\d )
        | \banswer (?:\s+is)? [\s*_]* : [\s*_]* )
      (?P<line> [^\n]* )
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER = re.compile(
    rf"""
    (?= [-+$\u20ac\u00a3\u00a5\u20b9.\d] )
    (?P<sign> (?<![A-Za-z\d)\]}}%-]) [-+] (?= {_CURRENCY}? \.?\d) )?
    {_CURRENCY}?
    (?<! [A-Za-z\d^] ) (?<! \w_ ) (?<! \d\. )
    (?:
        (?<!/)
        (?: (?P<whole> \d+) [ ] )? (?P<over> \d+) [ ]?/[ ]? (?P<under> 0*[1-9]\d*)
        (?! \d | [.,]\d | [ ]?/[ ]?\d )
      |
        (?P<decimal> (?: \d+ (?: \.\d+ )? | (?<![\w.]) \.\d+ ) (?: [eE][-+]?\d+ (?![A-Za-z\d]) )? )
    )
    (?P<percent> [ ]? (?: % | per[ ]?cent\b ) )?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written: "10%" is 10 with `percent`."""

    value: float
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.value:.12g}{'%' if self.percent else ''}"

    def close_to(self, gold: "Number", tolerance: float, abs_tol: float) -> bool:
        """True within ``max(abs_tol, tolerance * abs(gold))``.

        If only one of the two is a percentage, it may also be meant as a ratio: "72%" is close to
        72 and to 0.72.
        """
        return any(
            abs(found - wanted) <= max(abs_tol, (tolerance + ROUNDING) * abs(wanted))
            for found, wanted in self._pairs(gold)
        )

    def error(self, gold: "Number") -> float:
        """The difference as a share of `gold`; as in `close_to` the lesser of two readings."""
        return min(_share(abs(found - wanted), abs(wanted)) for found, wanted in self._pairs(gold))

    def _pairs(self, gold: "Number") -> list[tuple[float, float]]:
        pairs = [(self.value, gold.value)]
        if self.percent != gold.percent:
            pairs.append((self.ratio, gold.ratio))
        return pairs

    @property
    def ratio(self) -> float:
        """The value as a ratio: 0.1 for "10%"."""
        return self.value / 100 if self.percent else self.value


def read_number(text: str) -> Number | None:
    r"""The number that `text` gives as its answer; None if it holds none.

    That is the last number of what it declares as its answer (``\boxed{...}``, or the line after
    ``####`` or ``Answer:``; of several declarations the last with a number), else the last number
    of the whole text. A heading that starts with ``####`` declares nothing.

    Understood are thousands in groups (``1,000 1'000 1_000 1 000``), a leading dot, ``1e3`` and
    ``1.5 x 10^3``, percentages, fractions of integers (``1/2``, ``1 1/2``), currency signs, and
    what TeX makes of them. A hyphen after a digit, a letter or a bracket is no minus, so dates and
    ranges hold no negative numbers. Digits that are part of a name (``H2O``, ``x2``) are none.
    """
    plain = _plain(text)
    for declared in reversed(list(_DECLARED.finditer(plain))):
        if number := _last_number(declared["boxed"] or declared["line"] or ""):
            return number
    return _last_number(plain)


def _share(difference: float, whole: float) -> float:
    if not difference:
        return 0.0
    return difference / whole if whole else math.inf


def _plain(text: str) -> str:
    if not text.isascii():
        text = re.sub(f"[{_SUPERSCRIPT}]+", lambda power: f"^{_compatible(power[0])}", text)
        text = re.sub(rf"(?<=\d)(?=[{_VULGAR}])", " ", text)
        text = re.sub(f"[{_VULGAR}]", lambda fraction: _compatible(fraction[0]), text)
        text = text.translate(_PLAIN)
    rewritings = (_TEX if "\\" in text or "{" in text else ()) + (_POWERS if "^" in text else ())
    for pattern, replacement in rewritings:
        text = pattern.sub(replacement, text)
    return _GROUPED.sub(lambda group: group[0].replace(group[1], ""), text)


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _last_number(text: str) -> Number | None:
    numbers = (_number(match) for match in _NUMBER.finditer(text))
    finite = [number for number in numbers if math.isfinite(number.value)]
    return finite[-1] if finite else None


def _number(match: re.Match[str]) -> Number:
    if match["over"]:
        value = float(match["over"]) / float(match["under"])
        if match["whole"] and value < 1:
            value += float(match["whole"])
    else:
        value = float(match["decimal"])
    return Number(-value if match["sign"] == "-" else value, percent=bool(match["percent"]))
