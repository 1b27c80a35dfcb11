import pytest

from agentdescent.usage import Usage


@pytest.fixture
def account():
    return Usage()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
