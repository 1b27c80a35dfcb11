"""What the caller asks for: every argument checked, every default filled in."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentdescent.config import AggregatorConfig, RunConfig, validated
from agentdescent.core.contracts import SOLVED, check_callable, reflect_of, require_methods
from agentdescent.core.events import Event
from agentdescent.core.protocols import (
    AggregatorFactory,
    Constraint,
    ParallelStrategy,
    Reward,
    StalenessPolicy,
    Strategy,
    TaskSampler,
)
from agentdescent.core.store import LedgerStore
from agentdescent.core.task import (
    MIN_TASKS,
    Task,
    refuse_duplicate_ids,
    refuse_other_than_task,
    split_held_out,
)
from agentdescent.core.turns import check_generators
from agentdescent.engine.alerts import Alerts
from agentdescent.policy.bundle import Policies, bundled
from agentdescent.policy.governance import assert_mutable
from agentdescent.policy.parallel import DataParallel, refuse_unsupported
from agentdescent.policy.rewards import preflight
from agentdescent.policy.sampling import RoundRobin
from agentdescent.policy.strategies import AppendRules
from agentdescent.pricing import Price, Prices, refuse_unpriced
from agentdescent.threads import is_async
from agentdescent.usage import Usage

DEFAULT_ROUNDS = 15
DEFAULT_SECONDS = 20.0
SMALL_HELD_OUT = 4


def nobody(event: Event) -> None:
    """Hears of the end of a run and does nothing."""
    del event


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one run, checked and complete; names as in `async_evolve`.

    `reflect` is what `propose` offers instead of itself, or None. `on_end` is told the run's last
    event before any listener is.
    """

    config: RunConfig
    alerts: Alerts
    train: Sequence[Task]
    held_out: Sequence[Task]
    reward: Callable[..., Any]
    cheap_reward: Callable[..., Any] | None
    run: Callable[..., Any]
    propose: Callable[..., Any]
    reflect: Callable[..., Any] | None
    strategy: Strategy
    constraints: Sequence[Constraint]
    parallel: ParallelStrategy
    task_sampler: TaskSampler
    rounds: int
    rollout_budget: int | None
    initial_state: Mapping[str, Any] | None
    repo_path: str | os.PathLike[str] | None
    ledger: LedgerStore | None
    agg_config: AggregatorConfig | None
    staleness_policy: StalenessPolicy | None
    policies: Policies
    aggregator_factory: AggregatorFactory | None
    on_round: Callable[[Any], Any] | None
    listeners: Sequence[Callable[[Event], Any]]
    usage: Usage
    prices: Prices
    telemetry: Path | None
    on_end: Callable[[Event], object] = nobody


def understand(options: Mapping[str, Any], *, script: bool) -> Request:
    """Check everything that can be known before the first model call.

    Args:
        options: The arguments of `async_evolve`, by name.
        script: They came through `evolve`, whose defaults differ.

    Raises:
        ValueError: If an argument cannot be honoured.
        TypeError: If a callable or plug-in has the wrong form.
        GovernanceError: If `artifact_id` is reserved.
        RewardContractError: If a ready-made scorer cannot score one of the tasks.
    """
    alerts = Alerts()
    config = _config(options, alerts, script=script)
    run, propose = _actor(options)
    strategy = _given(options["strategy"], AppendRules)
    require_methods("strategy", strategy, ("initial", "render", "to_diff"))
    parallel = _given(options["parallel"], DataParallel)
    require_methods("parallel", parallel, ("plan",))
    refuse_unsupported(parallel)
    policies = bundled(options)
    sampler = _given(policies.task_sampler, RoundRobin)
    for plugin in (sampler, parallel):
        if hasattr(plugin, "inherit_threshold"):
            plugin.inherit_threshold(config.solved_threshold)
    check_callable("reward", options["reward"], ("task", "output"))
    train, held_out = _tasks(options["tasks"], options["reward"], config, alerts)
    preflight(options["cheap_reward"], (*train, *held_out))
    if hasattr(parallel, "fit") and not config.asynchronous:
        parallel = parallel.fit(strategy, [task.id for task in train], alerts.warn)
    propose = _bound(propose, strategy)
    reflect = reflect_of(propose)
    if reflect is None:
        _refuse_batch(config.reflect_batch, propose)
    return Request(
        alerts=alerts,
        config=config,
        train=train,
        held_out=held_out,
        reward=options["reward"],
        cheap_reward=_optional_callable(
            "cheap_reward", options["cheap_reward"], ("task", "output")
        ),
        run=run,
        propose=propose,
        reflect=reflect,
        strategy=strategy,
        constraints=_constraints(options["constraints"], strategy),
        parallel=parallel,
        task_sampler=sampler,
        rounds=config.rounds or DEFAULT_ROUNDS,
        rollout_budget=_rollout_budget(config, script=script),
        initial_state=_initial_state(options["initial_state"]),
        repo_path=options["repo_path"],
        ledger=_ledger(options, config),
        agg_config=_agg_config(options["agg_config"]),
        staleness_policy=policies.staleness,
        policies=policies,
        aggregator_factory=_optional_callable(
            "aggregator_factory",
            options["aggregator_factory"],
            ("ledger", "verifier", "audit", "config", "staleness_policy"),
        ),
        on_round=_optional_callable("on_round", options["on_round"], ("info",)),
        listeners=_listeners(options["on_event"]),
        usage=_usage(options["usage"]),
        prices=_prices(options, config),
        telemetry=_path("telemetry", options["telemetry"]),
    )


