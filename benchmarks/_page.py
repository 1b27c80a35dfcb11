"""Writes docs/benchmarks.md and its plots, from what is in results/ and nothing else."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _bench import RESULTS, Row, blocks, shown
from _plots import Plot, svg

DOCS = Path(__file__).parents[1] / "docs"
PAGE = "benchmarks.md"
PLOTS = "benchmarks"

Record = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """How the results of one benchmark are shown."""

    title: str
    plots: Sequence[Plot] = ()
    notes: str = ""


SECTIONS = {
    "overhead": Section("Overhead", [Plot("ms", ["case"], "bar ms", log=True)]),
    "latency": Section(
        "Hidden latency", [Plot("of ideal", ["workload", "schedule", "workers"], "floor")]
    ),
    "gate": Section("The gate", [Plot("ms", ["gate", "at once"], "bar ms")]),
    "ledger": Section("The ledger", [Plot("to bare", ["durability"], "bar")]),
    "quality": Section(
        "Calls to quality",
        [Plot("to the floor in rounds", ["schedule", "workers"], "bar")],
        "Calls take virtual time, so a seed always gives the same run. With 16 workers the floor "
        "takes one of two counts, a commit apart, about as often: its median needs many seeds.",
    ),
    "overlap": Section(
        "Overlap",
        [
            Plot("to the schedule", ["rounds"], "bar"),
            Plot("slots busy", ["without barriers"], "bar"),
        ],
        "The schedule of a round is the longest chain of calls of one worker and then the two "
        "waves of held-out tasks. Along with the last wave, members of a union are tried once more "
        "on the tasks they come from: `with own tasks` counts these as part of the wave.",
    ),
    "honest_gate": Section(
        "An honest gate",
        [
            Plot("mean", ["candidates", "confirm", "version"], "bar"),
            Plot("power", ["true gain", "version"], "bar"),
        ],
    ),
    "promptness": Section(
        "Promptness",
        notes="A run is left by cancelling its task while all its workers are in a rollout. Of a "
        "wrong key, time counts from the server's first answer; of a missing one, from the start. "
        "The evaluation of the seed is under way when the first answer comes: its requests are "
        "the ones of a wrong key.",
    ),
    "scale": Section(
        "Scale",
        [Plot("time grows", ["run"], "bar"), Plot("memory grows", ["run"], "bar")],
        "`bare` is what pygit2 alone takes to commit the trees of the same tenth: their ids "
        "compress less and less as keys come to differ. `time grows` counts it all the same.",
    ),
    "control": Section(
        "Merging, forks and one worker",
        notes="Forks are read twice: by the one that was selected on the dev tasks, and by the one "
        "that is best on the test tasks, which nobody could choose. A gate scores 72 dev tasks, so "
        "calls are spent on gates above all; whoever shares a gate is ahead, and whoever throws "
        "away what was compared is not. An interval without width is one of equal values.",
    ),
    "sampling": Section(
        "Sampling", [Plot("c=0.4", ["artifact", "workers", "noise", "rollouts"], "round robin")]
    ),
    "planning": Section(
        "Planning for thousands of workers",
        [
            Plot(column, ["latency", "workers", "schedule", "evaluations at once"], log=True)
            for column in ("minutes to 0.95", "calls to 0.95")
        ],
        "Calls take what their law draws, however many are under way. Shares are of the time from "
        "the first rollout to the target. `mean lag` is how many commits were made while a rollout "
        "went on; `event loop busy` is processor time of the engine to simulated time. In the last "
        "table there is nothing to learn, and `loop full at workers` is where rollouts alone would "
        "fill one core.",
    ),
}
"""In the order of the page; others come after them, under their own names and without a plot."""

HEAD = """\
# Benchmarks

!!! note
    This page is generated, and a test compares it with the results in `benchmarks/results/`: no
    figure in it is typed. To measure anew and to write it again:

    ```bash
    nox -s bench_docs -- gate overlap
    ```

    Without names it is written from the results that are there.

A figure is a ratio inside one run, or stands next to the same work done by a bare loop on the same
machine: the contestants take turns, and the median is shown. `reached` says whether a row meets its
bar; in the plots, rows that do not are red.
"""


def results() -> list[Record]:
    """What has been measured, in the order of the page."""
    order = {name: place for place, name in enumerate(SECTIONS)}
    paths = sorted(RESULTS.glob("*.json"), key=lambda p: (order.get(p.stem, len(order)), p.stem))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def pages(records: Sequence[Record]) -> dict[str, str]:
    """The files below docs/ that show `records`: the page and its plots."""
    parts = [HEAD, _markdown(_summary(record) for record in records)]
    parts += ["\n".join(_shown(record)) for record in records]
    files = {PAGE: "\n".join(parts)}
    for record in records:
        plots = _section(record).plots
        if plots:
            files[_plot(record)] = svg(plots, record["rows"])
    return files


def _section(record: Record) -> Section:
    name = record["benchmark"]
    return SECTIONS.get(name) or Section(name.replace("_", " ").capitalize())


def _plot(record: Record) -> str:
    return f"{PLOTS}/{record['benchmark']}.svg"


def _summary(record: Record) -> Row:
    judged = [row["reached"] for row in record["rows"] if "reached" in row]
    title = _section(record).title
    return {
        "benchmark": f"[{title}](#{title.lower().replace(' ', '-')})",
        "bars reached": f"{sum(judged)} of {len(judged)}" if judged else "no bars",
        "measured": record["date"] + (", a quick run" if record["quick"] else ""),
    }


def _shown(record: Record) -> Iterator[str]:
    section = _section(record)
    yield f"## {section.title}\n"
    yield f"{record['claim'][0].upper()}{record['claim'][1:]}.\n"
    if record["quick"]:
        yield "This was a quick run, which shows that the measurement works and proves little.\n"
    if section.notes:
        yield f"{section.notes}\n"
    if section.plots:
        yield f"![{section.title}]({_plot(record)})\n"
    for rows in blocks(record["rows"]).values():
        yield _markdown(rows)
    yield (
        f"`benchmarks/{record['benchmark']}.py`, {record['date']}, Python {record['python']}, "
        f"{record['system']}, {record['cores']} cores.\n"
    )


def _markdown(rows: Iterable[Row]) -> str:
    listed = list(rows)
    columns = list(listed[0]) if listed else []
    lines = [columns, [_rule(listed, column) for column in columns]]
    lines += [[shown(row[column]) for column in columns] for row in listed]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rule(rows: Sequence[Row], column: str) -> str:
    """Figures stand on the right."""
    return "---" if any(isinstance(row[column], str) for row in rows) else "---:"


def write(files: dict[str, str]) -> None:
    """Put the files below docs/, and remove plots that are none of them."""
    (DOCS / PLOTS).mkdir(exist_ok=True)
    for old in (DOCS / PLOTS).glob("*.svg"):
        old.unlink()
    for name, text in files.items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(pages(results()))
