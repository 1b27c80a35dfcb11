"""Repair a program in two of its files at once, judged by its tests and by examples of its use.

The program, `till/main.py`, adds up bills. It loses a cent here and a zero there, which its tests
do not notice. What looks at its failures is a function below: it tries small changes of single
lines, and proposes one with which the program gets this one bill right. Some of them are wrong, and
some bills need two. Everything runs here.

Usage: python examples/till.py
"""

import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from agentdescent import Evolved, Task, evolve_agent_code
from agentdescent.runners import code_runner
from agentdescent.trees import Edit, canonical, parse_tree, render_edits

HERE = Path(__file__).parent / "till"
ENTRYPOINT = [sys.executable, "-S", "main.py"]
TESTS = [sys.executable, "-S", "-m", "unittest", "-q"]
CHANGES = [
    ("int(float", "1 + int(float"),
    ("int(float", "round(float"),
    ("cents // 100", "cents // 10"),
    ("{cents % 100}", "0{cents % 100}"),
    ("{cents % 100}", "{cents % 100:02}"),
]
PRICES = ["1.15", "2.05", "3.29", "4.35", "8.01", "12.50", "16.04", "19.99"]
run_once = code_runner(ENTRYPOINT)


def load(count: int = 60) -> list[Task]:
    """Bills of one or two items, with what they come to."""
    draw = random.Random(2)
    bills = [[_item(draw) for _ in range(draw.randint(1, 2))] for _ in range(count)]
    return [
        Task(
            str(number), _text(bill), {"gold": f"{sum(times * price for times, price in bill):.2f}"}
        )
        for number, bill in enumerate(bills)
    ]


def _item(draw: random.Random) -> tuple[int, Decimal]:
    return draw.randint(1, 3), Decimal(draw.choice(PRICES))


def _text(bill: list[tuple[int, Decimal]]) -> str:
    return ", ".join(f"{times} x {price}" for times, price in bill)


def changed(files: dict[str, str], task: Task) -> Iterator[tuple[Edit, dict[str, str]]]:
    """Every small change that can be made, and the files after it; each task has its own order."""
    for old, new in random.Random(task.id).sample(CHANGES, len(CHANGES)):
        for path, text in files.items():
            if path.count("/") == 0 and text.count(old) == 1 and new not in text:
                yield Edit(path, search=old, replace=new), {**files, path: text.replace(old, new)}


async def reflect(rendered: str, task: Task, output: str, reward: float) -> str | None:
    """Propose a change with which the program gets this bill right; it may well be a wrong one."""
    for edit, files in changed(parse_tree(rendered), task):
        if await run_once(canonical(files), task) == task.meta["gold"]:
            return render_edits([edit])
    return None


def learn(program: Path, **options) -> Evolved:
    """Evolve the directory `program`, and write it back if the test part is not worse for it."""
    given = {
        "propose": reflect,
        "write_back": True,
        "target_reward": 1.0,
        "rounds": 12,
        "patience": 6,
        **options,
    }
    return evolve_agent_code(
        program, load(), entrypoint=ENTRYPOINT, test_cmd=TESTS, score="exact", **given
    )


def report(result: Evolved) -> None:
    """Print what the run came to."""
    print(f"held-out reward {result.initial_reward:.3f} -> {result.final_reward:.3f}")
    print(result.test)
    print(f"merges and dropped proposals: {result.outcomes()}")
    for commit in reversed(result.ledger_log):
        if " merge " in commit:
            print(commit.partition(" merge ")[2])
    print(f"written back: {', '.join(result.written['written'])}\n")
    print(re.sub(r"\n+$", "", result.written["diff"]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="till-") as folder:
        report(learn(Path(shutil.copytree(HERE, Path(folder) / "till"))))
