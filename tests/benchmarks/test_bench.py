"""What the benchmarks share: records, tables, turns."""

import json
import math
import sys

import pytest


@pytest.fixture(scope="module")
def bench(benchmark_module):
    return benchmark_module("_bench")


def measure(quick):
    yield {"case": "a", "ms": 12.345, "bar": math.inf, "reached": True}
    yield {"case": "b", "ms": 2345.6, "bar": 1.0, "reached": False}
    yield {"other": 10_000}


def test_a_run_is_recorded_with_its_circumstances(bench, tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["speed.py", "--json", str(path)])

    bench.run_benchmark(measure, "it is fast")

    record = json.loads(path.read_text(encoding="utf-8"))
    assert (record["benchmark"], record["claim"], record["quick"]) == ("speed", "it is fast", False)
    assert record["cores"] >= 1
    assert record["python"].startswith("3.")
    assert record["rows"] == [
        {**row, "bar": None} if row.get("bar") == math.inf else row for row in measure(quick=False)
    ]
    assert capsys.readouterr().out.endswith(bench.table(list(measure(quick=False))) + "\n")


@pytest.mark.parametrize(("option", "folder"), [([], ""), (["--quick"], "quick")])
def test_quick_runs_do_not_replace_results(bench, option, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["speed.py", *option])

    bench.run_benchmark(measure, "it is fast")

    assert [p.relative_to(tmp_path / folder).name for p in tmp_path.rglob("*.json")] == [
        "speed.json"
    ]


def test_rows_with_the_same_columns_make_one_table(bench):
    assert bench.table(list(measure(quick=False))) == (
        "case     ms  bar  reached\n"
        "----  -----  ---  -------\n"
        "   a   12.3  inf      yes\n"
        "   b  2,346    1       NO\n"
        "\n"
        " other\n"
        "------\n"
        "10,000"
    )


def test_contestants_take_turns_after_a_warm_up(bench):
    told = []
    contestants = {name: lambda name=name: told.append(name) or len(told) for name in "ab"}

    assert bench.take_turns(contestants, 2) == {"a": [3, 5], "b": [4, 6]}
    assert told == ["a", "b"] * 3


def test_ratios_are_taken_turn_by_turn(bench):
    assert bench.ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == 3.0
    assert bench.spread([1.0, 2.0, 4.0]) == 0.75
