"""Teach a solver of money problems a convention that its prompt does not state.

The scorer wants whole cents, shares rounded up. Everything runs here: the "model" is a small
program that follows the instructions it finds in the prompt, and the reflector is another one,
which compares a wrong answer with the right one and states a rule. Put your own in their place.

Usage: python examples/cents.py [DIRECTORY FOR THE LEDGER]
"""

import json
import re
import sys
import tempfile
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path

from agentdescent import EvolutionResult, KeyedRules, Task, evolve, tasks_from
from agentdescent.events import Event, MergeDecided, RunEnded, RunStarted

TASKS = Path(__file__).parent / "tasks" / "cents.jsonl"
PROMPT = "Solve the problem. Reply with the answer alone."

UNITS = {"dollars": 1, "dimes": 10, "cents": 100, "mills": 1000}
ROUNDING = {"to the nearest one": ROUND_HALF_UP, "up": ROUND_CEILING}


def load(path: Path = TASKS) -> list[Task]:
    """One task a line, with its answer in `meta["gold"]`."""
    return tasks_from(map(json.loads, path.read_text(encoding="utf-8").splitlines()), id="id")


def work_out(problem: str) -> Decimal:
    """The answer in dollars, exact as far as it goes."""
    amounts = [Decimal(text) for text in re.findall(r"\$(\d+(?:\.\d+)?)", problem)]
    times = [int(text) for text in re.findall(r"(?<![$.\d])\d+(?!\.?\d)", problem)]
    if "share" in problem:
        return amounts[0] / times[0]
    if "change" in problem:
        return amounts[1] - amounts[0]
    if "together" in problem:
        return amounts[0] + amounts[1]
    return amounts[0] * times[0]


def solve(prompt: str, task: Task) -> str:
    """Answer as a till would, unless the prompt asks for something else."""
    answer = work_out(task.prompt)
    rounding = next((ROUNDING[way] for way in ROUNDING if f"Round {way}" in prompt), ROUND_DOWN)
    for unit, per_dollar in UNITS.items():
        if f"whole {unit}" in prompt:
            return str((answer * per_dollar).quantize(Decimal(1), rounding))
    return f"${answer.quantize(Decimal('0.01'), rounding)}"


def reward(task: Task, output: str) -> float:
    """1 for exactly the expected text; "$19.60" is not "1960"."""
    return float(output == task.meta["gold"])


def reflect(prompt: str, task: Task, output: str, reward: float) -> str | None:
    """State the simplest rule that would explain this one answer; it may well be wrong."""
    exact, gold = work_out(task.prompt), Decimal(task.meta["gold"])
    for unit, per_dollar in UNITS.items():
        if abs(exact * per_dollar - gold) >= 1:
            continue
        if f"whole {unit}" not in prompt:
            return f"unit: Give amounts in whole {unit}, the number alone."
        for way, rounding in ROUNDING.items():
            if (exact * per_dollar).quantize(Decimal(1), rounding) == gold:
                return f"rounding: Round {way} what cannot be paid exactly."
    return None


def learn(tasks: list[Task], run=solve, propose=reflect, **options) -> EvolutionResult:
    """Evolve the rules that follow `PROMPT`: one for the unit, one for rounding."""
    strategy = KeyedRules(categories=["unit", "rounding"], title=PROMPT)
    defaults = {"n_workers": 4, "rounds": 6, "target_reward": 1.0}
    return evolve(
        tasks, reward, run=run, propose=propose, strategy=strategy, **{**defaults, **options}
    )


def tell(event: Event) -> None:
    """Print what a run tells while it goes on."""
    match event:
        case RunStarted():
            print(f"held-out reward before: {event.initial_reward:.3f}\n")
        case MergeDecided(report=merge):
            print(f"round {event.round}: {merge.category}, {merge.reason}")
            for category, rule in merge.accepted.ops.items() if merge.accepted else ():
                print(f"  {category}: {rule}")
        case RunEnded(result=result):
            print(f"\nheld-out reward after: {result.final_reward:.3f} ({result.stop_reason})")


def report(result: EvolutionResult, ledger: str) -> None:
    """Print what a run came to, and how to look at its history."""
    print(f"merges and dropped proposals: {result.outcomes()}")
    print(f"\nThe prompt is now\n\n{result.rendered}")
    print("\nand this is how it came about:\n")
    print("\n".join(result.ledger_log))
    print(f"\ngit -C {ledger} log -p dev")


if __name__ == "__main__":
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="cents-")
    report(learn(load(), repo_path=directory, on_event=tell), directory)
