"""One call each: a text, a skill, agent definitions or a program, evolved, tested, written back."""

from agentdescent.frontends.code import (
    PYTEST,
    TESTS,
    async_evolve_agent_code,
    evolve_agent_code,
)
from agentdescent.frontends.directories import (
    async_evolve_agent_dir,
    async_evolve_skill_dir,
    evolve_agent_dir,
    evolve_skill_dir,
)
from agentdescent.frontends.evolved import BeforeAfter, Evolved
from agentdescent.frontends.text import async_evolve_skill, evolve_skill
from agentdescent.frontends.writing import Origin

__all__ = [
    "PYTEST",
    "TESTS",
    "BeforeAfter",
    "Evolved",
    "Origin",
    "async_evolve_agent_code",
    "async_evolve_agent_dir",
    "async_evolve_skill",
    "async_evolve_skill_dir",
    "evolve_agent_code",
    "evolve_agent_dir",
    "evolve_skill",
    "evolve_skill_dir",
]
