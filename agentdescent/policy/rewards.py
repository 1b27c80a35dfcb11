"""Ready-made rewards: each reads the expected answer in ``task.meta`` and scores the output.

A scorer is called as ``scorer(task, output)``. The expected answer may be a list, any member of
which will do; one that is empty is never matched. Outputs that are no text are read as
``str(output)``, None as "". `preflight` finds the tasks that a scorer cannot judge before a run
pays for the first model call.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, cast

from agentdescent.core.protocols import Reward
from agentdescent.core.task import Task
from agentdescent.errors import ContractError, RewardContractError, describe
from agentdescent.policy.rewards_choice import read_choice
from agentdescent.policy.rewards_gold import gold_at, keys_of
from agentdescent.policy.rewards_numbers import Number, read_number
from agentdescent.policy.rewards_text import holds, normalised, words

__all__ = [
    "Scorer",
    "contains",
    "exact_match",
    "last_number",
    "multiple_choice",
    "numeric_close",
    "preflight",
    "token_f1",
]

_JUDGEMENT = 1
"""Goes up when a scorer starts to judge differently, so that remembered rewards are not reused."""

_SHOWN = 200
"""Characters of an answer that feedback shows."""

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True, repr=False)
class Scorer(ABC, Generic[Seen]):
    """A reward that compares an output with the expected answer.

    Attributes:
        gold_key: Where in `Task.meta` the expected answer stands: a key, or a path such as "a.b".
        is_pure: It computes and waits for nothing, so it needs no thread.
    """

    gold_key: str = "gold"
    name: ClassVar[str]
    is_pure: ClassVar[bool] = True
    _sought: ClassVar[str] = "answer"
    _wrong_kind: ClassVar[str] = ""
    """Why an expected answer in which nothing is seen is a mistake; "" if it just never matches."""

    def __call__(self, task: Task, output: Any, /) -> float:
        """The reward of `output`, in [0, 1]: that of the expected answer it matches best.

        Raises:
            RewardContractError: If the task has no expected answer, or one of the wrong kind.
        """
        golds = self._golds(task)
        seen = self._seen(output)
        return max((self._score(gold, seen) for gold in golds), default=0.0) if seen else 0.0

    def explain(self, task: Task, output: Any, /, *, reveal_gold: bool = True) -> str:
        """Why `output` does not earn 1.0, in words for a reflector; "" if it does.

        Args:
            task: The task.
            output: What was made of it.
            reveal_gold: Say what was expected.

        Raises:
            RewardContractError: As when it is called.
        """
        if self(task, output) >= 1.0:
            return ""
        seen = self._seen(output)
        found = f"no {self._sought} was found in the output"
        if seen:
            found = f"the {self._sought} of the output is {self._shown(seen)}"
        if not reveal_gold:
            return f"{found}, which is not all that was expected" if seen else found
        return f"{found}; expected was {' or '.join(map(self._shown, self._golds(task)))}"

    def check(self, task: Task, /) -> None:
        """Make sure that some output can earn a reward on `task`.

        Raises:
            RewardContractError: If its expected answer is missing, empty or of the wrong kind.
        """
        if not self._golds(task):
            raise self._flaw(task, "is empty, so that no output can match it")

    @property
    def identity(self) -> str:
        """What remembered rewards depend on besides task and output."""
        return f"agentdescent.rewards/{_JUDGEMENT}:{self!r}"

    def __repr__(self) -> str:
        settings = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{self.name}({', '.join(settings)})"

    @abstractmethod
    def _look(self, value: Any) -> Seen | None:
        """What there is to compare in an answer or an output; something false if nothing."""

    @abstractmethod
    def _score(self, gold: Seen, seen: Seen) -> float:
        """The reward of an output in which `seen` was seen, where `gold` is expected."""

    def _seen(self, output: Any) -> Seen | None:
        """What there is to compare in an output."""
        return self._look(output)

    def _shown(self, seen: Seen) -> str:
        """`seen` as it is shown to a reflector."""
        return shortened(repr(seen))

    def _golds(self, task: Task) -> Sequence[Seen]:
        value = gold_at(task.meta, self.gold_key)
        if value is None:
            raise self._flaw(task, f"is missing or None ({keys_of(task.meta)})")
        several = isinstance(value, list | tuple | set | frozenset)
        golds: list[Seen] = []
        for member in cast(Iterable[Any], value) if several else [value]:
            if wanted := self._look(member):
                golds.append(wanted)
            elif self._wrong_kind and as_text(member).strip():
                raise self._flaw(task, f"is {as_text(member)[:80]!r}, {self._wrong_kind}")
        return golds

    def _flaw(self, task: Task, problem: str) -> RewardContractError:
        return RewardContractError(
            f"{self!r} cannot judge task {task.id!r}: its meta[{self.gold_key!r}] {problem}; put "
            "the expected answer there, or name the key that holds it with gold_key="
        )


@dataclass(frozen=True, slots=True, repr=False)
class _ExactMatch(Scorer[str]):
    _: KW_ONLY
    normalise: bool = True
    name: ClassVar[str] = "exact_match"

    def _look(self, value: Any) -> str:
        return comparable(as_text(value), normalise=self.normalise)

    def _score(self, gold: str, seen: str) -> float:
        return float(gold == seen)


@dataclass(frozen=True, slots=True, repr=False)
class _Contains(Scorer[str]):
    _: KW_ONLY
    whole_words: bool = True
    normalise: bool = True
    name: ClassVar[str] = "contains"

    def _look(self, value: Any) -> str:
        return comparable(as_text(value), normalise=self.normalise)

    def _score(self, gold: str, seen: str) -> float:
        return float(holds(seen, gold, whole_words=self.whole_words))


@dataclass(frozen=True, slots=True, repr=False)
class _LastNumber(Scorer[Number]):
    _: KW_ONLY
    tolerance: float = 0.0
    abs_tol: float = 0.0
    name: ClassVar[str] = "last_number"
    _sought: ClassVar[str] = "number"
    _wrong_kind: ClassVar[str] = "which holds no number"

    def __post_init__(self) -> None:
        for argument, value in (("tolerance", self.tolerance), ("abs_tol", self.abs_tol)):
            if not value >= 0.0:
                raise ValueError(f"{argument} must be at least 0, got {value!r}; 0 means exact")

    def _look(self, value: Any) -> Number | None:
        return read_number(as_text(value))

    def _shown(self, seen: Number) -> str:
        return str(seen)

    def _score(self, gold: Number, seen: Number) -> float:
        return float(seen.close_to(gold, self.tolerance, self.abs_tol))


@dataclass(frozen=True, slots=True, repr=False)
class _TokenF1(Scorer[Counter[str]]):
    name: ClassVar[str] = "token_f1"

    def _look(self, value: Any) -> Counter[str]:
        return Counter(words(as_text(value)))

    def _shown(self, seen: Counter[str]) -> str:
        return shortened(repr(" ".join(seen.elements())))

    def _score(self, gold: Counter[str], seen: Counter[str]) -> float:
        return 2 * (gold & seen).total() / (gold.total() + seen.total())


@dataclass(frozen=True, slots=True, repr=False)
class _MultipleChoice(Scorer[str]):
    _: KW_ONLY
    choices: str = "ABCDE"
    name: ClassVar[str] = "multiple_choice"
    _sought: ClassVar[str] = "choice"
    _wrong_kind: ClassVar[str] = "which names none of the choices"

    def __post_init__(self) -> None:
        if not (self.choices.isalpha() and self.choices.isupper()):
            raise ValueError(
                f'choices must be capital letters such as "ABCD", got {self.choices!r}'
            )

    def _look(self, value: Any) -> str | None:
        return read_choice(as_text(value), self.choices)

    def _score(self, gold: str, seen: str) -> float:
        return float(gold == seen)


def as_text(output: Any) -> str:
    """An output as text: None is empty."""
    return "" if output is None else str(output)


def shortened(text: str) -> str:
    """`text`, cut so that it fits into a sentence."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def comparable(text: str, *, normalise: bool) -> str:
    """What two answers are compared by: `normalised` or as they are; "" if there is nothing."""
    if normalise:
        return normalised(text)
    return text if text.strip() else ""


