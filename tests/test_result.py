"""`EvolutionResult` and `RoundInfo`: the figures they derive, and the file they are kept in."""

import json
import math
import os
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import EvolutionResult, RoundInfo, StopReason, Usage
from agentdescent.result import SCHEMA

CLIMB = [
    RoundInfo(
        0, 0.25, 1, 1, 0, {"committed": 1, "no-gain": 2}, elapsed_s=2.0, rollouts=4, calls=30
    ),
    RoundInfo(1, 0.25, 1, 0, 1, {"below-threshold": 1}, elapsed_s=3.5, rollouts=8, calls=44),
    RoundInfo(2, 0.75, 2, 1, 1, {"committed": 1, "below-threshold": 1}, elapsed_s=6.0, rollouts=12),
]


def a_result(**changes):
    whole = EvolutionResult(
        state={"rule": "be brief"},
        rendered="# Playbook\n- be brief",
        final_reward=0.75,
        history=list(CLIMB),
        ledger_log=["1234567 merge w0:1 -> artifact"],
    )
    return replace(whole, **changes)


def test_outcomes_add_up_every_round():
    assert a_result().outcomes() == {"committed": 2, "no-gain": 2, "below-threshold": 2}
    assert a_result(history=[]).outcomes() == {}
    assert a_result(late_outcomes={"no-gain": 1, "no-op": 3}).outcomes() == {
        "committed": 2,
        "no-gain": 3,
        "below-threshold": 2,
        "no-op": 3,
    }


def test_printed_outcomes_are_plain_words():
    info = RoundInfo(0, 0.5, 1, 1, 0, {StopReason.PATIENCE: 1})

    assert str(a_result(history=[info]).outcomes()) == "{'patience': 1}"


@pytest.mark.parametrize(
    ("target", "seconds", "rollouts"),
    [(0.2, 2.0, 4), (0.25, 2.0, 4), (0.5, 6.0, 12), (0.75, 6.0, 12), (0.76, None, None)],
)
def test_quality_is_reached_by_the_first_round_that_has_it(target, seconds, rollouts):
    result = a_result()

    assert result.time_to_quality(target) == seconds
    assert result.cost_to_quality(target) == rollouts


def test_rates_are_shares_of_what_was_looked_at():
    result = a_result(stale_considered=8, stale_discarded=2, cache_hits=3, cache_misses=1)

    assert (result.stale_rate(), result.duplicate_rate()) == (0.25, 0.75)


def test_rates_of_nothing_are_zero():
    assert (a_result().stale_rate(), a_result().duplicate_rate()) == (0.0, 0.0)


def test_cost_summary_is_one_line_with_rollouts_calls_and_seconds():
    usage = Usage(calls=1234, prompt_tokens=10, completion_tokens=5, seconds=1.5)
    result = a_result(rollouts=1200, actor_calls=1234, wallclock=61.25, usage=usage)

    assert result.cost_summary() == (
        "1,200 rollouts, 1,234 actor calls, 61.2s; "
        "1,234 calls, 10 prompt + 5 completion tokens, 1.5s in the model"
    )


@pytest.mark.parametrize("reason", list(StopReason))
def test_a_stop_reason_is_its_plain_word(reason):
    assert reason == reason.value
    assert str(reason) == reason.value
    assert repr(reason) == repr(reason.value)
    assert {reason.value: 1}[reason] == 1


def test_the_file_is_one_json_object_with_the_names_of_the_fields(tmp_path):
    path = tmp_path / "result.json"

    a_result(rendered="Grüße").save(path)

    text = path.read_text(encoding="utf-8")
    record = json.loads(text)
    assert list(record) == ["schema", *(field.name for field in fields(EvolutionResult))]
    assert list(record["history"][0]) == [field.name for field in fields(RoundInfo)]
    assert list(record["usage"]) == [field.name for field in fields(Usage)]
    assert record["schema"] == SCHEMA
    assert "Grüße" in text
    assert '\n  "state": {' in text


def test_the_file_is_as_readable_as_any_other(tmp_path):
    plain, path = tmp_path / "plain.txt", tmp_path / "result.json"
    plain.write_text("", encoding="utf-8")

    a_result().save(path)

    assert path.stat().st_mode == plain.stat().st_mode


def test_a_read_only_state_is_saved_like_any_other(tmp_path):
    path = tmp_path / "result.json"

    a_result(state=MappingProxyType({"rule": "be brief"})).save(path)

    assert EvolutionResult.load(path) == a_result()


counts = st.integers(0, 10**6)
seconds = st.floats(0, 1e6)
shares = st.floats(0, 1)
texts = st.text(st.characters(), max_size=12)
infos = st.builds(
    RoundInfo,
    round=counts,
    held_out_reward=shares,
    n_items=counts,
    committed=counts,
    rejected=counts,
    reasons=st.dictionaries(texts, counts, max_size=3),
    elapsed_s=seconds,
    rollouts=counts,
    calls=counts,
    considered=counts,
    discarded_stale=counts,
    conflicts_dropped=counts,
    fused=counts,
    screened=counts,
    blamed=counts,
)
usages = st.builds(
    Usage,
    calls=counts,
    prompt_tokens=counts,
    completion_tokens=counts,
    seconds=seconds,
    failures=counts,
    provider_calls=st.none() | counts,
)
results = st.builds(
    EvolutionResult,
    state=st.dictionaries(texts, texts, max_size=3),
    rendered=texts,
    final_reward=shares,
    history=st.lists(infos, max_size=3),
    ledger_log=st.lists(texts, max_size=3),
    error=st.none() | texts,
    stop_reason=st.sampled_from(StopReason),
    initial_reward=st.none() | shares,
    version=counts,
    late_outcomes=st.dictionaries(texts, counts, max_size=2),
    warnings=st.lists(texts, max_size=2),
    rollouts=counts,
    actor_calls=counts,
    abandoned=counts,
    wallclock=seconds,
    stale_considered=counts,
    retired_workers=counts,
    usage=usages,
)


