"""What all front ends have in common: tasks in three parts, one run, a test, perhaps a write-back.

A front end is two doors to one plan: the asynchronous one and `blocking(...)` of it.
"""

import inspect
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from itertools import islice
from typing import Any, ParamSpec

from agentdescent.api import async_evolve
from agentdescent.blocking import run_blocking
from agentdescent.core.events import Event, RunEnded
from agentdescent.core.protocols import Reward
from agentdescent.core.task import Task, tasks_from
from agentdescent.dataloader import Dataset, split_dataset
from agentdescent.engine.alerts import Alerts
from agentdescent.errors import AgentDescentError, EvolutionInterrupted, describe
from agentdescent.frontends.evolved import BeforeAfter, Evolved
from agentdescent.frontends.measuring import measured
from agentdescent.frontends.writing import Origin
from agentdescent.policy.rewards import (
    contains,
    exact_match,
    last_number,
    numeric_close,
    preflight,
)
from agentdescent.result import EvolutionResult
from agentdescent.threads import in_thread
from agentdescent.usage import Usage

P = ParamSpec("P")

SCORES: Mapping[str, Callable[[], Reward]] = {
    "contains": contains,
    "exact": exact_match,
    "last_number": last_number,
    "numeric_close": numeric_close,
}
"""The rewards that can be asked for by name."""

