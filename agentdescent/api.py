"""The two doors: `async_evolve` for async applications, `evolve` for scripts."""

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial, wraps
from typing import Any, Literal, ParamSpec

from agentdescent.assemble import carry_out
from agentdescent.blocking import run_blocking
from agentdescent.config import AggregatorConfig
from agentdescent.core.events import Event, RunEnded
from agentdescent.core.protocols import (
    AggregatorFactory,
    Constraint,
    ParallelStrategy,
    Propose,
    Reward,
    Run,
    StalenessPolicy,
    Strategy,
    TaskSampler,
)
from agentdescent.core.store import LedgerStore
from agentdescent.core.task import Task
from agentdescent.errors import EvolutionInterrupted
from agentdescent.policy.bundle import Policies
from agentdescent.pricing import Price
from agentdescent.request import Request, understand
from agentdescent.result import EvolutionResult, RoundInfo
from agentdescent.usage import Usage

P = ParamSpec("P")


async def async_evolve(  # noqa: PLR0913 - one list of every knob, for both doors
    tasks: Iterable[Task],
    reward: Reward,
    *,
    agent: Any = None,
    run: Run | None = None,
    propose: Propose | None = None,
    strategy: Strategy | None = None,
    constraints: Constraint | Sequence[Constraint] = (),
    initial_state: Mapping[str, Any] | None = None,
    artifact_id: str = "artifact",
    blast_radius: float = 0.2,
    held_out_frac: float = 0.4,
    shuffle: bool = False,
    seed: int = 0,
    n_workers: int = 4,
    asynchronous: bool | None = None,
    rounds: int | None = None,
    max_concurrency: int = 1,
    refresh_interval: int = 1,
    round_timeout: float | None = None,
    parallel: ParallelStrategy | None = None,
    task_sampler: TaskSampler | None = None,
    async_ratio: int = 3,
    max_seconds: float | None = None,
    max_iters: int | None = None,
    max_rollouts: int | None = None,
    max_calls: int | None = None,
    max_attempts: int | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    prices: Mapping[str, Price] | None = None,
    target_reward: float | None = None,
    patience: int | None = None,
    stop_when_solved: bool = False,
    solved_threshold: float | None = None,
    max_worker_errors: int = 3,
    self_verify: bool = True,
    reflect_batch: int = 1,
    eval_concurrency: int | None = None,
    eval_repeats: int = 1,
    confirm: int = 0,
    evaluation_key: str = "",
    agg_config: AggregatorConfig | None = None,
    staleness_policy: StalenessPolicy | None = None,
    policies: Policies | None = None,
    aggregator_factory: AggregatorFactory | None = None,
    oracle_budget: int = 200,
    cheap_eval_tasks: int | None = None,
    cheap_reward: Reward | None = None,
    repo_path: str | os.PathLike[str] | None = None,
    resume: Literal["continue"] | None = None,
    durability: Literal["process", "power"] = "process",
    exclusive: bool = False,
    ledger: LedgerStore | None = None,
    on_round: Callable[[RoundInfo], Any] | None = None,
    on_event: Callable[[Event], Any] | Sequence[Callable[[Event], Any]] = (),
    verbose: bool = False,
    usage: Usage | None = None,
    telemetry: str | os.PathLike[str] | None = None,
) -> EvolutionResult:
    """Evolve an artifact against examples; by default without barriers between workers.

    Workers roll tasks out with the newest artifact, reflect on failures and propose diffs; a merger
    filters stale ones, resolves contradictions, gates the union of the rest on the held-out tasks
    and commits what they support. `evolve` takes the same parameters and blocks; by default it
    works in rounds.

    Args:
        tasks: At least 4, with unique ids.
        reward: ``(task, output) -> number in [0, 1]``, or a `Scored`.
        agent: An object with `solve` and `propose`; or give `run` and `propose`, which win.
        run: ``(rendered, task) -> output``.
        propose: ``(rendered, task, output, reward) -> text or None``; if it offers
            ``reflect(reflection)``, it is asked by that, with a `Reflection`.
        strategy: What the artifact is and how a proposal becomes a diff; default `AppendRules()`.
        constraints: ``(before, after) -> reason or None``, one or several, asked of two states; a
            diff that one objects to is dropped before any evaluation of it, as "constraint".
        initial_state: The first state, instead of the strategy's; ignored (with a warning) when
            `repo_path` holds the artifact already.
        artifact_id: Its name in the ledger.
        blast_radius: How much a bad change could break, in [0, 1]; above 0.30 every merge is
            audited and more lag is tolerated.
        held_out_frac: The share of tasks kept back for scoring: the last ones, or after `shuffle`.
        shuffle: Shuffle the tasks with `seed` before they are split.
        seed: For the shuffle and the jitter of retries.
        n_workers: Workers.
        asynchronous: True for no barriers, False for rounds; None means True here and False in
            `evolve`.
        rounds: Rounds; default 15. Without barriers it is a budget of rounds x n_workers rollouts
            (with a warning), by default none here and 15 x n_workers in
            ``evolve(asynchronous=True)``.
        max_concurrency: Rollouts of one round at once. Rounds only; the same holds for
            `refresh_interval`, `round_timeout` and `parallel`.
        refresh_interval: Rounds a worker keeps its version of the artifact.
        round_timeout: Seconds a round waits for its rollouts; None waits for ever.
        parallel: How a round's tasks are divided; default `DataParallel()`.
        task_sampler: Which task a worker takes next; default `RoundRobin()`.
        async_ratio: Diffs of one worker that may wait for a merge before it must wait. Without
            barriers only.
        max_seconds: Wall-clock limit. None means no limit in rounds and 20 s without barriers;
            `math.inf` is no limit in both.
        max_iters: Measured rollouts; another name for `max_rollouts`.
        max_rollouts: Measured rollouts.
        max_calls: Calls of `run` and `propose`, the gate's included; at least the number of
            held-out tasks.
        max_attempts: Requests to providers, retries included, exactly. This budget and the next two
            see the calls of this package's completions alone.
        max_tokens: Tokens of such requests, in and out. What is under way when the budget is spent
            comes to its end and may exceed it.
        max_cost: USD that such requests cost, in the same manner; their prices must be known.
        prices: By model, in USD per million tokens, where the list prices do not know it or do not
            hold.
        target_reward: Stop at this held-out reward.
        patience: Stop after so many rounds (or sweeps) without a better held-out reward.
        stop_when_solved: Stop once the artifact solves every training task.
        solved_threshold: The reward from which a rollout asks for no proposal; default the reward's
            own `solved_threshold`, such as the pass mark of a judge, else 0.999.
        max_worker_errors: Failures in a row to tolerate while nothing has ever succeeded.
        self_verify: Try each diff on its own task first, and drop it if that does not help.
        reflect_batch: Failures of one version, of different tasks, that a reflection shows
            together; more than 1 needs a `propose` that offers `reflect(reflection)`, as
            `reflector` and `LLMAgent` do.
        eval_concurrency: Held-out evaluations at once; default 32 for coroutine functions, 8 else.
        eval_repeats: Runs per held-out evaluation, averaged. For sampled models.
        confirm: Fresh runs of both sides on the tasks that differ, before a commit. For sampled
            models.
        evaluation_key: Change it when something outside the code changes what `run` or `reward`
            return.
        agg_config: How strict a merge is.
        staleness_policy: What becomes of diffs against older versions; default guarded.
        policies: Replaces single decisions, by name; see `Policies`.
        aggregator_factory: Replaces the optimizer; called with (ledger, verifier, audit, config,
            staleness_policy).
        oracle_budget: Ground-truth checks that custom aggregators may ask for.
        cheap_eval_tasks: Held-out tasks that rank rivals; default all.
        cheap_reward: Ranks rivals instead of `reward`, called like it; it never accepts anything.
            An output that both score is run once.
        repo_path: Directory of the git ledger. What is in it is gone on from: the artifact, and on
            the same tasks also statistics, evidence and measurements. Default: a scratch
            ledger, removed at the end.
        resume: "continue" finishes the run that `repo_path` holds, with its budgets and history,
            and returns its result if it has ended; with other arguments it is refused. None begins
            a new run from what was learned.
        durability: What a commit survives: "process", the death of the process; "power", a power
            failure as well, at some ten times the price.
        exclusive: Refuse a `repo_path` that another run has open.
        ledger: A ledger of your own, instead of `repo_path`; it is opened and closed by the run.
        on_round: Called with each `RoundInfo`; an exception in it is a warning.
        on_event: One or several listeners for the event stream.
        verbose: Log progress to the logger "agentdescent".
        usage: Account to add to, shared with model adapters.
        telemetry: File to which every model call, every round, start and end are appended, as JSON
            lines without prompts and replies; see `read_telemetry`.

    Returns:
        The artifact, its held-out reward and how it came about. Always check `error` and
        `stop_reason`.

    Raises:
        ValueError: If an argument cannot be honoured; the message says why and what else to do.
        TypeError: If a callable or plug-in does not have the form it needs.
        ContractError: If the caller's code breaks a promise during the run.
        LedgerError: If the ledger cannot be opened. Later failures of it end the run with `error`.

    Cancelling it stops every rollout and evaluation and propagates; a commit under way is finished,
    the ledger is left consistent, and the partial result goes to the `RunEnded` event.
    """
    return await carry_out(understand(dict(locals()), script=False))


