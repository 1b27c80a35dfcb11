"""`agentdescent run`: evolve an artifact against tasks in a file, into a directory."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from agentdescent.agents.completion import Completion
from agentdescent.agents.judge import llm_judge
from agentdescent.api import evolve
from agentdescent.cli.board import Board
from agentdescent.cli.choices import check_reward, read_tasks, reward_named, strategy_named
from agentdescent.cli.display import Listener, Output, account, shown
from agentdescent.cli.endings import UsageError
from agentdescent.cli.lines import plain
from agentdescent.cli.models import Model, actor, command_completion
from agentdescent.cli.settings import Budgets, Claim, Files, RunDirectory, Settings
from agentdescent.core.outcomes import StopReason
from agentdescent.core.protocols import Reward
from agentdescent.core.task import Task
from agentdescent.errors import EvolutionInterrupted, LedgerError
from agentdescent.frontends.evolved import Evolved
from agentdescent.result import EvolutionResult


@dataclass(frozen=True, slots=True)
class Pace:
    """How a run goes about it; nothing here changes what it may learn.

    Attributes:
        workers: Rollouts at once.
        eval_concurrency: Held-out evaluations at once; None for the default.
        asynchronous: Without barriers between workers.
        target: Stop at this held-out reward.
        reply_tokens: The longest reply of the model.
        temperature: Of the model; None leaves that to its server.
        pass_env: Environment variables that the agent command is given.
    """

    workers: int = 4
    eval_concurrency: int | None = None
    asynchronous: bool = False
    target: float | None = None
    reply_tokens: int = 4096
    temperature: float | None = None
    pass_env: Sequence[str] = ()


Start = Callable[..., EvolutionResult]
"""Runs what was prepared, given how it is to be done: the other arguments of `evolve`."""


def carry_out(settings: Settings, budgets: Budgets, pace: Pace, output: Output) -> EvolutionResult:
    """Run, or go on with, what `settings` describe, and write down what came of it.

    Everything is checked before anything is started or written.

    Raises:
        UsageError: If something cannot be done as asked.
        EvolutionInterrupted: On Ctrl-C; what there is by then is written down as well.
    """
    start = _prepare(settings, pace)
    directory = RunDirectory(settings.out)
    claim = directory.claim(settings, {"budgets": asdict(budgets), "pace": asdict(pace)})
    is_unfinished = claim is not Claim.NEW and _is_unfinished(directory)
    continues = claim is Claim.SAME and is_unfinished
    if continues:
        output.say(f"finishes the run in {directory.path}")
    elif claim is not Claim.NEW:
        why = "; that run stays unfinished, for its options were others" if is_unfinished else ""
        output.say(f"goes on with what was learned in {directory.path}{why}")
    screen = _Screen(Board(_limits(budgets, pace)), directory, output)
    try:
        result = _evolve(start, settings, pace, screen, continues=continues)
    except EvolutionInterrupted as interrupted:
        screen.write_down(interrupted.result)
        raise
    except ValueError:
        if claim is Claim.NEW and not _has_begun(directory):
            directory.release()
        raise
    screen.write_down(result)
    screen.report(result)
    return result


def _prepare(settings: Settings, pace: Pace) -> Start:
    if settings.files is not None:
        return _prepare_directory(settings, settings.files, pace)
    if (settings.model is None) == (settings.agent_command is None):
        raise UsageError("give either --model or --agent-command: it is what solves the tasks")
    tasks = read_tasks(settings.tasks)
    few_shot = settings.strategy == "fewshot"
    style = "chat" if few_shot and settings.model else "text"
    strategy = strategy_named(settings.strategy, settings.prompt, style)
    solver = _solver(settings, pace)
    reflect = _reflector(settings)
    reward = _reward(settings, tasks, reflect or _completion(solver))
    check_reward(reward, tasks)
    made = actor(solver, reflect, few_shot=few_shot, prompt=settings.prompt)
    return partial(
        evolve,
        tasks,
        reward,
        run=made.run,
        propose=made.propose,
        strategy=strategy,
        held_out_frac=settings.held_out_frac,
        shuffle=True,
        self_verify=not few_shot,  # an example says nothing of its own task
    )


def _prepare_directory(settings: Settings, files: Files, pace: Pace) -> Start:
    from agentdescent.cli import directory  # noqa: PLC0415 - for those who evolve one

    directory.check(settings, files)
    tasks = read_tasks(settings.tasks)
    solver = (
        _completion(_solver(settings, pace)) if settings.model or settings.agent_command else None
    )
    reflect = _reflector(settings) or solver
    if reflect is None:
        raise UsageError("give --model, --agent-command or --reflect-model: something must reflect")
    reward = _reward(settings, tasks, reflect)
    check_reward(reward, tasks)
    return directory.start(
        files,
        tasks,
        agent=solver,
        score=reward,
        reflect_with=reflect,
        split=files.split(settings.held_out_frac),
    )


def _solver(settings: Settings, pace: Pace) -> Model | Completion:
    if settings.model:
        return Model(settings.model, settings.base_url, pace.reply_tokens, pace.temperature)
    return command_completion(settings.agent_command or "", pace.pass_env)


def _reflector(settings: Settings) -> Completion | None:
    name = settings.reflect_model
    return Model(name, settings.base_url).completion() if name else None


def _completion(solver: Model | Completion) -> Completion:
    return solver.completion() if isinstance(solver, Model) else solver


def _reward(settings: Settings, tasks: Sequence[Task], judge: Completion) -> Reward:
    """The reward asked for; a judge sees the expected answers if there are any."""
    if settings.reward != "judge":
        return reward_named(settings.reward)
    has_gold = any("gold" in task.meta for task in tasks)
    return llm_judge(judge, gold_key="gold" if has_gold else None)


def _limits(budgets: Budgets, pace: Pace) -> dict[str, float]:
    """The budgets by name; without barriers, rounds are so many rollouts of every worker."""
    limits = budgets.limits()
    if pace.asynchronous:
        rounds = limits.pop("rounds")
        limits.setdefault("rollouts", rounds * pace.workers)
    return limits


def _has_begun(directory: RunDirectory) -> bool:
    return _last_result(directory) is not None


def _is_unfinished(directory: RunDirectory) -> bool:
    """True if the last run there was killed or interrupted, or ended with an error."""
    last = _last_result(directory)
    return last is not None and last.stop_reason in (StopReason.INTERRUPTED, StopReason.ERROR)


def _last_result(directory: RunDirectory) -> EvolutionResult | None:
    try:
        return EvolutionResult.from_ledger(directory.ledger)
    except LedgerError:
        return None


def _evolve(
    start: Start, settings: Settings, pace: Pace, screen: "_Screen", *, continues: bool
) -> EvolutionResult:
    limits = screen.board.limits
    with screen.listeners() as listeners:
        return start(
            n_workers=pace.workers,
            eval_concurrency=pace.eval_concurrency,
            asynchronous=pace.asynchronous,
            target_reward=pace.target,
            seed=settings.seed,
            repo_path=screen.directory.ledger,
            resume="continue" if continues else None,
            evaluation_key=json.dumps([settings.identity(), settings.actors()], sort_keys=True),
            on_event=listeners,
            telemetry=screen.directory.telemetry,
            usage=screen.board.usage,
            **_budget_arguments(limits, pace),
        )


def _budget_arguments(limits: Mapping[str, float], pace: Pace) -> dict[str, Any]:
    """The budgets under the names that `evolve` has for them."""
    names = {
        "rounds": "rounds",
        "rollouts": "max_rollouts",
        "seconds": "max_seconds",
        "calls": "max_calls",
        "attempts": "max_attempts",
        "tokens": "max_tokens",
        "cost": "max_cost",
    }
    given: dict[str, Any] = {names[name]: limit for name, limit in limits.items()}
    if pace.asynchronous:
        return {"max_seconds": math.inf, **given}
    return {"max_concurrency": pace.workers, **given}


@dataclass(frozen=True, slots=True)
class _Screen:
    """Where a run is shown and kept."""

    board: Board
    directory: RunDirectory
    output: Output

    def listeners(self) -> AbstractContextManager[Sequence[Listener]]:
        return shown(self.board, f"agentdescent run -> {self.directory.path}", self.output)

    def write_down(self, result: EvolutionResult) -> None:
        """Keep what a run came to, partial or not."""
        artifact = {"version": result.version, "state": plain(result.state)}
        self.directory.write("artifact.txt", result.rendered + "\n")
        self.directory.write("artifact.json", artifact)
        result.save(self.directory.path / "result.json")
        if isinstance(result, Evolved):
            EvolutionResult.write_to(result, self.directory.files, backup=False, prune=True)

    def report(self, result: EvolutionResult) -> None:
        """Say what the run came to, and where it is."""
        self.output.say()
        if self.board.first_version > 1:
            self.output.say(f"picked up version {self.board.first_version} of the artifact")
        for line in account(result):
            self.output.say(line)
        path = self.directory.path
        if isinstance(result, Evolved):
            self.output.say(f"artifact:   {self.directory.files}")
            self.output.say(f"use it:     agentdescent apply {path}")
        else:
            self.output.say(f"artifact:   {path / 'artifact.txt'}")
        self.output.say(f"history:    git -C {self.directory.ledger} log -p dev")
        self.output.say(f"everything: {path / 'result.json'}, {self.directory.telemetry}")