@given(results)
def test_a_saved_result_loads_as_it_was(tmp_path_factory, result):
    path = tmp_path_factory.getbasetemp() / "any.json"

    result.save(path)
    loaded = EvolutionResult.load(path)

    assert loaded == result
    assert isinstance(loaded.stop_reason, StopReason)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.json"
    a_result().save(path)
    before = path.read_bytes()

    with pytest.raises(TypeError, match="not JSON serializable"):
        a_result(state={"rule": object()}).save(path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_fails_while_it_replaces_leaves_no_temporary_file(tmp_path):
    taken = tmp_path / "result.json"
    (taken / "held").mkdir(parents=True)

    with pytest.raises(OSError, match=r"result\.json"):
        a_result().save(taken)

    assert list(tmp_path.iterdir()) == [taken]


def test_a_save_replaces_the_file_as_a_whole(tmp_path):
    path = tmp_path / "result.json"
    a_result(rendered="long " * 1000).save(path)

    a_result(rendered="short").save(path)

    assert EvolutionResult.load(path).rendered == "short"
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_through_a_link_leaves_the_link(tmp_path):
    link, path = tmp_path / "newest", tmp_path / "1.json"
    path.touch()
    link.symlink_to(path)

    a_result().save(link)

    assert link.readlink() == path
    assert EvolutionResult.load(path) == a_result()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    a_result(rendered="here").save(pipe)

    assert pipe.is_fifo()
    assert b"here" in os.read(reader, 65536)
    os.close(reader)


def test_a_file_without_cost_fields_loads_with_their_defaults(tmp_path):
    path = tmp_path / "old.json"
    row = {
        "round": 0,
        "held_out_reward": 0.5,
        "n_items": 1,
        "committed": 1,
        "rejected": 0,
        "reasons": {"committed": 1},
    }
    old = {
        "state": {"rule": "be brief"},
        "rendered": "be brief",
        "final_reward": 0.5,
        "error": None,
        "history": [row],
        "retired_workers": 0,
        "forced_refreshes": 2,
        "stragglers": 1,
        "stop_reason": "rounds",
        "ledger_log": [],
    }
    path.write_text(json.dumps(old), encoding="utf-8")

    assert EvolutionResult.load(path) == EvolutionResult(
        state={"rule": "be brief"},
        rendered="be brief",
        final_reward=0.5,
        history=[RoundInfo(0, 0.5, 1, 1, 0, {"committed": 1})],
        forced_refreshes=2,
        stragglers=1,
    )


def test_unknown_fields_are_ignored_at_every_level(tmp_path):
    path = tmp_path / "result.json"
    a_result().save(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    for level in (record, record["history"][0], record["usage"]):
        level["from_the_future"] = 1
    path.write_text(json.dumps(record), encoding="utf-8")

    assert EvolutionResult.load(path) == a_result()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_know_is_refused_by_name(tmp_path, number):
    path = tmp_path / "result.json"
    a_result().save(path)
    before = path.read_bytes()

    with pytest.raises(ValueError, match=r"^state of the result cannot be written.*temperature"):
        a_result(state={"temperature": number}).save(path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_json_for_every_reader(tmp_path):
    path = tmp_path / "result.json"
    a_result().save(path)

    def refuse(word):
        raise AssertionError(word)

    json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_files_of_other_versions_with_this_schema_load(tmp_path):
    path = tmp_path / "result.json"
    record = a_result().record()
    del record["usage"], record["stragglers"], record["history"][0]["blamed"]
    record["mood"] = record["history"][1]["mood"] = record["history"][1]["reasons"]["new"] = 3
    path.write_text(json.dumps(record), encoding="utf-8")

    loaded = EvolutionResult.load(path)

    assert loaded.history == [
        *CLIMB[:1],
        replace(CLIMB[1], reasons=loaded.history[1].reasons),
        CLIMB[2],
    ]
    assert loaded.history[1].reasons == {"below-threshold": 1, "new": 3}
    assert loaded.usage == Usage()


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"schema": SCHEMA + 6, "state": {}}), encoding="utf-8")

    with pytest.raises(ValueError, match=rf"schema {SCHEMA + 6}.*up to {SCHEMA}.*upgrade") as seen:
        EvolutionResult.load(path)

    assert str(path) in str(seen.value)


@pytest.mark.parametrize("content", ["[]", '{"state": {}}', '"text"', "not JSON", "\N{SNOWMAN}"])
def test_a_file_that_is_no_result_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ValueError, match="not a saved EvolutionResult") as seen:
        EvolutionResult.load(path)

    assert str(path) in str(seen.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        EvolutionResult.load(Path(tmp_path) / "nowhere.json")
