"""What all benchmarks share: the command line, alternating runs, tables and JSON.

A figure is a ratio inside one run: the contestants take turns, so that whatever else the machine
does hits them alike, and the median of the ratios of the turns is reported.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
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
    parser.add_argument("--json", type=Path, help="where to write")
    options = parser.parse_args()
    folder = RESULTS / "quick" if options.quick else RESULTS
    path = options.json or folder / f"{name}.json"
    print(f"{name}: {claim}")
    rows: list[Row] = []
    for row in measure(options.quick):
        rows.append(row)
        print("  " + ", ".join(f"{key} {shown(value)}" for key, value in row.items()), flush=True)
    print()
    print(table(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": name, "claim": claim, "quick": options.quick, **circumstances()}
    text = json.dumps(record | {"rows": [_finite(row) for row in rows]}, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")


def circumstances() -> dict[str, Any]:
    """When and on what something is measured."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
    }


def table(rows: Sequence[Row]) -> str:
    """The rows as text, one table for each set of columns."""
    return "\n\n".join(_block(columns, block) for columns, block in blocks(rows).items())


def blocks(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """The rows of each set of columns, in order."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row), []).append(row)
    return found


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


def rss_mb(*, most: bool = False) -> float:
    """Memory of this process that is resident: now, or the most there ever was of it."""
    return status("VmHWM" if most else "VmRSS") / 1024


def status(field: str) -> float:
    """A figure that the system knows of this process, by its name there."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1])


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
    cells = [list(columns), *([shown(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = [
        "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def shown(value: object) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _finite(row: Row) -> Row:
    """The row as JSON knows it: what has no end is none at all."""
    return {key: None if value == math.inf else value for key, value in row.items()}
