"""Outputs that say that a candidate did not get through its gate, and rewards that heed them."""

from typing import Any

from agentdescent.core.protocols import Reward
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.policy.rewards_combine import gated

TEST_FAILURE_MARKER = "AGENTDESCENT_GATE_FAILED"
"""With this begins the output of a candidate that failed setup, tests or its entry point."""

_SHOWN = 2000
"""Characters of a failed command's words that an output repeats."""

_CUT = "\n[...]\n"


def failure(label: str, said: str) -> str:
    """The output of a candidate that failed at `label`, with the head and the end of its words."""
    half = (_SHOWN - len(_CUT)) // 2
    text = said.strip()
    if len(text) > _SHOWN:
        text = text[:half] + _CUT + text[-half:]
    return f"{TEST_FAILURE_MARKER} ({label}):\n{text}"


def scores_zero(output: object) -> bool:
    """True of an output that tells of a failed gate, and of one that only pretends to."""
    return isinstance(output, str) and TEST_FAILURE_MARKER in output


def zero_if_failed(reward: Reward) -> Reward:
    """`reward`, and 0.0 for outputs that tell of a failed gate; what they tell is the feedback.

    It is asynchronous if `reward` is, and checks what that checks.
    """
    return gated(_Gate(), reward)


class _Gate:
    """1.0 for what got through the gate."""

    name = "gate"
    is_pure = True
    identity = "agentdescent.runners.gate/1"

    def __call__(self, task: Task, output: Any, /) -> Scored:
        del task
        return Scored(0.0, output) if scores_zero(output) else Scored(1.0)
