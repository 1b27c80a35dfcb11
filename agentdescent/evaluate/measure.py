"""One measurement: an output, scored, and what the score is made of."""

from collections.abc import Mapping
from typing import Any

from agentdescent.core.contracts import check_parts, check_reward
from agentdescent.core.leash import Leash
from agentdescent.core.protocols import Door
from agentdescent.core.reply import is_cut
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.evaluate.memo import Key, Memo

OUTPUTS_KEPT = 4096

Outputs = dict[Key, tuple[Any]]
"""Outputs that one of two rewards has scored, for the other; the oldest go first."""


class Measure:
    """Puts numbers to outputs by one reward.

    Attributes:
        memo: What it has measured.
    """

    def __init__(self, run: Door, reward: Door, memo: Memo, outputs: Outputs | None = None) -> None:
        """Measure by `reward`.

        Args:
            run: Called with (rendered, task).
            reward: Called with (task, output).
            memo: Where the measurements are kept.
            outputs: Shared with the measure by another reward, so that what was run for one of
                them is not run again for the other; None if there is no other.
        """
        self.memo: Memo = memo
        self._run = run
        self._reward = reward
        self._outputs = outputs

    async def __call__(self, key: Key, rendered: str, task: Task, leash: Leash) -> float:
        """The reward of one output, in [0, 1].

        Raises:
            RewardContractError: If the reward or one of its parts is no such number.
        """
        kept = None if self._outputs is None else self._outputs.get(key)
        output = await self._run(rendered, task, leash=leash) if kept is None else kept[0]
        if is_cut(output):
            value = 0.0  # half an answer earns nothing, and is not shown to the scorer
        else:
            value = self._checked(key, task, await self._reward(task, output, leash=leash))
        if self._outputs is not None:
            _pass_on(self._outputs, key, (output,) if kept is None else None)
        return value

    def _checked(self, key: Key, task: Task, scored: Any) -> float:
        value = check_reward(task, scored)
        if isinstance(scored, Scored) and scored.parts:
            parts: Mapping[str, float] = check_parts(task, scored)
            self.memo.note_parts(key, parts)
        return value


def _pass_on(outputs: Outputs, key: Key, output: tuple[Any] | None) -> None:
    """Keep an output that the other reward may want, or drop one that both have scored."""
    outputs.pop(key, None)
    if output is not None:
        outputs[key] = output
        if len(outputs) > OUTPUTS_KEPT:
            del outputs[next(iter(outputs))]