def _given(plugin: Any, default: Callable[[], Any]) -> Any:
    """`plugin` unless it is None: one that is empty, and therefore false, is still meant."""
    return default() if plugin is None else plugin


def _config(options: Mapping[str, Any], alerts: Alerts, *, script: bool) -> RunConfig:
    values = {name: options[name] for name in RunConfig.model_fields if name in options}
    if values["asynchronous"] is None:
        values["asynchronous"] = not script
    if values["solved_threshold"] is None:
        values["solved_threshold"] = getattr(options["reward"], "solved_threshold", SOLVED)
    config = validated(RunConfig, **values)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", config.artifact_id):
        raise ValueError(
            f"artifact_id={config.artifact_id!r} cannot name a directory of the ledger; use "
            "letters, digits, '_', '-' and '.', not beginning with '.' or '-'"
        )
    assert_mutable(config.artifact_id)
    return _barrier_free(options, config, alerts, script=script) if config.asynchronous else config


def _barrier_free(
    options: Mapping[str, Any], config: RunConfig, alerts: Alerts, *, script: bool
) -> RunConfig:
    """Warn about every argument that means something else, or nothing, without barriers."""
    ignored = {
        "parallel": options["parallel"] is not None,
        "max_concurrency": config.max_concurrency != 1,
        "round_timeout": config.round_timeout is not None,
        "refresh_interval": config.refresh_interval != 1,
    }
    for name in (name for name, given in ignored.items() if given):
        alerts.warn(
            f"asynchronous=True ignores {name}=: there are no rounds; drop it, or use "
            "asynchronous=False"
        )
    if config.rounds is not None and config.rollout_budget is None:
        alerts.warn(
            f"rounds={config.rounds} is reinterpreted as a budget of "
            f"{config.rounds * config.n_workers} rollouts (rounds x n_workers), since "
            "asynchronous=True has no rounds; give max_iters to say so directly"
        )
    if config.max_seconds is not None:
        return config
    if script:
        alerts.warn(
            f"max_seconds=None becomes {DEFAULT_SECONDS} seconds under asynchronous=True; give "
            "max_seconds, or math.inf for no limit"
        )
    return config.model_copy(update={"max_seconds": DEFAULT_SECONDS})


def _rollout_budget(config: RunConfig, *, script: bool) -> int | None:
    if config.rollout_budget is not None or not config.asynchronous:
        return config.rollout_budget
    if config.rounds is not None:
        return config.rounds * config.n_workers
    return DEFAULT_ROUNDS * config.n_workers if script else None


