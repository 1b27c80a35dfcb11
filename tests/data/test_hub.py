"""Rows of a hub's data set: each once, however the server behaves."""

import anyio
import pytest

from agentdescent.dataloader import Backoff, ahf_rows, hf_feature_names, hf_rows
from agentdescent.errors import FetchError, RunningLoopError
from support.hub import body, cut_short, hang_up, numbered, stall, status, too_short_a_length

PASSING = {
    "429": status(429, **{"Retry-After": "0"}),
    "408": status(408),
    "500": status(500, b'{"error": "busy"}'),
    "503": status(503),
    "cut body": cut_short,
    "length too small": too_short_a_length,
    "no answer": hang_up,
    "a page of HTML": body(b"<!doctype html><title>Sign in</title>"),
    "no JSON": body(b"\xff"),
    "too deep": body(b"[" * 100_000),
    "no object": body([]),
    "no rows": body({"rows": None}),
    "no row": body({"rows": [7]}),
    "other rows": body({"rows": [{"row_idx": 5, "row": {"n": 5}}]}),
    "rows missing": body({"num_rows_total": 250, "rows": [{"row_idx": 0, "row": {"n": 0}}]}),
    "rows too many": body({"rows": [{"row": {}}] * 101}),
}


def test_every_row_arrives_once_and_in_order(server, rows):
    assert rows(limit=250) == numbered(250)
    assert rows(limit=None) == numbered(250)
    assert server.queries[0] == {
        "path": "/rows",
        "dataset": "a/b",
        "config": "default",
        "split": "train",
        "offset": "0",
        "length": "100",
    }
    assert server.offsets == [0, 100, 200]


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again(server, rows, fault):
    server.faults.extend([fault, fault])

    assert rows(limit=250) == numbered(250)
    assert server.offsets == [0, 0, 0, 100, 200]


def test_a_server_that_stalls_is_asked_again(server, rows):
    server.faults.append(stall)

    assert rows(timeout=0.2) == numbered(100)
    assert server.offsets == [0, 0]


def test_a_server_that_never_answers_is_named_together_with_what_was_asked(server, rows):
    server.faults.extend([stall, stall, stall])

    with pytest.raises(FetchError) as caught:
        rows(timeout=0.05)

    assert str(caught.value) == (
        "rows 0-99 of a/b (config 'default', split 'train'): no answer for 0.05 s (timeout=) "
        "(from 127.0.0.1, attempts: 3)"
    )
    assert caught.value.attempts_made == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (PASSING["500"], "HTTP 500 Internal Server Error; busy"),
        (PASSING["a page of HTML"], "the answer is an HTML page, where JSON was expected"),
        (PASSING["no JSON"], "the answer is 1 bytes that are no JSON"),
        (PASSING["rows missing"], "the answer has 1 rows, where 100 were expected"),
        (PASSING["other rows"], "something else in the place of row 0"),
        (PASSING["no answer"], "Server disconnected without sending a response"),
    ],
)
def test_what_does_not_pass_is_reported_with_its_last_reason(server, rows, fault, reason):
    server.faults.extend([fault] * 3)

    with pytest.raises(FetchError, match=reason):
        rows()


def test_a_page_that_fails_is_named_and_the_others_are_kept(server, rows):
    rows(limit=200)
    server.faults.extend([PASSING["503"]] * 3)

    with pytest.raises(FetchError, match=r"^rows 200-299 of a/b .*HTTP 503"):
        rows(limit=250)

    assert rows(limit=200) == numbered(200)
    assert server.offsets == [0, 100, 200, 200, 200]


def test_a_wait_that_is_asked_for_is_honoured_or_reported(server, rows):
    server.faults.append(status(429, b"slow down", **{"Retry-After": "3600"}))

    with pytest.raises(FetchError, match=r"429 .*; slow down; the server asks to wait 3600 s") as e:
        rows()

    assert (e.value.retry_after_s, e.value.attempts_made) == (3600.0, 1)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_what_cannot_pass_is_not_tried_again(server, rows, code):
    server.faults.append(status(code, b'{"error": "The split does not exist."}'))

    with pytest.raises(FetchError, match=f"HTTP {code} .*; The split does not exist.*attempts: 1"):
        rows()

    assert server.offsets == [0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"<html>", "HTTP 404 Not Found; an HTML page (from"),
        (b"two\n lines", "HTTP 404 Not Found; two lines (from"),
        (b"[1]", "HTTP 404 Not Found; [1] (from"),
        (b"", "HTTP 404 Not Found (from"),
        (b"x" * 500, f"; {'x' * 200} ... (from"),
    ],
)
def test_what_an_error_says_is_made_short(server, rows, answer, said):
    server.faults.append(status(404, answer))

    with pytest.raises(FetchError) as caught:
        rows()

    assert said in str(caught.value)


