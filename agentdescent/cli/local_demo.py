"""`agentdescent demo --local-model`: a real small model learns from worked examples."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from warnings import catch_warnings, filterwarnings

import anyio

from agentdescent.api import evolve
from agentdescent.cli.board import Board
from agentdescent.cli.display import Output, account, shown
from agentdescent.cli.lines import JsonLines, plain
from agentdescent.cli.local_model import NAME, served, weights
from agentdescent.cli.local_server import SLOTS, Counts
from agentdescent.cli.models import Model, few_shot_runner
from agentdescent.core.model_calls import Role
from agentdescent.core.protocols import Run
from agentdescent.core.samples import Samples
from agentdescent.core.task import Task
from agentdescent.policy.rewards import exact_match
from agentdescent.policy.strategies import FewShot, chat_turns, worked_example
from agentdescent.result import EvolutionResult
from agentdescent.usage import Usage

TRAIN, HELD_OUT, FRESH = 16, 16, 16
ROUNDS = 8
REPLY_TOKENS = 24
GOOD_ENOUGH = 0.95

_THINGS = ("lamp", "chair", "book", "pen", "shirt", "mug", "cable", "clock", "bag", "plate")
_CENTS = (10, 25, 40, 50, 75, 99)
MAX_EXAMPLES = 4


def prices(seed: int, count: int) -> list[Task]:
    """Different questions for a price; the answer that scores is in whole cents."""
    every = [
        (thing, dollars, cents) for thing in _THINGS for dollars in range(1, 10) for cents in _CENTS
    ]
    drawn = random.Random(seed).sample(every, count)  # noqa: S311 - reproducible, not secret
    return [
        Task(
            f"{number:02}",
            f"The {thing} costs ${dollars}.{cents:02}. What is the price?",
            {"gold": str(dollars * 100 + cents)},
        )
        for number, (thing, dollars, cents) in enumerate(drawn)
    ]


@dataclass(frozen=True, slots=True)
class Account:
    """Calls of the model during the run, as one side counted them."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    p50: float | None
    p90: float | None

    @classmethod
    def of_server(cls, before: Counts, after: Counts) -> "Account":
        """What the server counted between two readings."""
        latency = Samples()
        for seconds in after.seconds[len(before.seconds) :]:
            latency.add(seconds)
        return cls(
            after.calls - before.calls,
            after.failed - before.failed,
            after.prompt_tokens - before.prompt_tokens,
            after.completion_tokens - before.completion_tokens,
            latency.p50,
            latency.p90,
        )

    @classmethod
    def of_run(cls, usage: Usage) -> "Account":
        """What the run counted, of what it asked the model for."""
        solving = usage.roles[Role.SOLVE]
        return cls(
            solving.calls,
            solving.failures,
            solving.prompt_tokens,
            solving.completion_tokens,
            solving.latency.p50,
            solving.latency.p90,
        )

    def line(self, name: str) -> str:
        """For people."""
        percentiles = ", ".join(
            f"{percent} {'unknown' if seconds is None else f'{seconds:.3f} s'}"
            for percent, seconds in (("p50", self.p50), ("p90", self.p90))
        )
        return (
            f"{name:<12} {self.calls} calls, {self.failed} failed, {self.prompt_tokens} + "
            f"{self.completion_tokens} tokens, {percentiles}"
        )


def demonstrate(seed: int, output: Output, directory: Path | None) -> EvolutionResult:
    """Teach the model the convention of the scorer, and compare our counts with its server's.

    Raises:
        MissingPart: If the engine or the weights are not installed.
        EvolutionInterrupted: On Ctrl-C, with the partial result.
    """
    tasks = prices(seed, TRAIN + HELD_OUT + FRESH)
    learning, fresh = tasks[: TRAIN + HELD_OUT], tasks[TRAIN + HELD_OUT :]
    file = weights()
    output.say(f"Starting {NAME} on one core of this machine.")
    with served(file) as server, catch_warnings():
        filterwarnings("ignore", ".*half a reply")  # without examples it comes to no end
        run = few_shot_runner(Model("local", server.base_url, REPLY_TOKENS, 0.0), "")
        output.say(f"A problem:         {tasks[0].prompt}")
        output.say(f"The scorer wants:  {tasks[0].meta['gold']}\n")
        before = server.counts()
        result = _learn(learning, run, seed, output, directory)
        ours, theirs = Account.of_run(result.usage), Account.of_server(before, server.counts())
        rewards = [score(run, rendered, fresh) for rendered in ("[]", result.rendered)]
    if output.json:
        JsonLines().write({"event": "Accounts", "run": plain(ours), "server": plain(theirs)})
        JsonLines().write({"event": "Fresh", "before": rewards[0], "after": rewards[1]})
    else:
        _report(result, (ours, theirs), rewards, output)
    return result


def _learn(
    tasks: Sequence[Task], run: Run, seed: int, output: Output, directory: Path | None
) -> EvolutionResult:
    board = Board({"rounds": ROUNDS})
    with shown(board, "agentdescent demo --local-model", output) as listeners:
        return evolve(
            tasks,
            exact_match(),
            run=run,
            propose=worked_example(),
            strategy=FewShot(MAX_EXAMPLES, "chat"),
            held_out_frac=HELD_OUT / len(tasks),
            n_workers=SLOTS,
            max_concurrency=SLOTS,
            eval_concurrency=SLOTS,
            rounds=ROUNDS,
            target_reward=GOOD_ENOUGH,
            self_verify=False,  # an example says nothing about the task it was made of
            repo_path=directory,
            seed=seed,
            on_event=listeners,
            usage=board.usage,
        )


def score(run: Run, rendered: str, tasks: Sequence[Task]) -> float:
    """The mean reward of the model on `tasks`, `SLOTS` at a time."""
    judge = exact_match()
    rewards: list[float] = []

    async def measure() -> None:
        slots = anyio.CapacityLimiter(SLOTS)

        async def one(task: Task) -> None:
            async with slots:
                rewards.append(float(judge(task, await run(rendered, task))))

        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(one, task)

    anyio.run(measure)
    return sum(rewards) / len(rewards)


def _report(
    result: EvolutionResult,
    accounts: tuple[Account, Account],
    rewards: Sequence[float],
    output: Output,
) -> None:
    output.say()
    for line in account(result):
        output.say(line)
    output.say(f"on {FRESH} problems that it never saw: {rewards[0]:.3f} -> {rewards[1]:.3f}\n")
    output.say("What the model is shown before each problem is now\n")
    for turn in chat_turns(result.rendered):
        output.say(f"    {turn['role']}: {turn['content']}")
    output.say()
    for name, side in zip(("the run", "its server"), accounts, strict=True):
        output.say(side.line(name))