def exact_match(gold_key: str = "gold", *, normalise: bool = True) -> Scorer[str]:
    """1.0 if the output is the expected answer, else 0.0.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands.
        normalise: Disregard case, white space, quotes, brackets and emphasis around the answer,
            punctuation at its end, and how its characters are encoded. False compares the texts
            as they are.
    """
    return _ExactMatch(gold_key, normalise=normalise)


def contains(
    gold_key: str = "gold", *, whole_words: bool = True, normalise: bool = True
) -> Scorer[str]:
    """1.0 if the expected answer occurs in the output, else 0.0.

    An output that lists many answers contains many, so prefer `exact_match`, or `last_number` for
    numbers, where the answer's form can be asked for.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands.
        whole_words: Do not find "2" in "12", or "art" in "party".
        normalise: As in `exact_match`.
    """
    return _Contains(gold_key, whole_words=whole_words, normalise=normalise)


def last_number(
    gold_key: str = "gold", *, tolerance: float = 0.0, abs_tol: float = 0.0
) -> Scorer[Number]:
    r"""1.0 if the number that the output gives as its answer is the expected one, else 0.0.

    The answer is what ``\boxed{...}``, ``#### ...`` or ``Answer: ...`` declares, else the last
    number. Thousands separators, ``1e3``, ``1/2``, percentages and currency signs are understood,
    in English notation.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands: a number, or text with one.
        tolerance: Largest difference, as a share of the expected number; at least 0.
        abs_tol: Largest difference that always passes, in units of the number; at least 0.
    """
    return _LastNumber(gold_key, tolerance=tolerance, abs_tol=abs_tol)


