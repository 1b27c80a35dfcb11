"""The models and agents that a command line names, as the functions that a run calls."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentdescent.agents.cli import claude_code, cli_agent, codex
from agentdescent.agents.completion import Completion
from agentdescent.agents.llm import LLMAgent, reflector
from agentdescent.agents.providers import ApiCompletion, claude, openai_compatible
from agentdescent.cli.endings import UsageError
from agentdescent.core.prompt import Prompt
from agentdescent.core.protocols import Propose, Run
from agentdescent.core.task import Task
from agentdescent.policy.strategies import chat_turns, worked_example

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Model:
    """A model behind an API.

    Attributes:
        name: As the provider knows it. One that begins with "claude" is asked through the Messages
            API unless there is a base URL, every other one through the Chat Completions API.
        base_url: Where the API is; None for what the environment says.
        reply_tokens: The longest reply.
        temperature: Of the sampling; None leaves that to the server.
    """

    name: str
    base_url: str | None = None
    reply_tokens: int = 4096
    temperature: float | None = None

    def completion(self, **body: Any) -> ApiCompletion:
        """The model as a completion; `body` goes into its requests."""
        if self.name.startswith("claude") and self.base_url is None:
            return claude(
                self.name, max_tokens=self.reply_tokens, temperature=self.temperature, **body
            )
        return openai_compatible(
            self.name,
            base_url=self.base_url,
            api_key=_no_key(self.base_url),
            max_tokens=self.reply_tokens,
            temperature=self.temperature,
            **body,
        )


def _no_key(base_url: str | None) -> str | None:
    """Servers on this machine want no key; others get what the environment holds."""
    host = urlsplit(base_url).hostname if base_url else None
    return "" if host in _LOOPBACK else None


def few_shot_runner(model: Model, prompt: str) -> Run:
    """A `run` that shows the model the worked examples as turns of a conversation."""
    complete = model.completion(system=prompt or None)

    async def run(rendered: str, task: Task) -> str:
        return (await complete(Prompt(task.prompt, turns=chat_turns(rendered)))).stripped()

    return run


def command_completion(command: str, pass_env: Sequence[str]) -> Completion:
    """The program that `command` names; Claude Code and Codex get what they need of our own.

    Raises:
        UsageError: If `command` cannot be split into words, or is empty.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--agent-command {command!r} cannot be read: {error}") from None
    match words:
        case []:
            raise UsageError("--agent-command is empty; give a program, as in 'claude -p'")
        case ["claude", "-p" | "--print", *rest]:
            return claude_code(extra_args=rest, env_passthrough=pass_env)
        case ["codex", "exec", *rest]:
            return codex(extra_args=rest, env_passthrough=pass_env)
        case _:
            return cli_agent(words, env_passthrough=pass_env)


@dataclass(frozen=True, slots=True)
class Actor:
    """Both halves of an actor, as `evolve` takes them."""

    run: Run
    propose: Propose


def actor(
    solver: Model | Completion, reflect: Completion | None, *, few_shot: bool, prompt: str
) -> Actor:
    """The actor that `solver` makes; `reflect` looks at its failures, by default itself.

    With worked examples no model reflects unless one is named: a failed task and its gold answer
    are an example.
    """
    completion = solver.completion() if isinstance(solver, Model) else solver
    agent = LLMAgent(completion)
    run: Run = agent.solve
    if few_shot and isinstance(solver, Model):
        run = few_shot_runner(solver, prompt)
    if reflect is not None:
        return Actor(run, reflector(reflect))
    return Actor(run, worked_example() if few_shot else reflector(completion))
