"""`agentdescent doctor`: what is there, what is missing, and how to get it."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import anyio

from agentdescent.cli.endings import scrubbed
from agentdescent.cli.local_model import install_command, parts
from agentdescent.cli.models import Model
from agentdescent.errors import AgentDescentError

Finder = Callable[[str], Any]

_KEYS = {"OPENAI_API_KEY": "run --model NAME", "ANTHROPIC_API_KEY": "run --model claude-..."}
_ENDPOINTS = {
    "OPENAI_BASE_URL": "https://api.openai.com/v1",
    "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
}
_COMMANDS = {
    "git": ("to look at a ledger", "install git with your system's package manager"),
    "claude": (
        'run --agent-command "claude -p"',
        "npm install -g @anthropic-ai/claude-code",
    ),
    "codex": ('run --agent-command "codex exec"', "npm install -g @openai/codex"),
}
_PACKAGES = {"opentelemetry": ("for traces", "opentelemetry-api", "agentdescent[otel]")}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        section: What kind of thing.
        name: What it is called.
        found: It is there.
        detail: What was found, or what it is good for. Never a secret.
        fix: What to do if it is missing, else "".
    """

    section: str
    name: str
    found: bool
    detail: str
    fix: str = ""


def examine(
    environment: Mapping[str, str] | None = None, which: Finder = shutil.which
) -> list[Finding]:
    """Look for everything that can be used, without using any of it.

    Args:
        environment: Of the process; by default ours.
        which: Finds a program.
    """
    variables = os.environ if environment is None else environment
    return [
        *(_key(name, use, variables) for name, use in _KEYS.items()),
        *(_endpoint(name, default, variables) for name, default in _ENDPOINTS.items()),
        *_local_model(),
        *(_command(name, use, fix, which) for name, (use, fix) in _COMMANDS.items()),
        *(_package(name, *about) for name, about in _PACKAGES.items()),
    ]


def _key(name: str, use: str, variables: Mapping[str, str]) -> Finding:
    if variables.get(name, "").strip():
        return Finding("keys", name, found=True, detail="is set")
    return Finding("keys", name, found=False, detail=f"for {use}", fix=f"export {name}=...")


def _endpoint(name: str, default: str, variables: Mapping[str, str]) -> Finding:
    given = variables.get(name, "").strip()
    detail = scrubbed(given) if given else f"{default} (the default)"
    return Finding("endpoints", name, found=True, detail=detail)


def _local_model() -> list[Finding]:
    return [
        Finding(
            "local model",
            part.requirement,
            found=part.place is not None,
            detail=part.purpose,
            fix="" if part.place else install_command([part]),
        )
        for part in parts()
    ]


def _command(name: str, use: str, fix: str, which: Finder) -> Finding:
    place = which(name)
    if place:
        return Finding("commands", name, found=True, detail=str(place))
    return Finding("commands", name, found=False, detail=f"for {use}", fix=fix)


def _package(module: str, use: str, name: str, requirement: str) -> Finding:
    if find_spec(module) is None:
        fix = f"{sys.executable} -m pip install '{requirement}'"
        return Finding("packages", name, found=False, detail=use, fix=fix)
    return Finding("packages", name, found=True, detail=version(name))


def report(findings: list[Finding]) -> list[str]:
    """The findings for people: a line each, with the fix below what is missing."""
    lines: list[str] = []
    section = ""
    for finding in findings:
        if finding.section != section:
            section = finding.section
            lines.append(f"{section}:")
        lines.append(
            f"  {'ok     ' if finding.found else 'missing'} {finding.name}: {finding.detail}"
        )
        if finding.fix:
            lines.append(f"          fix: {finding.fix}")
    return lines


def call(model: str, base_url: str | None) -> Finding:
    """Ask `model` one question, in earnest."""
    try:
        check = anyio.run(Model(model, base_url).completion().check)
    except AgentDescentError as error:
        return Finding("call", model, found=False, detail=scrubbed(str(error)))
    return Finding("call", model, found=check.ok, detail=scrubbed(str(check)))
