"""The measurements run: a smoke test of those that take least time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


@pytest.mark.alone
@pytest.mark.parametrize("name", ["honest_gate", "quality", "sampling"])
def test_a_quick_run_prints_a_table_and_writes_its_rows(name, tmp_path):
    path = tmp_path / "rows.json"

    done = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", "--quick", "--json", path],
        capture_output=True,
        check=True,
        text=True,
        env=ENVIRONMENT,
    )

    record = json.loads(path.read_text(encoding="utf-8"))
    assert (record["benchmark"], record["quick"]) == (name, True)
    columns = {column for row in record["rows"] for column in row}
    assert "reached" in columns
    assert all(column in done.stdout for column in columns)
