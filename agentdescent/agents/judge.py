"""A model as the scorer: verdicts by a rubric, with reasons that a reflector can use."""

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import anyio

from agentdescent.agents.completion import Completion, asking
from agentdescent.agents.recall import Recall
from agentdescent.agents.verdict import JUDGE_TEMPLATE, NoVerdict, Question, Rubric, Verdict
from agentdescent.calls import Role, working_as
from agentdescent.core.identity import Identity, identity_of
from agentdescent.core.scored import Scored
from agentdescent.core.task import Task
from agentdescent.errors import JudgeError, ungrouped

__all__ = ["CRITERIA", "JUDGE_TEMPLATE", "RUBRIC", "Judge", "llm_judge"]

RUBRIC = """\
* correctness: the output is right and leaves nothing out; where an expected answer is given, it \
says the same.
* procedure: it keeps to the steps and to the form that the task asks for.
* conciseness: nothing in it could be left out."""

CRITERIA: Mapping[str, float] = {"correctness": 0.6, "procedure": 0.3, "conciseness": 0.1}
"""What the default rubric speaks of, with the weight of each."""

_ASKED = 2
_REMEMBERED = 10_000
_VERSION = 1
"""Goes up when the judge starts to read or to weigh verdicts differently."""


class Judge:
    """A reward that asks a model; made by `llm_judge`.

    Attributes:
        solved_threshold: From which value on a task counts as solved, unless the caller of
            `evolve` says something else.
        name: What its value is called among the parts of a combined reward.
    """

    name: ClassVar[str] = "llm_judge"

    def __init__(
        self, complete: Completion, rubric: Rubric, *, repeats: int, pass_mark: float
    ) -> None:
        self.solved_threshold: float = pass_mark
        self._complete = complete
        self._ask: Callable[[str], Awaitable[str]] = asking(complete)
        self._rubric = rubric
        self._repeats = repeats
        self._recall: Recall[Verdict] = Recall(_REMEMBERED)

    async def __call__(self, task: Task, output: Any, /) -> Scored:
        """Judge `output`.

        The value is the weighted mean of the scores, averaged over the repeats. Parts are the mean
        score by criterion and, if there are repeats, their ``"agreement"``: 1.0 less the difference
        between the highest and the lowest value. The feedback is the model's reasons. Cancelled, it
        calls off what it has asked for; others who wait for the same verdict ask anew.

        Raises:
            JudgeError: If the model gave no verdict, also when it was asked again.
            RewardContractError: If the task has no expected answer, where one is to be shown.
        """
        question = self._rubric.ask(task, output)
        verdicts: dict[int, Verdict] = {}

        async def judge(repeat: int) -> None:
            make = partial(self._verdict, question, task.id)
            verdicts[repeat] = await self._recall.get((question.key, repeat), make)

        with ungrouped():
            async with anyio.create_task_group() as repeats:
                for repeat in range(self._repeats):
                    repeats.start_soon(judge, repeat)
        return self._rubric.weigh([verdicts[repeat] for repeat in range(self._repeats)])

    def check(self, task: Task, /) -> None:
        """Make sure that there is an expected answer, where one is to be shown.

        Raises:
            RewardContractError: If there is none.
        """
        self._rubric.expected(task)

    @property
    def identity(self) -> Identity:
        """What remembered rewards depend on besides task and output."""
        model = identity_of(self._complete)
        judge = f"agentdescent.llm_judge/{_VERSION}:{self._rubric.name} x{self._repeats}"
        return Identity(f"{judge} by {model.name}", model.explicit)

    async def _verdict(self, question: Question, task_id: str) -> Verdict:
        prompt, reply, problem = question.text, "", ""
        for _ in range(_ASKED):
            with working_as(Role.JUDGE):
                reply = await self._ask(prompt)
            try:
                return self._rubric.read(reply, question)
            except NoVerdict as refused:
                problem = str(refused)
                prompt = question.again(problem)
        error = JudgeError(
            f"the judge gave no verdict on task {task_id!r} in {_ASKED} replies: {problem}; the "
            f"last one begins with {reply[:80]!r}; let a more capable model judge, or raise its "
            "max_tokens"
        )
        error.attempts_made = _ASKED
        raise error


def llm_judge(
    complete: Completion,
    rubric: str = RUBRIC,
    *,
    weights: Mapping[str, float] = CRITERIA,
    repeats: int = 1,
    gold_key: str | None = "gold",
    pass_mark: float = 0.8,
    template: str = JUDGE_TEMPLATE,
) -> Judge:
    """Let a model score outputs by a rubric, and say what is wrong with them.

    The result is a reward, to be awaited; `check` finds the tasks that it cannot judge before a run
    begins. Its `pass_mark` becomes the `solved_threshold` of a run that is given none. Outputs are
    shown as data, between tags that they cannot close, and only a verdict that names an id which no
    output can know is taken for one. A reply that is no verdict is asked for once again, with what
    is wrong with it; then the judging has failed, which is not a reward of 0.

    Equal outputs of equal tasks are judged once: the last 10,000 verdicts are remembered, and who
    asks for one that is under way waits for it.

    Args:
        complete: Any completion; a synchronous one is called in a daemon thread.
        rubric: The criteria and what they mean. It must speak of each by its name.
        weights: The weight of each criterion; at least 0, and they need not add up to 1.
        repeats: Verdicts on each output, asked for at once and averaged; at least 1.
        gold_key: Where in `Task.meta` the expected answer stands, a key or a path such as "a.b";
            None to judge by the rubric alone.
        pass_mark: From which value on an output is good enough, in (0, 1].
        template: The prompt, with the fields rubric, id, prompt, expected, output and form, of
            which the last two are needed.

    Raises:
        ValueError: If an argument cannot be honoured.
        TypeError: If `complete` cannot be called with one prompt.
    """
    _check(rubric, weights, repeats, pass_mark)
    asked = Rubric(rubric, weights, template, gold_key)
    return Judge(complete, asked, repeats=repeats, pass_mark=pass_mark)


def _check(rubric: str, weights: Mapping[str, float], repeats: int, pass_mark: float) -> None:
    values = weights.values()
    if not all(math.isfinite(value) and value >= 0.0 for value in values) or not any(values):
        raise ValueError(
            "weights must give criteria finite weights of at least 0, and one above 0; got "
            f"{dict(weights)}"
        )
    for name in weights:
        if not name or name not in rubric:
            raise ValueError(
                f"weights has the criterion {name!r}, of which the rubric does not speak; say in "
                "rubric= what it means"
            )
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    if not 0.0 < pass_mark <= 1.0:
        raise ValueError(f"pass_mark must be in (0, 1], got {pass_mark!r}")