def _blocking(
    core: Callable[P, Coroutine[Any, Any, EvolutionResult]],
) -> Callable[P, EvolutionResult]:
    signature = inspect.signature(core)

    @wraps(core)
    def evolve(*args: P.args, **kwargs: P.kwargs) -> EvolutionResult:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"evolve() {error}{_did_you_mean(signature, kwargs)}") from None
        call.apply_defaults()
        return _run_to_the_end(understand(call.arguments, script=True))

    evolve.__name__ = evolve.__qualname__ = "evolve"
    evolve.__doc__ = _EVOLVE_DOC
    return evolve


def _did_you_mean(signature: inspect.Signature, given: Iterable[str]) -> str:
    known = signature.parameters.keys()
    near = [get_close_matches(name, known, n=1) for name in given if name not in known]
    return "".join(f"; did you mean {match[0]}?" for match in near[:1] if match)


def _run_to_the_end(request: Request) -> EvolutionResult:
    ended: list[EvolutionResult] = []

    def remember(event: Event) -> None:
        if isinstance(event, RunEnded):
            ended.append(event.result)

    try:
        return run_blocking(partial(carry_out, replace(request, on_end=remember)))
    except KeyboardInterrupt:
        if not ended:
            raise
        raise EvolutionInterrupted(ended[-1]) from None


_EVOLVE_DOC = """Evolve an artifact against examples, and block until that is done.

A thin wrapper over `async_evolve`, with the same parameters; it works in rounds unless
``asynchronous=True``, which warns about every argument whose meaning that changes.

Raises:
    RunningLoopError: If an event loop is running here; ``await async_evolve(...)`` instead. In a
        notebook the run happens on a helper thread, and this returns when it is done.
    EvolutionInterrupted: On Ctrl-C; `result` holds what was reached.

Everything else: see `async_evolve`.
"""

evolve = _blocking(async_evolve)
