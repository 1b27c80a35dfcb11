"""What a run goes on from: which search, whether it is the same one, and how much of it."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from agentdescent.config import AggregatorConfig
from agentdescent.core.store import LedgerStore, SavedSearch, SearchStore, Stored
from agentdescent.core.task import Task
from agentdescent.engine.resume import Resumption
from agentdescent.engine.search import EVALUATIONS, SCHEMA, entries, rounds_of
from agentdescent.errors import LedgerRefused
from agentdescent.evaluate.identity import EvaluationIdentity, identity_of, task_key
from agentdescent.request import Request
from agentdescent.result import EvolutionResult

_LEARNED = ("tasks", "held_out_tasks", "reward", "strategy")
"""What has to be the same for statistics and measurements to mean anything."""

_OF_NO_ACCOUNT = {"verbose", "evaluation_key", "resume", "durability", "exclusive"}
"""Settings of a run that decide nothing."""


def fingerprint(request: Request) -> dict[str, Any]:
    """Which search this is: what its decisions depend on, by name, as JSON values."""
    config = request.config.model_dump(mode="json", exclude=_OF_NO_ACCOUNT)
    agg_config = request.agg_config or AggregatorConfig()
    return {
        "tasks": _digest_of(request.train),
        "held_out_tasks": _digest_of(request.held_out),
        "reward": identity_of(request.reward).name,
        "strategy": _form(request.strategy),
        "run": identity_of(request.run).name,
        "propose": identity_of(request.propose).name,
        "task_sampler": _name(request.task_sampler),
        "parallel": _name(request.parallel),
        "staleness_policy": _name(request.staleness_policy),
        "aggregator": _name(request.aggregator_factory),
        "policies": {name: _name(policy) for name, policy in request.policies.stages().items()},
        "agg_config": agg_config.model_dump(mode="json"),
        **{name: str(value) for name, value in config.items()},
    }


def about(request: Request) -> dict[str, Any]:
    """What every saved state says of its search."""
    return {
        "artifact": request.config.artifact_id,
        "evaluation_key": request.config.evaluation_key,
        "fingerprint": fingerprint(request),
    }


async def found(request: Request, store: LedgerStore, newest: Stored) -> Resumption | None:
    """What this run goes on from; None if there is nothing, or nothing of use.

    A search under other tasks, rewards or strategy leaves the artifact alone to go on from, and a
    warning says so.

    Raises:
        ValueError: If the run itself is to go on and is another one; says in what.
        LedgerRefused: If the search was saved by a newer version.
    """
    if not keeps_searches(store):
        return None
    saved = await cast("SearchStore", store).adopt(request.config.artifact_id)
    if saved is None:
        return None
    _require_known(saved, request)
    whole = request.config.resume == "continue"
    current = fingerprint(request)
    before: Mapping[str, Any] = saved.document["fingerprint"]
    differing = [name for name in current if before.get(name) != current[name]]
    if whole and differing:
        raise ValueError(_refusal(differing, before, current))
    lost = [name for name in _LEARNED if name in differing]
    if lost:
        request.alerts.warn(
            f"only the artifact of the last run is gone on from: {' and '.join(lost)} differ, so "
            "its statistics, evidence and measurements mean nothing here"
        )
        return None
    return Resumption(
        saved,
        newest,
        whole=whole,
        evaluations=_trusted(request, saved, differing),
        tasks={task.id: task for task in request.train},
    )


async def alone(request: Request, store: LedgerStore) -> str:
    """Why the run goes on from nothing but the artifact, if that is because others are at work.

    A run that was to be continued may be one of them, so a warning says so.
    """
    if not keeps_searches(store):
        return ""
    others = [str(run) for run in await cast("SearchStore", store).live_runs()]
    if not others:
        return ""
    text = f"begins a search of its own from the newest version: {', '.join(others)} still alive"
    if request.config.resume == "continue":
        request.alerts.warn(
            f"resume='continue' found no run to go on with and {text}; wait for its end, or give "
            "exclusive=True to be refused"
        )
    return text


def keeps_searches(store: LedgerStore) -> bool:
    """True if `store` is a `SearchStore`."""
    return hasattr(store, "commit_with_search")


def stored_result(resumption: Resumption | None) -> EvolutionResult | None:
    """The result of the run to go on with, if it has ended already."""
    if resumption is None or not resumption.whole:
        return None
    document = resumption.saved.document
    if document["phase"] != "finished":
        return None
    history = rounds_of(document, resumption.saved.pages)
    return EvolutionResult.from_record({**document["result"], "history": history})


def _trusted(request: Request, saved: SavedSearch, differing: Sequence[str]) -> list[Any]:
    """Measurements of the same actor by the same reward, if the user vouches for both."""
    kept = entries(saved.pages, EVALUATIONS)
    config = request.config
    identity = EvaluationIdentity(
        identity_of(request.run), identity_of(request.reward), config.evaluation_key
    )
    if not kept:
        return []
    key = saved.document.get("evaluation_key", "")
    if not {"run", "reward"}.isdisjoint(differing) or key != config.evaluation_key:
        request.alerts.warn(
            f"{len(kept)} saved measurements are not used: run, reward or evaluation_key is another"
        )
        return []
    if not identity.is_lasting:
        request.alerts.warn(
            f"{len(kept)} saved measurements are not used: give evaluation_key= to say that run "
            "and reward still do what they did"
        )
        return []
    return kept


def _require_known(saved: SavedSearch, request: Request) -> None:
    schema = saved.document.get("schema", SCHEMA)
    if schema > SCHEMA:
        raise LedgerRefused(
            f"the state of run {saved.run} has schema {schema}; this version reads up to {SCHEMA}",
            operation="resume",
            repo_path=str(request.repo_path),
            hint="upgrade agentdescent, or use another repo_path",
        )


def _refusal(
    differing: Sequence[str], before: Mapping[str, Any], current: Mapping[str, Any]
) -> str:
    shown = "; ".join(
        f"{name} was {_short(before.get(name))}, now {_short(current[name])}" for name in differing
    )
    return (
        f"resume='continue' cannot finish another run than the one that was begun: {shown}; give "
        "the same arguments, or leave resume out to begin a new run with what was learned"
    )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _digest_of(tasks: Sequence[Task]) -> str:
    whole = hashlib.sha256()
    for task in tasks:
        whole.update(task_key(task).digest)
    return whole.hexdigest()


def _form(strategy: Any) -> str:
    """What the states of a strategy look like; what it would begin with is of no account."""
    keys: Callable[[], Iterable[str]] | None = getattr(strategy, "keys", None)
    return f"{_name(strategy)} {sorted(keys()) if keys else ''}".rstrip()


def _name(plugin: object) -> str:
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return "" if plugin is None else f"{kind.__module__}.{kind.__qualname__}"
