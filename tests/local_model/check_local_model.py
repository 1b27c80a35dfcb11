"""The command line with the real local model; `nox -s local_model` runs this, nothing else does."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agentdescent import EvolutionResult
from agentdescent.cli.local_demo import prices
from agentdescent.telemetry import read_telemetry

COMMAND = [sys.executable, "-m", "agentdescent"]
SECONDS = 900

pytestmark = pytest.mark.timeout(SECONDS)


@contextmanager
def started(*arguments, cwd):
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, cwd=cwd) as it:
        try:
            yield it
        finally:
            it.kill()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_demo_teaches_the_model(seed, tmp_path):
    command = [*COMMAND, "demo", "--local-model", "--json", "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=tmp_path)

    told = {record["event"]: record for record in map(json.loads, done.stdout.splitlines())}
    result, fresh, accounts = told["Result"], told["Fresh"], told["Accounts"]
    print(
        f"seed {seed}: {result['initial_reward']} -> {result['final_reward']}, {fresh}, {accounts}"
    )
    assert result["initial_reward"] <= 0.2
    assert result["final_reward"] >= 0.8
    assert fresh["before"] <= 0.2
    assert fresh["after"] >= 0.8
    ours, theirs = accounts["run"], accounts["server"]
    for name in ("calls", "failed", "prompt_tokens", "completion_tokens"):
        assert ours[name] == theirs[name]
    for name in ("p50", "p90"):
        assert theirs[name] <= ours[name] <= 1.25 * theirs[name] + 0.1


def test_a_run_that_is_killed_half_way_goes_on(tmp_path):
    with (tmp_path / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for task in prices(5, 40):
            file.write(json.dumps({"id": task.id, "prompt": task.prompt, **task.meta}) + "\n")

    with started("serve", "--port", "0", "--json", cwd=tmp_path) as server:
        base_url = json.loads(server.stdout.readline())["base_url"]
        run = [
            *("run", "tasks.jsonl", "--model", "local", "--base-url", base_url, "--out", "out"),
            *("--strategy", "fewshot", "--reply-tokens", "24", "--temperature", "0"),
            *("--workers", "1", "--eval-concurrency", "4", "--rounds", "8", "--target", "0.9"),
        ]
        with started(*run, cwd=tmp_path) as killed:
            for line in killed.stdout:
                if "committed" in line:
                    break
        again = subprocess.run(
            [*COMMAND, *run], stdout=subprocess.PIPE, text=True, check=True, cwd=tmp_path
        )

    result = EvolutionResult.load(tmp_path / "out" / "result.json")
    print(again.stdout)
    assert killed.returncode == -9
    assert "finishes the run in out" in again.stdout
    assert result.initial_reward == 0 < result.final_reward
    assert result.resumed_from.whole
    assert result.resumed_from.evaluations > 0
    assert result.rendered == (tmp_path / "out" / "artifact.txt").read_text().rstrip("\n")
    events = [line["event"] for line in read_telemetry(tmp_path / "out" / "telemetry.jsonl")]
    assert (events.count("run_start"), events.count("run_end")) == (2, 1)
