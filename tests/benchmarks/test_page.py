"""The page of benchmarks is what the committed results say, drawn and tabled."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

RECORD = {
    "benchmark": "gate",
    "claim": "gates are quick",
    "quick": False,
    "date": "2030-01-02",
    "python": "3.11.1",
    "system": "Linux x86_64",
    "cores": 2,
    "rows": [
        {"gate": "accepted", "at once": 200, "ms": 50.0, "bar ms": 60.0, "reached": True},
        {"gate": "no gain", "at once": 200, "ms": 75.0, "bar ms": 30.0, "reached": False},
        {"gate": "unbound", "at once": 1, "ms": 1234.5, "bar ms": None, "reached": True},
    ],
}


@pytest.fixture(scope="module")
def page(benchmark_module):
    return benchmark_module("_page")


@pytest.fixture(scope="module")
def plots(benchmark_module):
    return benchmark_module("_plots")


def drawn(svg):
    """The texts and the rectangles of a plot: (texts, [(x, width, fill)])."""
    space = {"s": "http://www.w3.org/2000/svg"}
    root = ET.fromstring(svg)
    texts = [text.text for text in root.findall("s:text", space)]
    boxes = root.findall("s:rect", space)[1:]
    return texts, [(int(box.get("x")), int(box.get("width")), box.get("fill")) for box in boxes]


def test_committed_page_is_what_the_committed_results_say(page):
    expected = page.pages(page.results())

    there = [DOCS / "benchmarks.md", *(DOCS / "benchmarks").iterdir()]
    committed = {str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in there}
    assert committed == expected


def test_every_section_is_of_a_benchmark(page):
    names = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}

    assert set(page.SECTIONS) <= names


def test_what_has_no_section_comes_last_under_its_name_and_without_a_plot(
    page, tmp_path, monkeypatch
):
    for name in ("gate", "a_new_one", "scale"):
        text = json.dumps(RECORD | {"benchmark": name})
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(page, "RESULTS", tmp_path)

    records = page.results()

    assert [record["benchmark"] for record in records] == ["gate", "scale", "a_new_one"]
    files = page.pages(records)
    assert "## A new one\n" in files["benchmarks.md"]
    assert "benchmarks/a_new_one.svg" not in files


def test_every_plot_draws_something(page, plots):
    for record in page.results():
        for plot in page._section(record).plots:
            assert plot.rows(record["rows"]), (record["benchmark"], plot.value)


def test_page_says_what_was_reached_when_and_on_what(page):
    text = page.pages([RECORD])["benchmarks.md"]

    assert "| [The gate](#the-gate) | 2 of 3 | 2030-01-02 |" in text
    assert "Gates are quick." in text
    assert "| accepted | 200 | 50 | 60 | yes |" in text
    assert "| no gain | 200 | 75 | 30 | NO |" in text
    assert "| unbound | 1 | 1,234 | - | yes |" in text
    assert "2030-01-02, Python 3.11.1, Linux x86_64, 2 cores." in text
    assert "quick run" not in text


def test_quick_runs_are_called_so(page):
    text = page.pages([RECORD | {"quick": True}])["benchmarks.md"]

    assert "| 2030-01-02, a quick run |" in text
    assert "This was a quick run" in text


def test_plot_marks_the_bar_and_colours_what_misses_it(plots):
    svg = plots.svg([plots.Plot("ms", ["gate", "at once"], "bar ms")], RECORD["rows"][:2])

    texts, boxes = drawn(svg)
    room = plots.WIDTH - plots.LABEL - plots.RIGHT
    assert texts == ["ms; line: bar ms", "accepted, 200", "50", "no gain, 200", "75"]
    assert boxes == [
        (plots.LABEL, round(room * 50 / 75), plots.MET),
        (plots.LABEL + round(room * 60 / 75) - 1, 2, plots.MARK),
        (plots.LABEL, room, plots.MISSED),
        (plots.LABEL + round(room * 30 / 75) - 1, 2, plots.MARK),
    ]


def test_plot_of_logarithms_begins_at_half_the_least(plots):
    rows = [{"n": "a", "x": 1.0}, {"n": "b", "x": 8.0}, {"n": "zero", "x": 0.0}]

    _, boxes = drawn(plots.svg([plots.Plot("x", ["n"], log=True)], rows))

    room = plots.WIDTH - plots.LABEL - plots.RIGHT
    assert [width for _, width, _ in boxes] == [round(room / 4), room, 0]


def test_rows_without_the_column_or_its_value_are_not_drawn(plots):
    rows = [{"n": "a", "x": 1.0}, {"n": "b"}, {"n": "c", "x": None}, {"n": "<d>", "x": 2.0}]

    texts, _ = drawn(plots.svg([plots.Plot("x", ["n"]), plots.Plot("y", ["n"])], rows))

    assert texts == ["x", "a", "1", "<d>", "2"]


def test_writing_leaves_no_plot_of_what_is_no_longer_there(page, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "DOCS", tmp_path)
    files = page.pages([RECORD])

    page.write({**files, "benchmarks/gone.svg": "<svg/>"})
    page.write(files)

    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert written == set(files) == {"benchmarks.md", "benchmarks/gate.svg"}
