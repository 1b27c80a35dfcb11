"""OpenTelemetry: the course of a run as spans, model calls by the GenAI semantic conventions.

It needs the extra `otel`; what is done with the spans is the business of the tracer provider that
the application has set up::

    result = await async_evolve(tasks, reward, agent=agent, on_event=otel.tracing())
"""

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentdescent.core.events import (
    Committed,
    EvaluationFinished,
    Event,
    ModelCalled,
    RolloutFinished,
    RoundEnded,
    RunEnded,
    RunStarted,
)
from agentdescent.core.model_calls import ModelCall
from agentdescent.errors import kind_of
from agentdescent.result import EvolutionResult, RoundInfo

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["Tracing", "tracing"]

_SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"


def tracing(tracer_provider: "TracerProvider | None" = None) -> "Tracing":
    """A listener for `on_event=` that makes spans of one run.

    There is one span for the run and, inside it, one for each round (or sweep), which holds those
    of its rollouts, held-out evaluations and model calls. They carry numbers, names and tokens;
    prompts and replies are not among them.

    Args:
        tracer_provider: Where the spans go; None for the global one.

    Raises:
        ImportError: If OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(
            "tracing needs OpenTelemetry; install it with `pip install 'agentdescent[otel]'`"
        ) from error
    return Tracing(
        trace.get_tracer("agentdescent", tracer_provider=tracer_provider, schema_url=_SCHEMA_URL)
    )


class Tracing:
    """Makes spans of the events of one run; the next run may use it after that one has ended."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self._epoch: int | None = None
        self._run: Span | None = None
        self._round: Span | None = None

    def __call__(self, event: Event) -> None:
        """Make of `event` what it is worth."""
        match event:
            case RunStarted():
                self._annotate(event)
            case ModelCalled(call=call):
                name = f"chat {call.model}"
                error = call.error and (str(call.status) if call.status else kind_of(call.error))
                self._add(name, event.at, call.seconds, _of_call(call), error, is_client=True)
            case RolloutFinished():
                attributes = {
                    "agentdescent.worker": event.worker,
                    "agentdescent.task.id": event.task_id,
                    "agentdescent.version": event.version,
                    "agentdescent.reward": event.reward,
                }
                self._add("rollout", event.at, event.seconds, attributes, kind_of(event.error))
            case EvaluationFinished():
                attributes = {
                    "agentdescent.task.id": event.task_id,
                    "agentdescent.reward": event.reward,
                }
                self._add("evaluation", event.at, event.seconds, attributes, kind_of(event.error))
            case Committed():
                self._in_round(event.at).add_event(
                    "commit", {"agentdescent.version": event.version}, self._time(event.at)
                )
            case RoundEnded(info=RoundInfo() as info):
                self._end_round(event.at, info)
            case RunEnded(result=EvolutionResult() as result):
                self._end_run(event.at, result)
            case _:
                pass

    def _time(self, at: float) -> int:
        """Nanoseconds since 1970 at the loop's time `at`."""
        if self._epoch is None:
            self._epoch = time.time_ns() - int(at * 1e9)
        return self._epoch + int(at * 1e9)

    def _start(self, name: str, at: float, parent: "Span | None", **options: Any) -> "Span":
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - an extra

        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(name, context, start_time=self._time(at), **options)

    def _in_run(self, at: float) -> "Span":
        if self._run is None:
            self._run = self._start("evolve", at, None)
        return self._run

    def _in_round(self, at: float) -> "Span":
        if self._round is None:
            self._round = self._start("round", at, self._in_run(at))
        return self._round

    def _annotate(self, event: RunStarted) -> None:
        _set(
            self._in_run(event.at),
            {
                "agentdescent.artifact.id": event.artifact_id,
                "agentdescent.initial_version": event.version,
                "agentdescent.initial_reward": event.initial_reward,
                "agentdescent.n_train": event.n_train,
                "agentdescent.n_held_out": event.n_held_out,
            },
        )

    def _add(
        self,
        name: str,
        at: float,
        seconds: float,
        attributes: dict[str, Any],
        error: str,
        *,
        is_client: bool = False,
    ) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - an extra

        kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
        span = self._start(name, at - seconds, self._in_round(at - seconds), kind=kind)
        _set(span, attributes)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._time(at))

    def _end_round(self, at: float, info: RoundInfo) -> None:
        span = self._in_round(at)
        span.update_name(f"round {info.round}")
        _set(
            span,
            {
                "agentdescent.round": info.round,
                "agentdescent.reward": info.held_out_reward,
                "agentdescent.committed": info.committed,
                "agentdescent.rejected": info.rejected,
                "agentdescent.calls": info.calls,
            },
        )
        span.end(self._time(at))
        self._round = None

    def _end_run(self, at: float, result: EvolutionResult) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - an extra

        run = self._in_run(at)
        if self._round is not None:
            self._round.end(self._time(at))
        _set(
            run,
            {
                "agentdescent.stop_reason": str(result.stop_reason),
                "agentdescent.reward": result.final_reward,
                "agentdescent.version": result.version,
                "agentdescent.rollouts": result.rollouts,
                "agentdescent.actor_calls": result.actor_calls,
                "agentdescent.usd": result.usage.usd,
            },
        )
        if result.error is not None:
            run.set_attribute("error.type", kind_of(result.error))
            run.set_status(Status(StatusCode.ERROR))
        run.end(self._time(at))
        self._epoch = self._run = self._round = None


def _of_call(call: ModelCall) -> dict[str, Any]:
    tokens, address = call.tokens, urlsplit(call.endpoint)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.response.finish_reasons": (call.finish_reason,) if call.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": call.first_token,
        "server.address": address.hostname,
        "server.port": address.port,
        "http.response.status_code": call.status,
        "http.request.resend_count": call.attempt - 1 or None,
        "agentdescent.role": str(call.role),
        "agentdescent.queued": call.queued,
        "agentdescent.usd": call.usd,
        "agentdescent.cancelled": call.cancelled or None,
    }
    if tokens is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": tokens.input,
            "gen_ai.usage.output_tokens": tokens.output,
            "gen_ai.usage.cache_read.input_tokens": tokens.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": tokens.cache_write,
            "gen_ai.usage.reasoning.output_tokens": tokens.reasoning,
        }
    return attributes


def _set(span: "Span", attributes: dict[str, Any]) -> None:
    """Set what is known."""
    span.set_attributes({key: value for key, value in attributes.items() if value is not None})
