import sys

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as genai
from opentelemetry.trace import SpanKind, StatusCode

from agentdescent import otel
from agentdescent.calls import ModelCall, Role
from agentdescent.core.events import ModelCalled, RoundEnded, RunEnded
from agentdescent.core.reply import Tokens
from agentdescent.result import EvolutionResult, RoundInfo
from support.provider import PRICES, Asking, Provider
from support.worlds import barrier_free, in_rounds

CALL = ModelCall(
    provider="acme",
    model="m1",
    endpoint="https://api.example.com:8443/v1",
    role=Role.JUDGE,
    attempt=2,
    queued=0.5,
    seconds=2.0,
    first_token=0.25,
    status=200,
    finish_reason="stop",
    tokens=Tokens(100, 20, 40, 10, 5),
    usd=0.01,
)
END = RunEnded(20.0, EvolutionResult({}, "", 0.5))


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def listener(exporter):
    provider = TracerProvider(resource=Resource.create({}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield otel.tracing(provider)
    provider.shutdown()


def named(exporter, start):
    return [span for span in exporter.get_finished_spans() if span.name.startswith(start)]


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def test_a_model_call_has_the_conventional_names(listener, exporter):
    listener(ModelCalled(10.0, CALL))
    listener(END)

    (span,) = named(exporter, "chat")
    assert (span.name, span.kind) == ("chat m1", SpanKind.CLIENT)
    assert seconds(span) == pytest.approx(2.0)
    attributes = dict(span.attributes)
    assert attributes == {
        genai.GEN_AI_OPERATION_NAME: genai.GenAiOperationNameValues.CHAT.value,
        genai.GEN_AI_PROVIDER_NAME: "acme",
        genai.GEN_AI_REQUEST_MODEL: "m1",
        genai.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        genai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: 0.25,
        genai.GEN_AI_USAGE_INPUT_TOKENS: 100,
        genai.GEN_AI_USAGE_OUTPUT_TOKENS: 20,
        genai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 40,
        genai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: 10,
        genai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: 5,
        "server.address": "api.example.com",
        "server.port": 8443,
        "http.response.status_code": 200,
        "http.request.resend_count": 1,
        "agentdescent.role": "judge",
        "agentdescent.queued": 0.5,
        "agentdescent.usd": 0.01,
    }


@pytest.mark.parametrize(
    ("status", "expected"), [(429, "429"), (None, "ProviderUnreachable")], ids=str
)
def test_a_failed_call_says_of_which_kind_and_no_more(listener, exporter, status, expected):
    failed = ModelCall(
        provider="acme",
        model="m1",
        endpoint="",
        role=Role.SOLVE,
        status=status,
        error="ProviderUnreachable: no route to the secret host",
    )
    listener(ModelCalled(10.0, failed))
    listener(END)

    (span,) = named(exporter, "chat")
    assert span.attributes["error.type"] == expected
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert genai.GEN_AI_USAGE_INPUT_TOKENS not in span.attributes


def test_rounds_hold_what_happened_in_them_and_the_run_holds_rounds(listener, exporter):
    for number in range(2):
        listener(ModelCalled(10.0 + number, CALL))
        listener(RoundEnded(10.5 + number, RoundInfo(number, 0.5, 1, 1, 0)))
    listener(END)

    (run,) = named(exporter, "evolve")
    rounds = named(exporter, "round")
    assert [span.name for span in rounds] == ["round 0", "round 1"]
    assert {span.parent.span_id for span in rounds} == {run.context.span_id}
    assert [span.parent.span_id for span in named(exporter, "chat")] == [
        span.context.span_id for span in rounds
    ]
    assert seconds(run) == pytest.approx(12.0)  # from the start of the first call


def test_a_run_that_failed_is_an_error(listener, exporter):
    listener(RunEnded(1.0, EvolutionResult({}, "", 0.0, error="RateLimited: 429 slow down")))

    (run,) = named(exporter, "evolve")
    assert run.attributes["error.type"] == "RateLimited"
    assert run.status.status_code is StatusCode.ERROR


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize("evolve", [in_rounds, barrier_free])
async def test_a_whole_run_is_one_tree(listener, exporter, evolve):
    world = Asking(Provider())

    result = await evolve(world, on_event=listener, max_calls=60, prices=PRICES)

    spans = exporter.get_finished_spans()
    (run,) = named(exporter, "evolve")
    assert run.attributes["agentdescent.stop_reason"] == "max_calls"
    assert run.attributes["agentdescent.usd"] == result.usage.usd
    assert run.attributes["agentdescent.initial_reward"] == 0.0
    assert len(named(exporter, "chat")) == world.model.served
    assert len(named(exporter, "rollout")) >= result.rollouts
    assert len(named(exporter, "evaluation")) >= 10
    ended = [span for span in named(exporter, "round") if "agentdescent.round" in span.attributes]
    assert len(ended) == len(result.history)
    assert {span.context.trace_id for span in spans} == {run.context.trace_id}
    commits = [e for span in spans for e in span.events if e.name == "commit"]
    assert len(commits) == result.version - 1


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_next_run_is_another_tree(listener, exporter):
    for _ in range(2):
        await in_rounds(Asking(Provider()), on_event=listener, rounds=1)

    assert len({span.context.trace_id for span in named(exporter, "evolve")}) == 2


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(ImportError, match=r"pip install 'agentdescent\[otel\]'"):
        otel.tracing()
