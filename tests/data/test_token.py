"""Tokens: sent to whom they are meant for, and shown to nobody."""

import pytest

from agentdescent.dataloader import hf_rows, load_gated_hf
from agentdescent.errors import FetchError
from support.hub import TOKEN, body, numbered, status


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_a_token_is_sent_along(server, rows, monkeypatch, variable):
    rows()
    monkeypatch.setenv(variable, f" {TOKEN}\n")
    rows(limit=101)

    assert server.tokens == [None, f"Bearer {TOKEN}"]


def test_a_redirect_to_another_host_is_followed_without_the_token(new_server, monkeypatch):
    first, second = new_server(), new_server()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    first.faults.append(status(302, Location=f"{second.url}/rows?offset=0&length=100"))

    assert hf_rows("a/b", "train", base_url=first.url, limit=5) == numbered(5)
    assert (first.tokens, second.tokens) == ([f"Bearer {TOKEN}"], [None])


@pytest.mark.parametrize(
    "echo",
    [
        status(401, f'{{"error": "bad token {TOKEN}"}}'.encode()),
        status(403, b"x" * 190 + TOKEN.encode()),
        body(f"no JSON {TOKEN}".encode()),
        lambda handler: handler.wfile.write(f"nonsense {TOKEN}\r\n\r\n".encode()),
    ],
)
def test_no_error_shows_the_token(server, rows, entries, monkeypatch, echo):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    server.faults.extend([echo] * 3)

    with pytest.raises(FetchError) as caught:
        rows()

    errors = [caught.value]
    while (inner := errors[-1].__cause__ or errors[-1].__context__) is not None:
        errors.append(inner)
    assert not any(part in f"{e!r} {e}" for e in errors for part in (TOKEN, TOKEN[:8]))
    server.faults.clear()
    rows()
    assert all(TOKEN.encode() not in path.read_bytes() for path in entries())


@pytest.mark.parametrize("wrong", ["two words", "tök", "a\x07b"])
def test_what_cannot_be_a_token_is_refused_without_being_shown(rows, monkeypatch, wrong):
    monkeypatch.setenv("HF_TOKEN", wrong)

    with pytest.raises(ValueError, match="HF_TOKEN holds no token") as caught:
        rows()

    assert wrong not in str(caught.value)


def test_a_denied_data_set_says_what_to_do(server, rows):
    server.faults.append(status(401))

    with pytest.raises(FetchError, match="401 Unauthorized; set HF_TOKEN to a token of an account"):
        rows()


def test_a_gated_data_set_is_not_loaded_without_a_token(server):
    with pytest.warns(
        RuntimeWarning, match="a/b is not loaded: there is no token; .* set HF_TOKEN"
    ):
        assert load_gated_hf("a/b", "test", base_url=server.url) is None
    with pytest.warns(RuntimeWarning, match="set MINE to it"):
        assert load_gated_hf("a/b", "test", base_url=server.url, token_envs=["MINE"]) is None
    assert server.queries == []


def test_a_gated_data_set_is_loaded_with_a_token(server, monkeypatch):
    monkeypatch.setenv("MINE", TOKEN)

    rows = load_gated_hf("a/b", "test", base_url=server.url, token_envs=["MINE"])

    assert rows == numbered(250)
    assert set(server.tokens) == {f"Bearer {TOKEN}"}


def test_a_token_that_does_not_open_a_gated_data_set_is_an_error(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    server.faults.append(status(403, b'{"error": "gated"}'))

    with pytest.raises(FetchError, match=r"HTTP 403 Forbidden; gated; .* accept its terms"):
        load_gated_hf("a/b", "test", base_url=server.url)
