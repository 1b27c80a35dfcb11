"""The running example: prices are wanted in whole cents, and no prompt says so.

Everything a snippet takes for granted: tasks, a reward, and models that are small programs.
"""

import re

from agentdescent import LLMAgent, Task

RULE = "Express all monetary amounts as integers representing cents."

tasks = [
    Task(id=str(n), prompt=f"What do {n} pens cost?", meta={"gold": str(n * 400)})
    for n in range(1, 21)
]


async def reward(task, output):
    return float(output == task.meta["gold"])


def answer(instructions, question):
    """What a model makes of a question; in dollars, unless it is told otherwise."""
    pens = int(re.search(r"What do (\d+) pens", question)[1])
    return str(pens * 400) if "cents" in instructions else f"${pens * 4}.00"


def reflect(prompt):
    """What a model makes of a failure: it finds the convention only where it is shown the gold."""
    rule = RULE if re.search(r"gold='\d+'", prompt) else "Give the amount alone."
    return f"fmt: {rule}" if "<category>: <rule>" in prompt else rule


def think(prompt):
    """A model: reflects when it is shown a score, and answers otherwise."""
    return reflect(prompt) if "out of 1.0" in prompt else answer(prompt, prompt)


class Model:
    """A completion that remembers its prompts."""

    def __init__(self, think=think):
        self._think = think
        self.prompts = []

    async def __call__(self, prompt):
        self.prompts.append(prompt)
        return self._think(prompt)


def claude(model):
    """Stands in for a provider."""
    assert model.startswith("claude-")
    return Model()


def openai_compatible(model):
    """Stands in for another."""
    assert not model.startswith("claude-")
    return Model()


agent = LLMAgent(Model())


class Plain:
    """An actor without any model: three conventions, each wanted by a third of the tasks.

    A proposal names the convention that its task wants, so that three rules are to be found.
    """

    names = ("cents", "integers", "no signs")

    def __init__(self):
        self.calls = 0

    def wanted(self, task):
        return self.names[int(task.id) % 3]

    async def solve(self, rendered, task):
        self.calls += 1
        return rendered

    async def reward(self, task, output):
        return float(self.wanted(task) in output)

    async def propose(self, rendered, task, output, reward):
        self.calls += 1
        return self.wanted(task)
