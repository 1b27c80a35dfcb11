"""What importing the package costs, and gives."""

import subprocess
import sys

import pytest

import agentdescent
from agentdescent import agents

HEAVY = ("anyio", "genai_prices", "httpx", "numpy", "pydantic", "pygit2", "tenacity", "typer")


def modules_after(statement):
    program = f"import sys; {statement}; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(ended.stdout.split())


def test_the_package_alone_loads_nothing_heavy():
    assert modules_after("import agentdescent").isdisjoint(HEAVY)


def test_a_run_loads_what_it_needs_when_it_needs_it():
    loaded = modules_after("from agentdescent import evolve, LLMAgent, claude")

    assert loaded.isdisjoint({"genai_prices", "httpx", "numpy", "pygit2", "tenacity", "typer"})


@pytest.mark.parametrize("name", agentdescent.__all__)
def test_every_public_name_is_there(name):
    assert getattr(agentdescent, name) is not None


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        agentdescent.nonsense  # noqa: B018


@pytest.mark.parametrize("name", agents.__all__)
def test_every_name_of_the_actors_is_there(name):
    assert getattr(agents, name) is not None
