"""The knobs of a run, validated once at the edge of the package."""

import warnings
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator


class AggregatorConfig(BaseModel):
    """How strict one merge is. Setting one knob changes no other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_trigger: int = Field(2, ge=1)
    """A bucket of evidence is merged once it holds this many cards."""

    max_wait_rounds: int = Field(1, ge=1)
    """... or once this many `step()` calls have seen it."""

    base_delta: float = Field(0.5, gt=0.0, le=1.0)
    """Accepted risk of a false commit at version 0; halves every `anneal_half_life` versions."""

    anneal_half_life: int = Field(64, ge=1)
    """Versions per halving of the accepted risk, which never falls below 0.01."""

    alpha_head: int = Field(5, ge=0)
    """Commits that evidence on an L1 artifact may lag behind."""

    alpha_tail: int = Field(1, ge=0)
    """Commits that evidence on an L2 artifact may lag behind."""

    lag: Literal["key", "version"] = "key"
    """Count only commits that touched the same keys, or all of them."""

    trust_region_ops: int = Field(6, ge=1)
    """Largest number of keys one incoming diff may set."""

    trust_region_chars: int = Field(32_000, ge=1)
    """Largest length, in characters, of one value an incoming diff sets."""

    max_commit_ops: int | None = Field(None, ge=1)
    """Largest number of keys one commit may set; None for no bound. The rest waits."""

    multiplicity: Literal["sidak", "none"] = "sidak"
    """Correct the gate for the number of rivals it was chosen from, or do not."""

    eval_waves: Literal[1, 2] = 2
    """Score tasks that can be won first (2), or everything at once (1, faster and dearer)."""

    promote_after_k: int = Field(3, ge=1)
    """Regression-free steps before dev is promoted to stable."""

    cas_attempts: int = Field(3, ge=1)
    """Commit attempts when another writer keeps being first."""

    cas_backoff: float = Field(0.05, ge=0.0)
    """Seconds; attempt k waits uniform(0, cas_backoff) * 2**k."""

    accept_samples: int | None = Field(None, exclude=True)
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


def validated(model: type[BaseModel], **values: Any) -> Any:
    """Build `model`, turning pydantic's report into one ValueError a caller can act on."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or model.__name__
        raise ValueError(f"{name}={first['input']!r} is not valid: {first['msg']}") from None
