"""What a run writes down about itself, and what it keeps to itself."""

import json
import threading
from collections import Counter

import anyio
import pytest

from agentdescent import telemetry
from agentdescent.calls import ModelCall, Role
from agentdescent.core.events import ModelCalled
from agentdescent.core.reply import Tokens
from agentdescent.telemetry import SCHEMA, read_telemetry, recording
from support.provider import PRICES, Asking, Provider
from support.worlds import barrier_free, in_rounds

pytestmark = pytest.mark.asyncio


def asking(**settings):
    return Asking(Provider(seconds=0, **settings))


async def recorded(world, path, run=in_rounds, **options):
    result = await run(world, telemetry=path, prices=PRICES, **options)
    return result, list(read_telemetry(path))


@pytest.mark.parametrize("run", [in_rounds, barrier_free])
async def test_there_is_a_line_for_each_call_and_round_and_for_start_and_end(tmp_path, run):
    world = asking()

    result, lines = await recorded(world, tmp_path / "t.jsonl", run, max_calls=60)

    assert Counter(line["event"] for line in lines) == Counter(
        run_start=1,
        seed=1,
        model_call=world.model.served,
        round=len(result.history),
        run_end=1,
    )
    assert (lines[0]["event"], lines[-1]["event"]) == ("run_start", "run_end")
    assert {line["schema"] for line in lines} == {SCHEMA}
    assert len({line["run"] for line in lines}) == 1
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)


async def test_the_lines_add_up_to_the_usage(tmp_path):
    result, lines = await recorded(asking(failing=3), tmp_path / "t.jsonl", rounds=3)

    calls = [line for line in lines if line["event"] == "model_call"]
    assert sum(line["tokens"]["input"] for line in calls if line["tokens"]) == (
        result.usage.prompt_tokens
    )
    assert sum(line["usd"] or 0 for line in calls) == pytest.approx(result.usage.usd)
    assert [line["error"] for line in calls if line["error"]] == ["ConnectionError"] * 3
    end = lines[-1]
    assert (end["stop_reason"], end["final_reward"]) == ("rounds", result.final_reward)
    assert end["usage"]["usd"] == result.usage.usd
    assert end["roles"]["solve"]["calls"] == result.usage.roles["solve"].calls
    assert end["roles"]["solve"]["p50"] == result.usage.roles["solve"].latency.p50


async def test_nothing_that_was_said_is_written(tmp_path):
    secret = "the launch code is 1234"
    call = ModelCall(
        provider="acme",
        model="m1",
        endpoint="https://user:key@api.example.com/v1?token=key",
        role=Role.SOLVE,
        error=f"BadRequest: cannot read {secret}",
    )
    path = tmp_path / "t.jsonl"
    async with recording(path, {}, pytest.fail) as log:
        log(ModelCalled(0.0, call))

    *_, line = read_telemetry(path)
    assert line["endpoint"] == "https://api.example.com/v1"
    assert line["error"] == "BadRequest"
    text = path.read_text()
    assert "1234" not in text
    assert "key" not in text


async def test_prompts_and_outputs_of_a_run_are_not_written(tmp_path):
    world = asking()
    _, _ = await recorded(world, tmp_path / "t.jsonl", rounds=2)

    text = (tmp_path / "t.jsonl").read_text()
    assert "rule0" not in text
    assert "t0-0" not in text


async def test_a_cancelled_run_says_how_it_ended(tmp_path):
    with anyio.move_on_after(0.1):
        await in_rounds(
            Asking(Provider(seconds=0.01)), telemetry=tmp_path / "t.jsonl", rounds=10**6
        )

    *_, end = read_telemetry(tmp_path / "t.jsonl")
    assert (end["event"], end["stop_reason"]) == ("run_end", "interrupted")


async def test_several_runs_share_a_file(tmp_path):
    for _ in range(2):
        await recorded(asking(), tmp_path / "t.jsonl", rounds=1)

    starts = [line for line in read_telemetry(tmp_path / "t.jsonl") if line["event"] == "run_start"]
    assert len({line["run"] for line in starts}) == 2


async def test_missing_directories_are_made(tmp_path):
    _, lines = await recorded(asking(), tmp_path / "a" / "b" / "t.jsonl", rounds=1)

    assert lines[-1]["event"] == "run_end"


async def test_text_beyond_ascii_is_utf8(tmp_path):
    path = tmp_path / "t.jsonl"
    async with recording(path, {"artifact_id": "Grüße \ud800"}, pytest.fail):
        pass

    (line,) = read_telemetry(path)
    assert line["artifact_id"].startswith("Grüße")
    assert "Grüße" in path.read_text(encoding="utf-8")


async def test_a_torn_line_is_left_out_and_the_next_run_begins_a_new_one(tmp_path):
    path = tmp_path / "t.jsonl"
    whole = json.dumps({"schema": 1, "event": "seed"})
    path.write_text(f'{whole}\n{{"schema": 1, "event": "mod')

    assert [line["event"] for line in read_telemetry(path)] == ["seed"]
    async with recording(path, {}, pytest.fail):
        pass
    assert [line["event"] for line in read_telemetry(path)] == ["seed", "run_start"]


async def test_lines_of_a_newer_version_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"schema": 99}\n')

    with pytest.raises(ValueError, match="schema 99; this version reads up to 1: upgrade"):
        list(read_telemetry(path))


async def test_what_is_no_telemetry_has_no_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('[1]\n{"event": 3}\n{"schema": "x"}\n\n\xff\n', encoding="latin-1")

    assert list(read_telemetry(path)) == []


async def test_a_broken_disk_costs_a_warning(tmp_path):
    path = tmp_path / "taken" / "t.jsonl"
    path.parent.write_text("this is a file")

    with pytest.warns(RuntimeWarning, match="telemetry=.* is incomplete: .*Error") as caught:
        result = await in_rounds(asking(), telemetry=path, rounds=2)

    assert result.stop_reason == "rounds"
    assert len(caught) == 1


async def test_a_disk_that_hangs_holds_the_end_back_for_a_while_only(tmp_path, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(telemetry, "_append", lambda *_: free.wait())
    monkeypatch.setattr(telemetry, "GRACE_S", 0.05)
    said = []
    async with recording(tmp_path / "t.jsonl", {}, said.append):
        pass
    free.set()

    assert len(said) == 1
    assert "more than 0.05 s" in said[0]


async def test_calls_are_priced_and_counted_in_buckets(tmp_path):
    world = asking(tokens=Tokens(1000, 100, cache_read=400, reasoning=7))

    _, lines = await recorded(world, tmp_path / "t.jsonl", rounds=1)

    call = next(line for line in lines if line["event"] == "model_call")
    assert call["tokens"] == {
        "input": 1000,
        "output": 100,
        "cache_read": 400,
        "cache_write": 0,
        "reasoning": 7,
    }
    assert (call["provider"], call["model"], call["role"]) == ("acme", "m1", "solve")
    assert call["usd"] == 0.002