def numeric_close(
    gold_key: str = "gold", *, tolerance: float = 0.01, abs_tol: float = 0.0
) -> Scorer[Number]:
    """`last_number` that forgives 1 % by default."""
    return last_number(gold_key, tolerance=tolerance, abs_tol=abs_tol)


def token_f1(gold_key: str = "gold") -> Scorer[Counter[str]]:
    """The F1 of the words in the output and those in the expected answer, a graded reward.

    Words are normalised as in `exact_match` and counted without "a", "an" and "the". A graded
    reward is rarely 1.0, so tell `evolve` when a task counts as solved: ``solved_threshold=0.8``.

    Args:
        gold_key: Where in `Task.meta` the expected answer stands.
    """
    return _TokenF1(gold_key)


def multiple_choice(gold_key: str = "gold", *, choices: str = "ABCDE") -> Scorer[str]:
    r"""1.0 if the output settles on the expected letter, else 0.0.

    A letter declared by ``\boxed{B}``, ``Answer: B`` or ``the answer is (B)`` decides, else the
    only one in the output; an output that names several without deciding earns nothing.

    Args:
        gold_key: Where in `Task.meta` the expected letter stands: ``B``, ``(B)`` or ``B) Paris``.
        choices: The letters there are, as capitals.
    """
    return _MultipleChoice(gold_key, choices=choices)


def preflight(reward: Reward, tasks: Iterable[Task]) -> None:
    """Let `reward` check every task, if it has a method ``check(task)``.

    Raises:
        RewardContractError: For the first task that it cannot judge.
    """
    check = getattr(reward, "check", None)
    if not callable(check):
        return
    for task in tasks:
        try:
            check(task)
        except ContractError:
            raise
        except Exception as error:
            raise RewardContractError(
                f"reward.check refused task {task.id!r}: {describe(error)}"
            ) from error