_SETTLED = {
    "agent": "run",
    "tasks": "data",
    "reward": "score",
    "held_out_frac": "split",
    "shuffle": "split",
}
_KNOWN = inspect.signature(async_evolve).parameters.keys()


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a front end, understood.

    Attributes:
        data: The tasks, in three parts.
        reward: Scores them.
        options: The other arguments of `async_evolve`, `run`, `strategy` and `usage` among them.
        origin: The directory that it begins with.
        write_back: Replace it by what has been learned, if that is not worse on the test split.
    """

    data: Dataset[Task]
    reward: Reward
    options: Mapping[str, Any]
    origin: Origin | None = None
    write_back: bool = False

    async def carry_out(self) -> Evolved:
        """Run, compare on the test split, and write back if that was asked for."""
        data = self.data
        result = await async_evolve(
            data.trainval, self.reward, held_out_frac=data.val_frac, **self.options
        )
        evolved = Evolved.of(result, self.origin)
        reason = await self._tested(evolved)
        if self.write_back and not reason:
            reason = await in_thread(_written_back, evolved)
        if reason and (self.write_back or data.test):
            Alerts(evolved.warnings).warn(reason)
        return evolved

    async def _tested(self, evolved: Evolved) -> str:
        """Set `evolved.test`; why that was not possible, or ""."""
        tasks, options = self.data.test, self.options
        if evolved.error is not None:
            return f"the test split was not measured: the run ended with {evolved.error}"
        if not tasks:
            return "there is no test split"
        strategy = options["strategy"]
        try:
            before, after = await measured(
                [strategy.render(strategy.initial()), evolved.rendered],
                tasks,
                run=options["run"],
                reward=self.reward,
                usage=options["usage"],
                repeats=options.get("eval_repeats", 1),
                eval_concurrency=options.get("eval_concurrency"),
                seed=options["seed"],
            )
        except Exception as error:  # noqa: BLE001 - what was learned is not thrown away for it
            return f"the test split could not be measured: {describe(error)}"
        evolved.test = BeforeAfter([task.id for task in tasks], before, after)
        return ""


def _written_back(evolved: Evolved) -> str:
    """Write back what the test split supports; why that was not done, or ""."""
    if not evolved.is_supported:
        return f"nothing was written back: {evolved.test}"
    try:
        evolved.written = evolved.write_to(prune=True)
    except (AgentDescentError, OSError) as error:
        return f"nothing was written back: {error}"
    return ""


def blocking(
    core: Callable[P, Coroutine[Any, Any, Evolved]], plan: Callable[..., Job]
) -> Callable[P, Evolved]:
    """The front end `core` for scripts; it blocks until the run is over."""
    signature = inspect.signature(core)
    name = core.__name__.removeprefix("async_")

    @wraps(core)
    def front_end(*args: P.args, **kwargs: P.kwargs) -> Evolved:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        call.apply_defaults()
        job = plan(**call.arguments)
        ended: list[EvolutionResult] = []
        heard = _telling(job, ended.append)
        try:
            return run_blocking(
                heard.carry_out, caller=f"{name}()", instead=f"await {core.__name__}(...)"
            )
        except KeyboardInterrupt:
            if not ended:
                raise
            raise EvolutionInterrupted(Evolved.of(ended[-1], job.origin)) from None

    front_end.__name__ = front_end.__qualname__ = name
    return front_end


def _telling(job: Job, told: Callable[[EvolutionResult], object]) -> Job:
    """The same job; `told` hears of the result even if the job is cancelled."""

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            told(event.result)

    given: Any = job.options.get("on_event", ())
    listeners: list[Any] = [*given] if isinstance(given, Sequence) else [given]
    return replace(job, options={**job.options, "on_event": [*listeners, listen]})


async def planned(plan: Callable[..., Job], call: Mapping[str, Any]) -> Job:
    """What `plan` makes of the arguments `call`; it reads files, so it has a thread."""
    return await in_thread(partial(plan, **call))


def completed(
    options: Mapping[str, Any], *, seed: int, rounds: int, most_workers: int, n_train: int
) -> dict[str, Any]:
    """`options` of `async_evolve`, with the defaults of front ends.

    Raises:
        TypeError: If one is unknown, or settled by an argument of the front end.
    """
    for name in options:
        if name in _SETTLED:
            raise TypeError(f"{name}= is not for this; give {_SETTLED[name]}= instead")
        if name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, n=1)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"there is no argument {name!r}{advice}")
    workers: int = options.get("n_workers", max(1, min(most_workers, n_train)))
    defaults = {
        "seed": seed,
        "n_workers": workers,
        "asynchronous": False,
        "target_reward": 0.98,
        "patience": 3,
        "usage": Usage(),
    }
    if not options.get("asynchronous"):
        return {**defaults, "rounds": rounds, "max_concurrency": workers, **options}
    if not options.keys() & {"rounds", "max_rollouts", "max_iters"}:
        defaults["max_rollouts"] = rounds * workers
    return {**defaults, "max_seconds": math.inf, **options}


def scorer(score: str | Reward) -> Reward:
    """The reward that `score` is, or names.

    Raises:
        ValueError: If there is none of this name.
    """
    if not isinstance(score, str):
        return score
    if score not in SCORES:
        raise ValueError(
            f"score={score!r} is unknown; give one of {', '.join(SCORES)}, or a function of task "
            "and output"
        )
    return SCORES[score]()


def in_three(
    data: Iterable[Any] | Dataset[Any],
    *,
    prompt: str,
    gold: str,
    split: tuple[float, float, float],
    seed: int,
    reward: Reward,
) -> Dataset[Task]:
    """Rows or tasks as tasks in three parts; a `Dataset` keeps its own.

    Raises:
        ValueError: If there are none, or the split is none.
        TypeError: If something is neither a row nor a task.
        RewardContractError: If a ready-made reward cannot score one of them.
    """
    if isinstance(data, Dataset):
        rest = iter(_tasks([*data.trainval, *data.test], prompt, gold))
        parts = Dataset(*(list(islice(rest, n)) for n in data.sizes().values()), name=data.name)
    else:
        parts = split_dataset(_tasks(list(data), prompt, gold), ratios=split, seed=seed)
    preflight(reward, parts.test)
    return parts


def _tasks(items: list[Any], prompt: str, gold: str) -> list[Task]:
    """Tasks as they are; of rows all columns are kept, in `Task.meta` under their own names."""
    if not items:
        raise ValueError("there is no data; give rows, such as dicts, or tasks")
    if all(isinstance(item, Task) for item in items):
        return items
    odd = next((item for item in items if not isinstance(item, Mapping)), None)
    if odd is not None:
        raise TypeError(
            f"data has {type(odd).__name__} {odd!r:.60} in it; give rows alone, or tasks alone"
        )
    rows: list[Mapping[str, Any]] = items
    ours = {prompt, gold, "id"}
    extra = {name: name for row in rows for name in row if name not in ours}
    tasks = tasks_from(
        rows, prompt, gold, "id" if all("id" in row for row in rows) else None, **extra
    )
    return [replace(task, meta=_gold_first(task.meta)) for task in tasks]


def _gold_first(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What reflectors must not miss comes first: they may be shown the beginning alone."""
    return {name: meta[name] for name in sorted(meta, key=lambda name: name != "gold")}
