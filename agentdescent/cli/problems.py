"""The offline world: money problems, a program that solves them, and one that guesses a reason.

The scorer of each `Convention` wants amounts written in a way that the problems do not mention and
the starting prompt does not either. It can be learnt only through the artifact, from the expected
answers of training tasks.
"""

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from agentdescent.core.task import Task

PROMPT = "Solve the problem. Reply with the answer alone."
CATEGORIES = ("unit", "rounding")

UNITS = {
    "whole cents": Decimal("0.01"),
    "whole mills": Decimal("0.001"),
    "whole dimes": Decimal("0.1"),
    "dollars with a decimal comma": Decimal("0.01"),
}
"""How an amount can be written: the words of a rule, and the dollars in its last digit."""

WAYS = {
    "to the nearest one": (ROUND_HALF_UP, 1),
    "up": (ROUND_CEILING, 1),
    "down": (ROUND_FLOOR, 1),
    "to the nearest five": (ROUND_HALF_UP, 5),
    "up to the next five": (ROUND_CEILING, 5),
}
"""How the last digit can be rounded: the words of a rule, the mode, and the step."""

_TILL = "to the nearest one"
_UNIT_RULE = re.compile(r"Give amounts in ([a-z ]+), the number alone\.")
_ROUNDING_RULE = re.compile(r"Round the last digit ([a-z ]+)\.")

_TEMPLATES = (
    "{count} friends share a bill of ${price} equally. What does each pay?",
    "A pack of {count} {thing} costs ${price}. What does one cost?",
    "A {single} costs ${price} and is {percent}% off. What is the price now?",
    "A {single} costs ${price}. What do {count} cost with a discount of {percent}%?",
    "A meal costs ${price}. What is a tip of {percent}%?",
)
_THINGS = ("pens", "mugs", "lamps", "books", "plates", "clocks", "cables")


@dataclass(frozen=True, slots=True)
class Convention:
    """How a scorer wants amounts: one of `UNITS`, rounded in one of `WAYS`."""

    unit: str
    way: str

    def write(self, dollars: Decimal) -> str:
        """The amount as this convention has it."""
        mode, step = WAYS[self.way]
        size = UNITS[self.unit]
        digits = (dollars / (size * step)).quantize(Decimal(1), mode) * step
        if "comma" in self.unit:
            return f"{digits * size:.2f}".replace(".", ",")
        return str(digits)

    def __str__(self) -> str:
        return f"{self.unit}, the last digit rounded {self.way}"


CONVENTIONS = (
    Convention("whole cents", "up"),
    Convention("whole mills", "to the nearest five"),
    Convention("whole dimes", "down"),
    Convention("dollars with a decimal comma", "up to the next five"),
)


def convention_of(seed: int) -> Convention:
    """The convention that `seed` draws; four seeds in a row draw all four."""
    return CONVENTIONS[seed % len(CONVENTIONS)]


def problems(convention: Convention, seed: int, count: int = 40) -> list[Task]:
    """Problems drawn with `seed`, with their answers under `convention` in ``meta["gold"]``."""
    draw = random.Random(seed)  # noqa: S311 - reproducible problems, not a secret
    return [_problem(convention, draw, number) for number in range(count)]


def _problem(convention: Convention, draw: random.Random, number: int) -> Task:
    thing = draw.choice(_THINGS)
    text = draw.choice(_TEMPLATES).format(
        count=draw.randint(3, 9),
        price=f"{draw.randint(1000, 9999) / 100:.2f}",
        percent=draw.choice((5, 10, 15, 20, 30)),
        thing=thing,
        single=thing.removesuffix("s"),
    )
    return Task(f"{number:02}", text, {"gold": convention.write(work_out(text))})


def work_out(problem: str) -> Decimal:
    """The answer in dollars, exact as far as it goes."""
    price = Decimal(_number(r"\$(\d+\.\d\d)", problem, "0"))
    count = int(_number(r"(?<![$.\d])(\d+)(?![.%\d])", problem, "1"))
    percent = Decimal(_number(r"(\d+)%", problem, "0"))
    if "tip" in problem:
        return price * percent / 100
    if "share" in problem or "pack" in problem:
        return price / count
    return price * count * (100 - percent) / 100


def _number(pattern: str, text: str, otherwise: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else otherwise


def solve(prompt: str, task: Task) -> str:
    """Answer as a price tag would, unless the prompt asks for something else."""
    unit, way = _asked_for(prompt)
    dollars = work_out(task.prompt)
    if unit is None:
        return f"${dollars.quantize(Decimal('0.01'), ROUND_HALF_UP)}"
    return Convention(unit, way).write(dollars)


def _asked_for(prompt: str) -> tuple[str | None, str]:
    """The unit and the way of rounding that the rules in `prompt` name."""
    unit, way = _UNIT_RULE.search(prompt), _ROUNDING_RULE.search(prompt)
    return (
        unit[1] if unit and unit[1] in UNITS else None,
        way[1] if way and way[1] in WAYS else _TILL,
    )


def reward(task: Task, output: Any) -> float:
    """1 for exactly the expected text; "$19.60" is not "1960"."""
    return float(output == task.meta["gold"])


def reflect(prompt: str, task: Task, output: str, reward: float) -> str | None:
    """State a rule that would explain this one answer; it may well be wrong."""
    del output, reward
    unit, way = _asked_for(prompt)
    guesses = _guesses(work_out(task.prompt), task.meta["gold"])
    if unit not in {guess.unit for guess in guesses}:
        guess = _one_of(guesses, task)
        return guess and f"unit: Give amounts in {guess.unit}, the number alone."
    guess = _one_of([guess for guess in guesses if guess.unit == unit and guess.way != way], task)
    return guess and f"rounding: Round the last digit {guess.way}."


def _guesses(dollars: Decimal, gold: str) -> list[Convention]:
    every = (Convention(unit, way) for unit in UNITS for way in WAYS)
    return [guess for guess in every if guess.write(dollars) == gold]


def _one_of(guesses: Sequence[Convention], task: Task) -> Convention | None:
    """One of the guesses that fit; which one depends on the task, as if on who looks at it."""
    if not guesses:
        return None
    digest = hashlib.sha256(task.prompt.encode()).digest()
    return guesses[digest[0] % len(guesses)]
