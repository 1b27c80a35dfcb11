"""Correct a skill whose rules name the wrong columns of a table; everything runs here.

The agent is a program, `columns/agent.py`: for each question it gets a directory with the table and
the skill, and does what the skill says. What looks at its failures is a function below, which knows
the right answer to one question of the training part, and names a column that would have given it.
Several may, and which one is right shows only on the other questions.

Usage: python examples/columns.py
"""

import csv
import io
import random
import re
import runpy
import shutil
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

from agentdescent import Evolved, Task, evolve_skill_dir
from agentdescent.agents.cli import cli_agent
from agentdescent.trees import Edit, parse_tree, render_edits

HERE = Path(__file__).parent / "columns"
AGENT = runpy.run_path(str(HERE / "agent.py"))
COLUMNS = ["customer", "list_price", "paid", "invoiced", "ordered", "shipped", "delivered"]
CUSTOMERS = ["Ada", "Ben", "Cem", "Dana", "Eli", "Fay", "Gus", "Hana", "Ida", "Jon", "Kim", "Lou"]
CUSTOMERS += ["Mai", "Nils", "Ole", "Pia", "Raj", "Sam"]
QUESTIONS = {
    "How much has this customer spent?": "paid",
    "When did this customer last get something?": "delivered",
    "How many orders has this customer?": "customer",
}


def orders(seed: int = 0) -> list[dict[str, str]]:
    """Some orders have a discount, some an instalment to come, and some arrive the same day."""
    draw = random.Random(seed)
    return [_order(customer, draw) for customer in CUSTOMERS for _ in range(draw.randint(1, 3))]


def _order(customer: str, draw: random.Random) -> dict[str, str]:
    price = draw.randint(500, 9000)
    invoiced = price - draw.choice((0, 150, 200))
    paid = invoiced - draw.choice((0, 0, 100))
    ordered = date(2025, 3, 1) + timedelta(draw.randint(0, 60))
    shipped = ordered + timedelta(draw.randint(1, 3))
    delivered = shipped + timedelta(draw.choice((0, 2, 4)))
    money = [f"{cents / 100:.2f}" for cents in (price, paid, invoiced)]
    days = [str(day) for day in (ordered, shipped, delivered)]
    return dict(zip(COLUMNS, [customer, *money, *days], strict=True))


def load() -> list[Task]:
    """Three questions about each customer, with the table as a file and the answer as `gold`."""
    table = orders()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(table)
    tasks = []
    for customer in CUSTOMERS:
        for question, column in QUESTIONS.items():
            prompt = f"{question} Customer: {customer}"
            gold = AGENT["answer"](prompt, table, column)
            meta = {"gold": gold, "fixtures": {"orders.csv": text.getvalue()}}
            tasks.append(Task(f"{customer}-{column}", prompt, meta))
    return tasks


def reflect(rendered: str, task: Task, output: str, reward: float) -> str | None:
    """Name a column that would have given this one answer; it may well be the wrong one."""
    skill = parse_tree(rendered)["SKILL.md"]
    table = list(csv.DictReader(io.StringIO(task.meta["fixtures"]["orders.csv"])))
    named = AGENT["column_for"](task.prompt, skill)
    for column in COLUMNS[1:]:
        if AGENT["answer"](task.prompt, table, column) == task.meta["gold"]:
            return render_edits([Edit("SKILL.md", search=f"`{named}`", replace=f"`{column}`")])
    return None


def learn(skill: Path, agent: Path = HERE / "agent.py", **options) -> Evolved:
    """Evolve the directory `skill`, and write it back if the test part is not worse for it."""
    given = {
        "propose": reflect,
        "write_back": True,
        "target_reward": 1.0,
        "split": (0.4, 0.3, 0.3),
        **options,
    }
    reader = cli_agent([sys.executable, "-S", agent], via_stdin=True)
    return evolve_skill_dir(skill, load(), agent=reader, score="exact", **given)


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
    with tempfile.TemporaryDirectory(prefix="columns-") as folder:
        report(learn(Path(shutil.copytree(HERE / "skill", Path(folder) / "orders"))))
