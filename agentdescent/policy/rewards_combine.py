"""Rewards made of other rewards, synchronous or asynchronous ones.

Each keeps what the inner ones say, their feedback and their parts; it checks what they check, and
its tasks are solved where theirs are. If an inner reward has to be awaited, so has the whole;
synchronous ones are called before that, where the whole is called.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

from agentdescent.core.contracts import SOLVED
from agentdescent.core.identity import Identity
from agentdescent.core.protocols import Reward
from agentdescent.core.reply import Reply
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.errors import RewardContractError
from agentdescent.policy.rewards import Scorer, preflight
from agentdescent.policy.rewards_member import Begun, drop, members

_JUDGEMENT = 1
"""Goes up when a combination starts to judge differently."""


class Combined(ABC):
    """A reward made of others.

    Attributes:
        is_pure: None of them waits for anything, so that it needs no thread.
        identity: What remembered rewards depend on besides task and output.
        solved_threshold: From which value on a task counts as solved, unless the caller of
            `evolve` says something else.
    """

    name: ClassVar[str]

    def __init__(self, rewards: Sequence[Reward], **settings: object) -> None:
        """Combine `rewards`; `settings` are what else the value depends on, by name."""
        self._members = members(rewards)
        self._settings = settings
        self.is_pure: bool = all(member.is_pure for member in self._members)

    def __call__(self, task: Task, output: Any, /) -> Any:
        """The reward of `output` as a `Scored`, or an awaitable of it.

        Raises:
            RewardContractError: If an inner reward is no number in [0, 1].
        """
        begun: list[Begun] = []
        try:
            begun.extend(member.begin(task, output) for member in self._members)
        except BaseException:
            drop(begun)
            raise
        known = [each for each in begun if isinstance(each, Scored)]
        if len(known) == len(begun):
            return self._combine(task, output, known)
        return self._await(task, output, begun)

    def check(self, task: Task, /) -> None:
        """Let every inner reward that can check the task do so.

        Raises:
            RewardContractError: If one of them cannot judge it.
        """
        for member in self._members:
            preflight(member.reward, [task])

    @property
    def identity(self) -> Identity:
        """What remembered rewards depend on besides task and output."""
        inner = [member.identity for member in self._members]
        made_of = self._listed([identity.name for identity in inner])
        return Identity(
            f"agentdescent.rewards/{_JUDGEMENT}:{made_of}",
            explicit=all(identity.explicit for identity in inner),
        )

    @property
    def solved_threshold(self) -> float:
        """From which value on a task counts as solved."""
        return self._members[-1].solved_threshold

    def __repr__(self) -> str:
        return self._listed([repr(member.reward) for member in self._members])

    @abstractmethod
    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        """The value, of those of the members."""

    async def _await(self, task: Task, output: Any, begun: Sequence[Begun]) -> Scored:
        scored: list[Scored] = []
        try:
            for member, each in zip(self._members, begun, strict=True):
                scored.append(await member.end(task, each))
        finally:
            drop(begun[len(scored) :])
        return self._combine(task, output, scored)

    def _listed(self, rewards: Sequence[str]) -> str:
        settings = (f"{name}={value!r}" for name, value in self._settings.items())
        return f"{self.name}({', '.join([*rewards, *settings])})"


class _Weighted(Combined):
    name: ClassVar[str] = "weighted"

    def __init__(self, rewards: Sequence[Reward], weights: Sequence[float]) -> None:
        super().__init__(rewards, weights=tuple(weights))
        self._shares = [weight / math.fsum(weights) for weight in weights]

    @property
    def solved_threshold(self) -> float:
        return self._mean([member.solved_threshold for member in self._members])

    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        del task, output
        parts: dict[str, float] = {}
        said: list[str] = []
        for member, each in zip(self._members, scored, strict=True):
            parts[member.name] = each.value
            parts.update({f"{member.name}.{part}": value for part, value in each.parts.items()})
            said += [f"{member.name}: {each.feedback}"] if each.feedback else []
        return Scored(self._mean([each.value for each in scored]), "\n".join(said), parts)

    def _mean(self, values: Sequence[float]) -> float:
        mean = math.fsum(share * value for share, value in zip(self._shares, values, strict=True))
        return min(max(values), max(min(values), mean))


class _Gated(Combined):
    name: ClassVar[str] = "gated"

    def __init__(self, gate: Reward, reward: Reward, pass_mark: float) -> None:
        super().__init__([gate, reward], pass_mark=pass_mark)
        self._pass_mark = pass_mark

    def __call__(self, task: Task, output: Any, /) -> Any:
        gate = self._members[0].begin(task, output)
        if isinstance(gate, Scored) and not self._passes(gate):
            return self._combine(task, output, [gate])
        try:
            inner = self._members[1].begin(task, output)
        except BaseException:
            drop([gate])
            raise
        if isinstance(gate, Scored) and isinstance(inner, Scored):
            return self._combine(task, output, [gate, inner])
        return self._await(task, output, [gate, inner])

    def _passes(self, gate: Scored) -> bool:
        return gate.value >= self._pass_mark

    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        del task, output
        gate, *passed = scored
        name = self._members[0].name
        parts = {name: gate.value, **{f"{name}.{part}": v for part, v in gate.parts.items()}}
        if not passed:
            said = gate.feedback or f"it gave {gate.value:.3g}, and {self._pass_mark:g} is needed"
            return Scored(0.0, f"{name} did not let the output pass: {said}", parts)
        inner = passed[0]
        return Scored(inner.value, inner.feedback, {**parts, **inner.parts})

    async def _await(self, task: Task, output: Any, begun: Sequence[Begun]) -> Scored:
        first, second = self._members
        left = list(begun)
        try:
            scored = [await first.end(task, left.pop(0))]
            if self._passes(scored[0]):
                scored.append(await second.end(task, left.pop()))
        finally:
            drop(left)
        return self._combine(task, output, scored)


class _LengthPenalty(Combined):
    name: ClassVar[str] = "length_penalty"

    def __init__(self, reward: Reward, free: int, zero_at: int, unit: str) -> None:
        super().__init__([reward], free=free, zero_at=zero_at, unit=unit)
        self._free, self._zero_at, self._unit = free, zero_at, unit

    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        del task
        text = "" if output is None else str(output)
        length = len(text) if self._unit == "chars" else len(text.split())
        factor = _falling(length, self._free, self._zero_at)
        complaint = f"the output has {length} {self._unit}, and {self._free} are free"
        return _penalised(scored[0], factor, "length", complaint if factor < 1.0 else "")


class _CostPenalty(Combined):
    name: ClassVar[str] = "cost_penalty"

    def __init__(self, reward: Reward, free: int, zero_at: int) -> None:
        super().__init__([reward], free=free, zero_at=zero_at)
        self._free, self._zero_at = free, zero_at

    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        if not isinstance(output, Reply):
            raise RewardContractError(
                f"cost_penalty cannot tell what the output for task {task.id!r} took: it is "
                f"{type(output).__name__}, not the Reply of a completion; let run return the reply "
                "as it is, or use length_penalty"
            )
        if output.tokens is None:
            return scored[0]
        spent = output.tokens.total
        factor = _falling(spent, self._free, self._zero_at)
        complaint = f"the output took {spent} tokens, and {self._free} are free"
        return _penalised(scored[0], factor, "cost", complaint if factor < 1.0 else "")


class _Explained(Combined):
    name: ClassVar[str] = "explained"

    def __init__(self, scorer: Scorer[Any], *, reveal_gold: bool) -> None:
        super().__init__([scorer], reveal_gold=reveal_gold)
        self._explain = scorer.explain
        self._reveal_gold = reveal_gold

    def _combine(self, task: Task, output: Any, scored: Sequence[Scored]) -> Scored:
        said = self._explain(task, output, reveal_gold=self._reveal_gold)
        return Scored(scored[0].value, said)


def weighted(*weights: Mapping[Reward, float] | tuple[Reward, float]) -> Combined:
    """The weighted mean of several rewards.

    Its parts are the value of each by its name, and the parts of each as ``"name.part"``; its
    feedback is theirs, line by line.

    Args:
        *weights: Pairs of a reward and its weight, or one mapping of rewards to weights. Weights
            are at least 0 and need not add up to 1.

    Raises:
        ValueError: If a weight is negative or not finite, or there is no positive one.
        TypeError: If a reward cannot be called with a task and an output.
    """
    pairs: list[tuple[Reward, float]] = []
    for given in weights:
        pairs += given.items() if isinstance(given, Mapping) else [given]
    values = [float(weight) for _, weight in pairs]
    if not all(math.isfinite(value) and value >= 0.0 for value in values) or not any(values):
        raise ValueError(
            f"the weights must be finite and at least 0, one of them above 0, got {values}; a "
            "penalty is better given by length_penalty or gated"
        )
    return _Weighted([reward for reward, _ in pairs], values)


def gated(gate: Reward, scorer: Reward, *, pass_mark: float = SOLVED) -> Combined:
    """The value of `scorer` where `gate` passes, else 0.0.

    `scorer` is not asked where the gate fails; only if the gate has to be awaited is a synchronous
    `scorer` called all the same.

    Args:
        gate: A reward that says whether the output is worth looking at.
        scorer: What is wanted of outputs that are.
        pass_mark: The least value of `gate` that passes, in (0, 1].

    Raises:
        ValueError: If `pass_mark` is not in (0, 1].
        TypeError: If one of the two cannot be called with a task and an output.
    """
    if not 0.0 < pass_mark <= 1.0:
        raise ValueError(f"pass_mark must be in (0, 1], got {pass_mark!r}; 0 would pass anything")
    return _Gated(gate, scorer, pass_mark)


def length_penalty(
    scorer: Reward, *, free: int, zero_at: int, unit: Literal["chars", "words"] = "chars"
) -> Combined:
    """The value of `scorer`, less for long outputs.

    It is multiplied by the part ``"length"``: 1.0 up to `free`, then falling in a straight line to
    0.0 at `zero_at`.

    Args:
        scorer: What is wanted of the output.
        free: The length that costs nothing, at least 0.
        zero_at: The length from which nothing is earned, above `free`.
        unit: What lengths are counted in.

    Raises:
        ValueError: If the lengths are out of order, or there is no such unit.
        TypeError: If `scorer` cannot be called with a task and an output.
    """
    _refuse_disorder(free, zero_at)
    if unit not in ("chars", "words"):
        raise ValueError(f'unit must be "chars" or "words", got {unit!r}')
    return _LengthPenalty(scorer, free, zero_at, unit)


def cost_penalty(scorer: Reward, *, free: int, zero_at: int) -> Combined:
    """The value of `scorer`, less for outputs that took many tokens, input and output together.

    It is multiplied by the part ``"cost"``: 1.0 up to `free` tokens, then falling in a straight
    line to 0.0 at `zero_at`. Outputs must be the `Reply` of a completion; one whose provider did
    not say what it took is not penalised, and has no such part.

    Args:
        scorer: What is wanted of the output.
        free: Tokens that cost nothing, at least 0.
        zero_at: Tokens from which nothing is earned, above `free`.

    Raises:
        ValueError: If the numbers are out of order.
        TypeError: If `scorer` cannot be called with a task and an output.
    """
    _refuse_disorder(free, zero_at)
    return _CostPenalty(scorer, free, zero_at)


def explained(scorer: Scorer[Any], *, reveal_gold: bool = True) -> Combined:
    """A ready-made scorer that also says why an output does not earn 1.0, as feedback.

    Args:
        scorer: One of those in this package.
        reveal_gold: Say what was expected.

    Raises:
        TypeError: If `scorer` is something else, which cannot explain itself.
    """
    if not isinstance(cast("object", scorer), Scorer):
        raise TypeError(
            f"explained needs a scorer of this package, got {type(scorer).__name__}; return "
            "Scored(value, feedback) from your own"
        )
    return _Explained(scorer, reveal_gold=reveal_gold)


def _refuse_disorder(free: int, zero_at: int) -> None:
    if not 0 <= free < zero_at:
        raise ValueError(f"free={free!r} must be at least 0 and below zero_at={zero_at!r}")


def _falling(amount: int, free: int, zero_at: int) -> float:
    return min(1.0, max(0.0, (zero_at - amount) / (zero_at - free)))


def _penalised(scored: Scored, factor: float, part: str, complaint: str) -> Scored:
    said = "\n".join(text for text in (scored.feedback, complaint) if text)
    return Scored(scored.value * factor, said, {**scored.parts, part: factor})