def test_a_server_without_a_total_is_asked_until_a_page_is_short(server, rows):
    server.has_total = False

    assert rows(limit=None) == numbered(250)
    assert rows(limit=150) == numbered(150)
    assert rows(limit=1000) == numbered(250)
    assert server.offsets == [0, 100, 200]


@pytest.mark.parametrize("total", [0, 1, 99, 100, 101, 200])
@pytest.mark.parametrize("has_total", [True, False])
def test_the_end_of_a_split_is_found(server, rows, total, has_total):
    server.total, server.has_total = total, has_total

    assert rows(limit=None) == numbered(total)


def test_no_rows_need_no_request(server, rows):
    assert rows(limit=0) == []
    assert server.queries == []


def test_a_negative_limit_is_refused(rows):
    with pytest.raises(ValueError, match="limit must be 0 or more, or None for all rows; got -1"):
        rows(limit=-1)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:80", "ftp://host", "http://", "https://[", "http://h:x", "http://h/\x07"]
)
def test_another_server_needs_a_url(url):
    with pytest.raises(ValueError, match="a URL begins with https:// or http:// and a host; got"):
        hf_rows("a/b", "train", base_url=url)


def test_cells_that_were_cut_are_reported(server, rows):
    def edit(entry):
        cut = {70: ["text"], 120: ["text", "image"]}.get(entry["row_idx"], [])
        return {**entry, "truncated_cells": cut}

    server.edit = edit

    with pytest.warns(RuntimeWarning) as caught:
        rows(limit=200)
    [warning] = caught
    assert str(warning.message) == (
        "the server sent only the beginning of cells in 2 rows of a/b (config 'default', split "
        "'train'), first in row 70, in the columns ['image', 'text']; leave these rows or columns "
        "out, or load the data set another way"
    )
    assert rows(limit=70) == numbered(70)


def test_a_split_of_which_the_server_has_only_a_part_is_reported(server, rows):
    server.extra = {"partial": True}

    assert rows(limit=250) == numbered(250)
    with pytest.warns(RuntimeWarning, match="the server has only the first 250 rows of a/b"):
        rows(limit=251)


FEATURES = [
    {"name": "text", "type": {"dtype": "string", "_type": "Value"}},
    {"name": "label", "type": {"names": ["neg", "pos"], "_type": "ClassLabel"}},
    {"name": "tags", "type": {"feature": {"names": ["O", "B"], "_type": "ClassLabel"}}},
    {"name": "listed", "type": [{"names": [1, 2]}]},
    {"name": "empty", "type": []},
    "noise",
]


@pytest.mark.parametrize(
    ("feature", "names"),
    [("label", ["neg", "pos"]), ("tags", ["O", "B"]), ("listed", ["1", "2"])],
)
def test_the_names_of_classes_come_with_the_rows(server, rows, feature, names):
    server.extra = {"features": FEATURES}
    rows()

    assert hf_feature_names("a/b", "train", feature, base_url=server.url) == names
    assert server.offsets == [0]


def test_a_column_without_classes_is_refused_with_those_that_have_some(server):
    server.extra = {"features": FEATURES}

    with pytest.raises(KeyError, match=r"no column 'text' of classes; .*'label', 'listed', 'tags'"):
        hf_feature_names("a/b", "train", "text", base_url=server.url)


@pytest.mark.asyncio
async def test_in_a_running_loop_the_asynchronous_twin_is_named(server):
    with pytest.raises(RunningLoopError, match=r"hf_rows\(\) was .* `await ahf_rows\(\.\.\.\)`"):
        hf_rows("a/b", "train")

    assert await ahf_rows("a/b", "train", base_url=server.url, limit=5) == numbered(5)


@pytest.mark.asyncio
async def test_cancelled_it_keeps_the_pages_that_are_complete(server, entries):
    await ahf_rows("a/b", "train", base_url=server.url)
    server.faults.append(stall)

    with anyio.move_on_after(0.1) as scope:
        await ahf_rows("a/b", "train", base_url=server.url, limit=200)

    assert scope.cancelled_caught
    assert [path.name for path in entries()] == ["rows-000000000"]


def test_one_attempt_is_one(server, rows):
    server.faults.append(PASSING["503"])

    with pytest.raises(FetchError, match="attempts: 1"):
        rows(backoff=Backoff(attempts=1))
