"""Plots of measurements, as SVG: one bar a row, and a mark where it should end."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from _bench import Row, shown

WIDTH, LABEL, RIGHT = 760, 290, 60
LINE, TITLE, MARGIN = 20, 34, 10
MET, MISSED, MARK, INK = "#4c78a8", "#d1495b", "#1b1b1b", "#333333"
_OPENING = f"""\
<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {{height}}'
 font-family='system-ui, sans-serif' font-size='12' fill='{INK}'>
<rect width='100%' height='100%' fill='white'/>"""


@dataclass(frozen=True)
class Plot:
    """What of a benchmark is drawn.

    Args:
        value: The column that gives the lengths; rows without it are left out.
        labels: The columns that name a row.
        mark: The column that says where a mark is put, if there is one.
        log: Lengths are those of logarithms.
    """

    value: str
    labels: Sequence[str]
    mark: str = ""
    log: bool = False

    @property
    def caption(self) -> str:
        """What is drawn."""
        scale = " (logarithmic)" if self.log else ""
        return self.value + scale + (f"; line: {self.mark}" if self.mark else "")

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that have what it draws."""
        wanted = {self.value, *self.labels}
        return [row for row in rows if wanted <= row.keys() and row[self.value] is not None]


def svg(plots: Sequence[Plot], rows: Sequence[Row]) -> str:
    """The plots, one below the other."""
    lines: list[str] = []
    top = 0
    for plot in plots:
        drawn = plot.rows(rows)
        if drawn:
            lines += _panel(plot, drawn, top)
            top += TITLE + LINE * len(drawn) + MARGIN
    return "\n".join([_OPENING.format(height=top), *lines, "</svg>\n"])


def _panel(plot: Plot, rows: Sequence[Row], top: int) -> Iterator[str]:
    values = [row[plot.value] for row in rows]
    marks = [row.get(plot.mark) for row in rows]
    scale = _Scale([figure for figure in [*values, *marks] if figure is not None], log=plot.log)
    yield _text(MARGIN, top + 22, plot.caption, "font-weight='bold'")
    for place, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        y = top + TITLE + LINE * place
        end = LABEL + scale.length(row[plot.value])
        name = ", ".join(shown(row[column]) for column in plot.labels)
        yield _text(LABEL - 8, y + 13, name, "text-anchor='end'")
        yield _box(LABEL, y + 2, end - LABEL, MISSED if row.get("reached") is False else MET)
        if mark is not None:
            x = LABEL + scale.length(mark)
            yield _box(x - 1, y + 2, 2, MARK)
            end = max(end, x)
        yield _text(end + 6, y + 13, shown(row[plot.value]))


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f"<text x='{x}' y='{y}' {style}>{escape(text)}</text>"


def _box(x: int, y: int, width: int, colour: str) -> str:
    return f"<rect x='{x}' y='{y}' width='{width}' height='{LINE - 5}' fill='{colour}'/>"


class _Scale:
    """From figures to lengths."""

    def __init__(self, figures: Sequence[float], *, log: bool) -> None:
        self._log = log
        self._least = min((f for f in figures if f > 0), default=1.0) / 2
        self._most = max([*figures, self._least * 2])

    def length(self, figure: float) -> int:
        room = WIDTH - LABEL - RIGHT
        if self._log:
            share = log10(max(figure, self._least) / self._least) / log10(self._most / self._least)
        else:
            share = max(0.0, figure) / self._most
        return round(room * share)