def _actor(options: Mapping[str, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    agent = options["agent"]
    if isinstance(agent, type):
        raise TypeError(f"agent is the class {agent.__name__}; give an instance of it")
    run = _given(options["run"], lambda: getattr(agent, "solve", None))
    propose = _given(options["propose"], lambda: getattr(agent, "propose", None))
    if run is None or propose is None:
        missing, method = ("run", "solve") if run is None else ("propose", "propose")
        given = "no agent is given"
        if agent is not None:
            given = f"agent={type(agent).__name__} has no method {method}"
        raise ValueError(
            f"there is no {missing}: {given}; give agent= with solve and propose, or both run= "
            "and propose="
        )
    check_callable("run", run, ("rendered", "task"))
    check_callable("propose", propose, ("rendered", "task", "output", "reward"))
    check_generators(run, propose)
    return run, propose


def _bound(propose: Callable[..., Any], strategy: Strategy) -> Callable[..., Any]:
    """A ready-made reflector asks for what the strategy can read, once it knows the strategy."""
    owner = getattr(propose, "__self__", propose)
    bind = getattr(owner, "bind_strategy", None)
    if bind is None:
        return propose
    return bind(strategy) if owner is propose else bind(strategy).propose


def _refuse_batch(size: int, propose: object) -> None:
    if size > 1:
        raise ValueError(
            f"reflect_batch={size} needs a propose that can be told of several failures, but "
            f"{getattr(propose, '__qualname__', type(propose).__name__)} takes one; give an object "
            "that offers reflect(reflection), such as reflector(model) or LLMAgent(model), or drop "
            "reflect_batch"
        )


def _tasks(
    tasks: Iterable[Task], reward: Reward, config: RunConfig, alerts: Alerts
) -> tuple[list[Task], list[Task]]:
    listed = list(tasks)
    for task in listed:
        refuse_other_than_task(task)
    if len(listed) < MIN_TASKS:
        raise ValueError(
            f"tasks has {len(listed)} task(s); at least {MIN_TASKS} are needed, to train on some "
            "and hold others out; add tasks"
        )
    refuse_duplicate_ids(listed)
    train, held_out = split_held_out(
        listed, config.held_out_frac, shuffle=config.shuffle, seed=config.seed
    )
    preflight(reward, listed)
    least = len(held_out) * config.eval_repeats
    if config.max_calls is not None and config.max_calls < least:
        raise ValueError(
            f"max_calls={config.max_calls} does not even cover scoring the {len(held_out)} "
            f"held-out tasks once, which takes {least}; raise max_calls or lower held_out_frac"
        )
    if len(held_out) < SMALL_HELD_OUT:
        alerts.warn(
            f"every decision of this run rests on {len(held_out)} held-out task(s); raise "
            "held_out_frac or add tasks"
        )
    return train, held_out


def _initial_state(state: Any) -> Mapping[str, Any] | None:
    if state is not None and not isinstance(state, Mapping):
        raise TypeError(
            f"initial_state must map keys to text, got {type(state).__name__} {state!r:.80}; for a "
            "single text use strategy=SingleSlot(initial_value=...)"
        )
    return state or None  # pyright: ignore[reportUnknownVariableType]


def _prices(options: Mapping[str, Any], config: RunConfig) -> Prices:
    given: Any = {} if options["prices"] is None else options["prices"]
    if not isinstance(given, Mapping):
        raise TypeError(
            f"prices must map models to Price, got {type(given).__name__}; write "
            "prices={'model': Price(input=..., output=...)}"
        )
    for model, price in given.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(price, Price):
            raise TypeError(
                f"prices[{model!r}] must be a Price, got {price!r:.80}; write "
                "Price(input=..., output=...), in USD per million tokens"
            )
    prices = Prices(given)  # pyright: ignore[reportUnknownArgumentType]
    if config.max_cost is not None:
        refuse_unpriced(prices, (options["agent"], options["run"], options["propose"]))
    return prices


def _path(name: str, path: Any) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {type(path).__name__}; name a file")
    if not os.fspath(path):  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f"{name}='' names no file; give a path, or None for no such file")
    return Path(path)  # pyright: ignore[reportUnknownArgumentType]


def _usage(usage: Any) -> Usage:
    if usage is not None:
        require_methods("usage", usage, ("record", "note"))
    return _given(usage, Usage)


def _ledger(options: Mapping[str, Any], config: RunConfig) -> LedgerStore | None:
    ledger = options["ledger"]
    path = options["repo_path"]
    asked = {
        "resume": config.resume is not None and ledger is None,
        "durability": config.durability != "process",
        "exclusive": config.exclusive,
    }
    for name in (name for name, given in asked.items() if given and path is None):
        raise ValueError(
            f"{name}={options[name]!r} is about the ledger in repo_path, and there is none; give "
            "repo_path, or set up the ledger= yourself"
        )
    if ledger is not None and path is not None:
        raise ValueError("ledger= and repo_path= both say where the ledger is; give one of them")
    if path is not None and not os.fspath(path):
        raise ValueError(
            "repo_path='' names no directory; use '.' for the current one, or None for a scratch "
            "ledger"
        )
    if ledger is not None:
        require_methods("ledger", ledger, ("open", "read", "register", "commit", "close"))
    return ledger


def _agg_config(config: object) -> AggregatorConfig | None:
    if config is None or isinstance(config, AggregatorConfig):
        return config
    raise TypeError(
        f"agg_config must be an AggregatorConfig, got {type(config).__name__}; write "
        "agg_config=AggregatorConfig(...)"
    )


def _optional_callable(
    name: str, function: Any, parameters: tuple[str, ...]
) -> Callable[..., Any] | None:
    if function is not None:
        check_callable(name, function, parameters)
    return function


def _constraints(given: Any, strategy: Any) -> Sequence[Constraint]:
    """What is given, and what the strategy has to object to unions of its diffs."""
    constraints: list[Any] = [*given] if isinstance(given, Sequence) else [given]
    constraints += filter(None, [getattr(strategy, "violation", None)])
    for constraint in constraints:
        check_callable("constraints", constraint, ("before", "after"))
        if is_async(constraint):
            raise TypeError(
                f"constraints must be plain functions, and {constraint!r:.80} is a coroutine "
                "function; what has to wait belongs into reward"
            )
    return constraints


def _listeners(given: Any) -> Sequence[Callable[[Event], Any]]:
    listeners: list[Any] = [*given] if isinstance(given, Sequence) else [given]
    for listener in listeners:
        check_callable("on_event", listener, ("event",))
    return listeners
