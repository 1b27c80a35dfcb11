"""Rows from files; an error says in which line."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, cast

_BOM = b"\xef\xbb\xbf"

Row = dict[str, Any]
"""Column names to values."""


def read_jsonl(
    path: str | PathLike[str],
    *,
    id: str | None = "id",  # noqa: A002 - the column's name is the caller's word for it
) -> list[Row]:
    """The objects of a file with one JSON object a line, in UTF-8; blank lines are skipped.

    Args:
        path: The file; a byte order mark at its start is ignored.
        id: The column whose values must differ, in the rows that have it; None for no such column.

    Raises:
        ValueError: If a line is not UTF-8, no JSON or no object, an id occurs twice, or there is
            no row; the message names file and line.
        OSError: If the file cannot be read.
    """
    file = Path(path)
    rows = [
        (number, _object(line, file, number))
        for number, line in enumerate(_content(file).split(b"\n"), start=1)
        if line.strip()
    ]
    return _checked(rows, file, id)


def read_csv(
    path: str | PathLike[str],
    *,
    id: str | None = "id",  # noqa: A002 - the column's name is the caller's word for it
    delimiter: str = ",",
) -> list[Row]:
    """The rows of a table in UTF-8 whose first line names the columns; every value is text.

    Args:
        path: The file; a byte order mark at its start is ignored.
        id: The column whose values must differ, where there is one; None for no such column.
        delimiter: What stands between cells; a tab for TSV.

    Raises:
        ValueError: If a line is not UTF-8, has more or fewer cells than there are columns, or is no
            CSV, a column has no name or that of another, an id occurs twice, or there is no row;
            the message names file and line.
        OSError: If the file cannot be read.
    """
    file = Path(path)
    records = _records(_text(file), file, delimiter)
    nothing: tuple[int, list[str]] = (1, [])
    first, header = next(records, nothing)
    repeated = [name for name, count in Counter(header).items() if count > 1 or not name.strip()]
    if repeated:
        _fail(file, first, f"each column needs a name of its own; these are not: {repeated}")
    rows: list[tuple[int, Row]] = []
    for number, cells in records:
        if len(cells) != len(header):
            _fail(file, number, f"{len(cells)} cells, but the header has {len(header)}: {header}")
        rows.append((number, dict(zip(header, cells, strict=True))))
    return _checked(rows, file, id)


def _content(file: Path) -> bytes:
    return file.read_bytes().removeprefix(_BOM)


def _text(file: Path) -> str:
    content = _content(file)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        _not_utf8(file, number, error, error.start - content.rfind(b"\n", 0, error.start))


def _object(line: bytes, file: Path, number: int) -> Row:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        _not_utf8(file, number, error, error.start + 1)
    except ValueError as error:
        _fail(file, number, f"no JSON: {error}; the line is {line.strip()!r:.80}")
    except RecursionError:
        _fail(file, number, "nested too deeply")
    if not isinstance(value, dict):
        _fail(file, number, f"not an object in braces but {value!r:.80}")
    return cast("Row", value)


def _records(text: str, file: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the number of its first line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            _fail(file, number, f"no CSV: {error}")
        if cells:
            yield number, cells


def _checked(rows: list[tuple[int, Row]], file: Path, key: str | None) -> list[Row]:
    if not rows:
        raise ValueError(f"{file} has no rows")
    seen: dict[str, int] = {}
    for number, row in rows:
        if key is not None and key in row:
            first = seen.setdefault(str(row[key]), number)
            if first != number:
                _fail(
                    file,
                    number,
                    f"the {key} {row[key]!r} is that of line {first} already; if {key!r} need not "
                    "tell rows apart, pass id=None",
                )
    return [row for _, row in rows]


def _not_utf8(file: Path, number: int, error: UnicodeDecodeError, column: int) -> NoReturn:
    byte = error.object[error.start]
    _fail(file, number, f"byte 0x{byte:02x} at position {column} is not UTF-8; convert the file")


def _fail(file: Path, number: int, reason: str) -> NoReturn:
    raise ValueError(f"{file}, line {number}: {reason}") from None
