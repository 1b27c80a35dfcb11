"""What all benchmarks share: the command line, alternating runs, tables and JSON.

A figure is a ratio inside one run: the contestants take turns, so that whatever else the machine
does hits them alike, and the median of the ratios of the turns is reported.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results"


def run_benchmark(measure: Callable[[bool], Iterable[Row]], claim: str) -> None:
    """Measure, print the rows as they come, and write them as JSON.

    Args:
        measure: Yields rows; told whether to be quick.
        claim: What the figures are to show.
    """
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(prog=name, description=claim)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test: small, and proves little"
    )
    parser.add_argument(
        "--json", type=Path, default=RESULTS / f"{name}.json", help="where to write"
    )
    options = parser.parse_args()
    print(f"{name}: {claim}")
    rows: list[Row] = []
    for row in measure(options.quick):
        rows.append(row)
        print("  " + ", ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)
    print()
    print(table(rows))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": name, "quick": options.quick, "python": platform.python_version()}
    options.json.write_text(json.dumps(record | {"rows": rows}, indent=1), encoding="utf-8")


def table(rows: Sequence[Row]) -> str:
    """The rows as text, one table for each set of columns."""
    blocks: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        blocks.setdefault(tuple(row), []).append(row)
    return "\n\n".join(_block(columns, block) for columns, block in blocks.items())


def take_turns(
    contestants: Mapping[str, Callable[[], float]], turns: int
) -> dict[str, list[float]]:
    """Let each contestant measure itself once as a warm-up and then `turns` times, in turn."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, measure in contestants.items():
            figure = measure()
            if turn:
                figures[name].append(figure)
    return figures


def median(figures: Sequence[float]) -> float:
    """The median."""
    return statistics.median(figures)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios, turn by turn."""
    return median([a / b for a, b in zip(ours, theirs, strict=True)])


def spread(figures: Sequence[float]) -> float:
    """Half the range, relative to the median."""
    return (max(figures) - min(figures)) / 2 / median(figures)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time that `work` takes, all threads together."""
    began = time.process_time()
    work()
    return time.process_time() - began


def wall_seconds(work: Callable[[], object]) -> float:
    """The time `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _block(columns: Sequence[str], rows: Sequence[Row]) -> str:
    cells = [list(columns), *([_shown(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = [
        "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
