"""Files from the web."""

import pytest

from agentdescent.data.files import _is_hub
from agentdescent.dataloader import afetch_bytes, afetch_text, fetch_bytes, fetch_text
from agentdescent.errors import FetchError
from support.hub import QUICK, cut_short


def test_a_file_is_downloaded_once(server):
    server.files["/a.bin"] = b"\x00\xff"

    assert fetch_bytes(f"{server.url}/a.bin") == b"\x00\xff"
    assert fetch_bytes(f"{server.url}/a.bin") == b"\x00\xff"
    assert len(server.queries) == 1
    assert fetch_bytes(f"{server.url}/a.bin", cache=False) == b"\x00\xff"
    assert len(server.queries) == 2


def test_a_query_is_part_of_what_is_asked(server):
    server.files["/a"] = b"x"

    fetch_bytes(f"{server.url}/a?v=1")
    fetch_bytes(f"{server.url}/a?v=2")

    assert [query["v"] for query in server.queries] == ["1", "2"]


def test_long_urls_with_one_ending_do_not_share_an_entry(server):
    end = "x" * 200
    server.files |= {f"/1{end}": b"1", f"/2{end}": b"2"}

    for _ in range(2):
        assert [fetch_bytes(f"{server.url}/{n}{end}") for n in (1, 2)] == [b"1", b"2"]
    assert len(server.queries) == 2


def test_a_cut_file_is_downloaded_again(server):
    server.files["/a"] = b"half"
    server.faults.append(cut_short)

    assert fetch_text(f"{server.url}/a", backoff=QUICK) == "half"


def test_a_missing_file_is_named_without_what_may_be_secret(server):
    url = server.url.replace("http://", "http://user:password@")

    with pytest.raises(FetchError) as caught:
        fetch_bytes(f"{url}/none?signature=abc")

    assert str(caught.value) == (
        f"{server.url}/none?...: HTTP 404 Not Found; no such thing (from 127.0.0.1, attempts: 1)"
    )


def test_a_refusal_by_any_host_says_nothing_of_the_hub(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server.faults.append(lambda handler: handler.answer(b"", 403))

    with pytest.raises(FetchError, match=r"HTTP 403 Forbidden \(from"):
        fetch_bytes(f"{server.url}/a")

    assert server.tokens == [None]


@pytest.mark.parametrize(
    ("scheme", "host", "is_hub"),
    [
        ("https", "huggingface.co", True),
        ("https", "datasets-server.huggingface.co", True),
        ("https", "hf.co", True),
        ("http", "huggingface.co", False),
        ("https", "nothuggingface.co", False),
        ("https", "huggingface.co.example.org", False),
    ],
)
def test_the_hubs_token_goes_to_the_hub_alone(scheme, host, is_hub):
    assert _is_hub(scheme, host) is is_hub


def test_text_is_decoded_without_its_byte_order_mark(server):
    server.files |= {"/utf8": b"\xef\xbb\xbfh\xc3\xa9", "/latin1": b"h\xe9"}

    assert fetch_text(f"{server.url}/utf8") == "hé"
    assert fetch_text(f"{server.url}/latin1", encoding="latin-1") == "hé"
    assert fetch_text(f"{server.url}/latin1", errors="replace") == "h\ufffd"


def test_text_in_another_encoding_is_refused(server):
    server.files["/latin1"] = b"h\xe9"

    with pytest.raises(
        ValueError, match=r"latin1 is not utf-8: byte 0xe9 at position 1 .*encoding="
    ):
        fetch_text(f"{server.url}/latin1")


def test_what_is_no_url_is_refused_without_what_may_be_secret():
    with pytest.raises(ValueError, match=r"begins with https:// .*; got 'host/x'$"):
        fetch_bytes("user:password@host/x?key=secret")


def test_offline_a_missing_file_is_named(server, monkeypatch):
    monkeypatch.setenv("AGENTDESCENT_OFFLINE", "1")

    with pytest.raises(FetchError, match=r"/a\.txt: AGENTDESCENT_OFFLINE forbids .*_a_txt-\w{16};"):
        fetch_text(f"{server.url}/a.txt")


@pytest.mark.asyncio
async def test_the_asynchronous_twins_do_the_same(server):
    server.files["/a"] = b"x"

    assert await afetch_bytes(f"{server.url}/a") == b"x"
    assert await afetch_text(f"{server.url}/a") == "x"
