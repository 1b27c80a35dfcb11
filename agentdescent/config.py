"""The knobs of a run, validated once at the edge of the package."""

import warnings
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

M = TypeVar("M", bound=BaseModel)


class AggregatorConfig(BaseModel):
    """How strict one merge is. Setting one knob changes no other."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    batch_trigger: int = Field(default=2, ge=1)
    """A bucket of evidence is merged once it holds this many cards."""

    max_wait_rounds: int = Field(default=1, ge=1)
    """... or once this many `step()` calls have seen it."""

    base_delta: float = Field(default=0.5, gt=0.0, le=1.0)
    """Accepted risk of a false commit at version 0; halves every `anneal_half_life` versions."""

    anneal_half_life: int = Field(default=64, ge=1)
    """Versions per halving of the accepted risk, which never falls below 0.01."""

    alpha_head: int = Field(default=5, ge=0)
    """Commits that evidence on an L1 artifact may lag behind."""

    alpha_tail: int = Field(default=1, ge=0)
    """Commits that evidence on an L2 artifact may lag behind."""

    lag: Literal["key", "version"] = "key"
    """Count only commits that touched the same keys, or all of them."""

    trust_region_ops: int = Field(default=6, ge=1)
    """Largest number of keys one incoming diff may set."""

    trust_region_chars: int = Field(default=32_000, ge=1)
    """Largest length, in characters, of one value an incoming diff sets."""

    max_commit_ops: int | None = Field(default=None, ge=1)
    """Largest number of keys one commit may set; None for no bound. The rest waits."""

    multiplicity: Literal["sidak", "none"] = "sidak"
    """Correct the gate for the number of rivals it was chosen from, or do not."""

    eval_waves: Literal[1, 2] = 2
    """Score tasks that can be won first (2), or everything at once (1, faster and dearer)."""

    promote_after_k: int = Field(default=3, ge=1)
    """Regression-free steps before dev is promoted to stable."""

    cas_attempts: int = Field(default=3, ge=1)
    """Commit attempts when another writer keeps being first."""

    cas_backoff: float = Field(default=0.05, ge=0.0)
    """Seconds; attempt k waits uniform(0, cas_backoff) * 2**k."""

    accept_samples: int | None = Field(default=None, exclude=True)
    """Ignored: the gate is exact and draws no samples."""

    @model_validator(mode="after")
    def _warn_about_samples(self) -> "AggregatorConfig":
        if self.accept_samples is not None:
            warnings.warn(
                f"accept_samples={self.accept_samples} is ignored: the acceptance gate is exact",
                DeprecationWarning,
                stacklevel=2,
            )
        return self


class RunConfig(BaseModel):
    """Every plain knob of `evolve`, under the name it has there. See `async_evolve` for meaning."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    artifact_id: str = "artifact"
    blast_radius: float = Field(default=0.2, ge=0.0, le=1.0)
    rounds: int | None = Field(default=None, ge=1)
    n_workers: int = Field(default=4, ge=1)
    max_concurrency: int = Field(default=1, ge=1)
    refresh_interval: int = Field(default=1, ge=1)
    round_timeout: float | None = Field(default=None, gt=0.0)
    target_reward: float | None = Field(default=None, ge=0.0, le=1.0)
    patience: int | None = Field(default=None, ge=1)
    max_worker_errors: int = Field(default=3, ge=1)
    eval_concurrency: int | None = Field(default=None, ge=1)
    asynchronous: bool = False
    async_ratio: int = Field(default=3, ge=0)
    max_seconds: float | None = Field(default=None, gt=0.0)
    max_iters: int | None = Field(default=None, ge=1)
    max_rollouts: int | None = Field(default=None, ge=1)
    max_calls: int | None = Field(default=None, ge=1)
    max_attempts: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, gt=0.0)
    stop_when_solved: bool = False
    self_verify: bool = True
    reflect_batch: int = Field(default=1, ge=1)
    held_out_frac: float = Field(default=0.4, gt=0.0, lt=1.0)
    oracle_budget: int = Field(default=200, ge=0)
    cheap_eval_tasks: int | None = Field(default=None, ge=1)
    solved_threshold: float = Field(default=0.999, gt=0.0, le=1.0)
    eval_repeats: int = Field(default=1, ge=1)
    confirm: int = Field(default=0, ge=0)
    evaluation_key: str = ""
    shuffle: bool = False
    seed: int = 0
    resume: Literal["continue"] | None = None
    durability: Literal["process", "power"] = "process"
    exclusive: bool = False
    verbose: bool = False

    @model_validator(mode="after")
    def _one_rollout_budget(self) -> "RunConfig":
        if None not in (self.max_iters, self.max_rollouts) and self.max_iters != self.max_rollouts:
            raise ValueError(
                f"max_iters={self.max_iters} and max_rollouts={self.max_rollouts} are one budget; "
                "give one of them"
            )
        return self

    @property
    def rollout_budget(self) -> int | None:
        """The given number of rollouts, whichever of its two names it came under."""
        return self.max_rollouts if self.max_iters is None else self.max_iters


_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def validated(model: type[M], **values: Any) -> M:
    """Build `model`, turning pydantic's report into one error a caller can act on.

    Raises:
        ValueError: Naming the argument, its value and what it must be.
    """
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(_explained(first["loc"], first)) from None


def _explained(where: tuple[int | str, ...], details: Any) -> str:
    name = ".".join(str(part) for part in where)
    context: dict[str, Any] = details.get("ctx", {})
    for key, sign in _BOUNDS.items():
        if key in context:
            bound = f"{context[key]:g}"
            return f"{name} must be {sign} {bound}, got {details['input']!r}; give a value in range"
    if not name:
        return str(context.get("error", details["msg"]))
    reason = str(details["msg"]).lower()
    return f"{name}={details['input']!r} cannot be used: {reason}"
