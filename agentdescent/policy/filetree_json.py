"""JSON as models write it: line breaks in strings, trailing commas, comments, Python's words."""

import re
from typing import Any

MAX_DEPTH = 16

_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z]+")
_STOP = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


class NotJsonText(ValueError):
    """What stands there is no JSON.

    Attributes:
        at: Where that shows.
        read_to: How far it was read to find that out.
    """

    def __init__(self, problem: str, at: int, read_to: int) -> None:
        super().__init__(problem)
        self.at = at
        self.read_to = read_to


def read_value(text: str, at: int = 0) -> tuple[Any, int]:
    """The value that begins at `at`, and where it ends; what follows is not looked at.

    A string may hold line breaks and escapes that JSON does not know, which stand for themselves. A
    comma may be missing or one too many.

    Raises:
        NotJsonText: If there is no value, it does not end, or it is nested too deep.
    """
    reader = _Reader(text, at)
    return reader.value(0), reader.at


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._error(f"it is nested more than {MAX_DEPTH} levels deep")
        match self._next():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"' | "'" as quote:
                return self._string(quote)
            case _:
                return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while (char := self._next()) != "}":
            if char not in ('"', "'"):
                raise self._error("a name in quotes was expected")
            name = self._string(char)
            if self._next() != ":":
                raise self._error("a colon was expected")
            self.at += 1
            found[name] = self.value(depth + 1)
            self._comma("}")
        self.at += 1
        return found

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while self._next() != "]":
            found.append(self.value(depth + 1))
            self._comma("]")
        self.at += 1
        return found

    def _comma(self, closing: str) -> None:
        """Step over commas; before another value there may be none, where it begins a line."""
        start = self.at
        char = self._next()
        if char == ",":
            while self._next() == ",":
                self.at += 1
        elif char != closing and "\n" not in self._text[start : self.at]:
            raise self._error(f"a comma or {closing!r} was expected")

    def _string(self, quote: str) -> str:
        opened = self.at
        self.at += 1
        parts: list[str] = []
        while (char := self._char()) not in (quote, ""):
            parts.append(self._escape() if char == "\\" else self._plain(quote))
        if not char:
            raise NotJsonText("a string does not end", opened, self.at)
        self.at += 1
        return "".join(parts)

    def _plain(self, quote: str) -> str:
        start = self.at
        end = _STOP[quote].search(self._text, start)
        self.at = end.start() if end else len(self._text)
        return self._text[start : self.at]

    def _escape(self) -> str:
        char = self._text[self.at + 1 : self.at + 2]
        self.at += 2
        if char == "u" and (code := _HEX.match(self._text, self.at)):
            self.at += 4
            return self._joined(int(code[0], 16))
        if char in ('"', "'", "\\", "/"):
            return char
        return _ESCAPES.get(char, f"\\{char}")

    def _joined(self, unit: int) -> str:
        """The character of a code unit, together with its second half if that follows."""
        low = _HEX.match(self._text, self.at + 2)
        if 0xD800 <= unit < 0xDC00 and low and self._text.startswith("\\u", self.at):
            second = int(low[0], 16)
            if 0xDC00 <= second < 0xE000:
                self.at += 6
                return chr(0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00))
        return chr(unit)

    def _scalar(self) -> Any:
        if number := _NUMBER.match(self._text, self.at):
            self.at = number.end()
            digits = number[0][:40]
            return int(digits) if digits.lstrip("-").isdigit() else float(digits)
        word = _WORD.match(self._text, self.at)
        if word is None or word[0] not in _WORDS:
            raise self._error("a value was expected")
        self.at = word.end()
        return _WORDS[word[0]]

    def _next(self) -> str:
        """The next character that is no space and no comment; "" at the end."""
        space = _SPACE.match(self._text, self.at)
        self.at = space.end() if space else self.at
        return self._char()

    def _char(self) -> str:
        return self._text[self.at : self.at + 1]

    def _error(self, problem: str) -> NotJsonText:
        return NotJsonText(problem, self.at, self.at)
