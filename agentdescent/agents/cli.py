"""Agents behind a command line: programs that read a prompt and print an answer."""

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypedDict, Unpack

from agentdescent.agents.cli_output import Answer, read_answer
from agentdescent.agents.completion import Reply
from agentdescent.agents.metering import Counted
from agentdescent.blocking import run_blocking
from agentdescent.calls import ModelCall, RunCalls, current_role, current_run
from agentdescent.core.protocols import WorkspaceAgent
from agentdescent.errors import CommandFailed, CommandNotStarted, RunningLoopError
from agentdescent.process import Finished, Launch, StrPath, clean_environment, run_command
from agentdescent.threads import loop_is_running, on_loop
from agentdescent.usage import Usage

__all__ = ["CliAgent", "WorkspaceAgent", "claude_code", "cli_agent", "codex"]

_PROVIDER = "cli"
"""What calls of programs are told from requests to an API by."""

_SHOWN = 400
"""Characters of a failed agent's words that an error repeats."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"(^|[-_])(key|token|secret|password|passwd)$", re.IGNORECASE)
_CREDENTIALS_IN_URL = re.compile(r"(?<=//)[^/\s@]+@")
_SHORTEST_SECRET = 4

_NETWORK = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
)
_CLAUDE = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
    *_NETWORK,
)
_CODEX = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME", *_NETWORK)

_HOW_TO_GET = {
    "claude": "install Claude Code, for instance by `npm install -g @anthropic-ai/claude-code`",
    "codex": "install the Codex CLI, for instance by `npm install -g @openai/codex`",
}


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class CliAgent:
    """A program as a completion; made by `cli_agent`, `claude_code` and `codex`.

    Awaited with a prompt it runs the program and gives what it printed, stripped. Cancelled, it
    ends the program and whatever that has started, within a second.
    """

    command: tuple[str, ...]
    workspace: StrPath | None
    via_stdin: bool
    timeout: float | None
    env: Mapping[str, str]
    env_passthrough: tuple[str, ...]
    usage: Usage | None
    output: Literal["text", "json"]
    confine: Callable[[Launch], Launch] | None = None

    async def __call__(self, prompt: str) -> str:
        """Ask the program.

        Raises:
            CommandNotStarted: If it could not be started.
            CommandTimeout: If it took longer than the timeout.
            CommandFailed: If its status was not 0, or if it printed no JSON where that is expected.
        """
        run = current_run()
        if run is None or run.is_elsewhere():
            return await self._asked(prompt, self.usage or Usage(), None)
        own = self.usage if self.usage is not run.usage else None
        with await run.admit(provider=_PROVIDER, model=self._model):
            return await self._asked(prompt, own or Usage(), run)

    async def _asked(self, prompt: str, usage: Usage, run: RunCalls | None) -> Reply:
        """The answer; the call is in `usage`, and noted by `run` unless it comes to nothing."""
        with Counted(usage) as call:
            environment = self._environment()
            finished = await self._run(prompt, environment)
            if finished.returncode:
                raise self._failure(
                    finished, finished.stderr.strip() or finished.stdout, environment
                )
            answer = Answer(finished.stdout.strip(), None, "")
            if self.output == "json":
                answer = self._read(finished, environment)
                call.is_counted = True
                _record(usage, answer, finished)
            if run is not None:
                run.note(self._noted(answer, finished))
            if answer.error:
                raise self._failure(finished, answer.error, environment)
            return Reply(
                answer.text.strip(),
                cut=self.output == "text" and finished.stdout_dropped > 0,
                tokens=answer.tokens,
                seconds=finished.seconds,
            )

    def _noted(self, answer: Answer, finished: Finished) -> ModelCall:
        return ModelCall(
            provider=_PROVIDER,
            model=self._model,
            endpoint="",
            role=current_role(),
            seconds=finished.seconds,
            tokens=answer.tokens,
            error=CommandFailed.__name__ if answer.error else "",
        )

    def sync(self, prompt: str) -> str:
        """Ask the program from a script, and wait for the answer.

        Raises:
            RunningLoopError: If an event loop is running in this thread, outside a notebook.
        """
        ask, instead = partial(self, prompt), "await agent(prompt)"
        run = current_run()
        if run is None or run.portal is None:
            return run_blocking(ask, caller="agent.sync(prompt)", instead=instead)
        if loop_is_running():
            raise RunningLoopError(f"sync() was called on a running event loop; use `{instead}`")
        return on_loop(run.portal, ask)

    def in_workspace(self, path: StrPath) -> Self:
        """The same agent, at work in the directory `path`; usage goes to the same account."""
        return replace(self, workspace=path)

    def confined(self, confine: Callable[[Launch], Launch]) -> Self:
        """The same agent, its program started as `confine` says.

        What it is given has no HOME, unless `env_passthrough` or `env` names it.
        """
        return replace(self, confine=confine)

    @property
    def identity(self) -> str:
        """What tells this agent from others: its command and variables, without secrets."""
        settings = (f"{name}={value}" for name, value in sorted(self.env.items()))
        environment = self._environment()
        parts = _without_secrets((*settings, *self.command))
        return f"cli: {shlex.join(_redacted(part, environment) for part in parts)}"

    def __repr__(self) -> str:
        return f"<agent {self.identity}>"

    @property
    def _model(self) -> str:
        return Path(self.command[0]).name

    def _environment(self) -> dict[str, str]:
        home = ("HOME",) if self.confine is None else ()
        return clean_environment((*home, *self.env_passthrough), self.env)

    async def _run(self, prompt: str, environment: Mapping[str, str]) -> Finished:
        command = self.command if self.via_stdin else (*self.command, prompt)
        launch = Launch(command, self.workspace, environment)
        try:
            launch = launch if self.confine is None else self.confine(launch)
            return await run_command(
                launch.command,
                cwd=launch.cwd,
                env=launch.env,
                stdin=prompt if self.via_stdin else None,
                timeout=self.timeout,
                limits=launch.limits,
            )
        except CommandNotStarted as error:
            advice = _advice(self.command[0], error.__cause__)
            if not advice:
                raise
            advised = CommandNotStarted(f"{error}; {advice}")
            advised.attempts_made = error.attempts_made
            raise advised from error.__cause__

    def _failure(
        self, finished: Finished, words: str, environment: Mapping[str, str]
    ) -> CommandFailed:
        said = _redacted(words.strip(), environment)[:_SHOWN] or "no output"
        failure = CommandFailed(
            f"{self.command[0]!r} ended with status {finished.returncode}: {said}"
        )
        failure.returncode = finished.returncode
        return failure

    def _read(self, finished: Finished, environment: Mapping[str, str]) -> Answer:
        try:
            return read_answer(finished.stdout)
        except ValueError as error:
            words = finished.stdout.strip() or finished.stderr
            raise self._failure(finished, f"{error} in: {words}", environment) from None


def cli_agent(
    command: Sequence[StrPath],
    *,
    workspace: StrPath | None = None,
    via_stdin: bool = False,
    timeout: float | None = 600.0,
    env: Mapping[str, str] | None = None,
    env_passthrough: Iterable[str] = (),
    usage: Usage | None = None,
    output: Literal["text", "json"] = "text",
) -> CliAgent:
    """Use a program as a completion, and as an agent that works on files.

    It sees the variables PATH, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR and HOME, those that
    `env_passthrough` names, and `env`; no others. Of what it prints 4 MiB are read; a longer answer
    counts as cut off.

    Args:
        command: The program and its first arguments.
        workspace: The directory it works in; by default ours.
        via_stdin: It reads the prompt from its standard input. By default the prompt is its last
            argument, where one that begins with a dash may be taken for an option, others may read
            it, and 128 KiB are too long.
        timeout: Seconds one call may take; None for as long as it likes.
        env: Variables to set.
        env_passthrough: Names of variables to hand on, such as that of its API key.
        usage: Told of each call; by default the run's own account.
        output: "json" if it prints its answer and its usage as `claude --output-format json` or
            `codex exec --json` do. Then tokens are counted as well.

    Raises:
        TypeError: If `command` is one string.
        ValueError: If it is empty, `timeout` is not positive, or `output` is neither of the two.
    """
    if isinstance(command, str):
        raise TypeError(f"command must be a list, got text; write {shlex.split(command)!r}")
    if not command:
        raise ValueError("command is empty; name at least a program, as in ['claude', '-p']")
    if timeout is not None and timeout <= 0:
        raise ValueError(f"timeout must be positive, got {timeout:g}; None waits for ever")
    if output not in ("text", "json"):
        raise ValueError(f"output must be 'text' or 'json', got {output!r}")
    return CliAgent(
        command=tuple(os.fspath(part) for part in command),
        workspace=workspace,
        via_stdin=via_stdin,
        timeout=timeout,
        env=dict(env or {}),
        env_passthrough=tuple(env_passthrough),
        usage=usage,
        output=output,
    )


class Options(TypedDict, total=False):
    """The arguments of `cli_agent` that `claude_code` and `codex` hand on."""

    via_stdin: bool
    timeout: float | None
    env: Mapping[str, str] | None
    usage: Usage | None


def claude_code(
    workspace: StrPath | None = None,
    extra_args: Iterable[str] = (),
    *,
    env_passthrough: Iterable[str] = (),
    output: Literal["text", "json"] = "text",
    **options: Unpack[Options],
) -> CliAgent:
    """Claude Code without its terminal: `claude -p`, reading the prompt from standard input.

    Args:
        workspace: The directory it works in; by default ours.
        extra_args: More arguments, for instance ``("--model", "haiku")``.
        env_passthrough: Names of variables to hand on besides those of its own API, of its
            configuration and of proxies.
        output: "json" adds `--output-format json` and counts tokens.
        **options: As of `cli_agent`.
    """
    options.setdefault("via_stdin", True)
    form = ("--output-format", "json") if output == "json" else ()
    return cli_agent(
        ("claude", "-p", *form, *extra_args),
        workspace=workspace,
        env_passthrough=(*_CLAUDE, *env_passthrough),
        output=output,
        **options,
    )


def codex(
    workspace: StrPath | None = None,
    extra_args: Iterable[str] = (),
    *,
    env_passthrough: Iterable[str] = (),
    output: Literal["text", "json"] = "text",
    **options: Unpack[Options],
) -> CliAgent:
    """The Codex CLI without its terminal: `codex exec`, reading the prompt from standard input.

    Args:
        workspace: The directory it works in; by default ours.
        extra_args: More arguments, for instance ``("--sandbox", "workspace-write")``.
        env_passthrough: Names of variables to hand on besides those of its own API, of its
            configuration and of proxies.
        output: "json" adds `--json` and counts tokens.
        **options: As of `cli_agent`.
    """
    options.setdefault("via_stdin", True)
    form = ("--json",) if output == "json" else ()
    return cli_agent(
        ("codex", "exec", *form, *extra_args),
        workspace=workspace,
        env_passthrough=(*_CODEX, *env_passthrough),
        output=output,
        **options,
    )


def _record(usage: Usage, answer: Answer, finished: Finished) -> None:
    usage.record(
        prompt_tokens=answer.tokens.input if answer.tokens else 0,
        completion_tokens=answer.tokens.output if answer.tokens else 0,
        seconds=finished.seconds,
        failed=bool(answer.error),
    )


def _advice(program: str, cause: BaseException | None) -> str:
    if isinstance(cause, FileNotFoundError) and cause.filename == program:
        return _HOW_TO_GET.get(Path(program).name, "install it, or give its full path")
    if isinstance(cause, ValueError) or getattr(cause, "errno", None) == errno.E2BIG:
        return "via_stdin=True hands it the prompt in another way"
    return ""


def _without_secrets(parts: Iterable[str]) -> list[str]:
    """`parts` with `***` for the values of options and variables that hold keys or passwords."""
    shown: list[str] = []
    follows_option = False
    for part in parts:
        name, is_set, _ = part.partition("=")
        if follows_option and not part.startswith("-"):
            shown.append("***")
        elif is_set and _SECRET_OPTION.search(name):
            shown.append(f"{name}=***")
        else:
            shown.append(part)
        follows_option = part.startswith("-") and bool(_SECRET_OPTION.search(part))
    return shown


def _redacted(text: str, environment: Mapping[str, str]) -> str:
    """`text` with the names of secret variables in place of their values."""
    secrets = [
        (name, value.strip())
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST_SECRET
    ]
    for name, value in sorted(secrets, key=lambda secret: -len(secret[1])):
        text = text.replace(value, f"[{name}]")
    return _CREDENTIALS_IN_URL.sub("***@", text)
