"""How a command ends: its exit status, its signals, and one clear line for what went wrong."""

import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from agentdescent.errors import AgentDescentError, EvolutionInterrupted, TreeError, describe
from agentdescent.result import EvolutionResult

stderr: Console = Console(stderr=True, highlight=False, soft_wrap=True)

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")
_LEAST_SECRET = 6
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Exit(IntEnum):
    """The exit statuses of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    INTERRUPTED = 128 + signal.SIGINT
    TERMINATED = 128 + signal.SIGTERM


class UsageError(Exception):
    """What was asked for cannot be done as it was asked; nothing was started."""


class MissingPart(Exception):
    """Something that is not installed is needed; the message names the command to run."""


class Stopped:
    """Which signal ended the command, if one did."""

    def __init__(self) -> None:
        self.by_sigterm = False

    @property
    def status(self) -> Exit:
        """The exit status of a command that was told to stop."""
        return Exit.TERMINATED if self.by_sigterm else Exit.INTERRUPTED


@contextmanager
def stoppable() -> Generator[Stopped]:
    """Within the block SIGTERM does what Ctrl-C does, and is remembered.

    Ctrl-C works even where a shell has it ignored, as in scripts that put us in the background.
    """
    stopped = Stopped()

    def on_sigterm(_number: int, _frame: FrameType | None) -> None:
        stopped.by_sigterm = True
        signal.raise_signal(signal.SIGINT)

    on_ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    previous = signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGTERM, previous)
        signal.signal(signal.SIGINT, on_ctrl_c)


@contextmanager
def answerable(
    *, debug: bool, on_partial: Callable[[EvolutionResult], object] | None = None
) -> Generator[None]:
    """Turn whatever ends the block into an exit status and at most one line on stderr.

    Args:
        debug: Show the traceback of an error as well.
        on_partial: Told the partial result of a run that was stopped.
    """
    with stoppable() as stopped, warnings_as_lines():
        try:
            yield
        except EvolutionInterrupted as interrupted:
            if on_partial is not None:
                on_partial(interrupted.result)
            raise typer.Exit(stopped.status) from None
        except KeyboardInterrupt:
            complain("stopped before there was a result")
            raise typer.Exit(stopped.status) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:  # noqa: BLE001 - a command line answers in one line
            if debug:
                stderr.print_exception()
            complain(_in_words(error))
            raise typer.Exit(_status_of(error)) from None


def put(out: TextIO, line: str) -> None:
    """Write one line at once; if nobody reads any more, this and all others go nowhere."""
    try:
        out.write(f"{line}\n")
        out.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def complain(message: str, kind: str = "error") -> None:
    """One line on stderr, without secrets."""
    style = "bold red" if kind == "error" else "yellow"
    text = escape(printable(" ".join(message.split())))
    with stderr.capture() as line:
        stderr.print(f"[{style}]{kind}:[/] {text}")
    sys.stderr.write(line.get())  # a live block that is shown has it printed above itself
    sys.stderr.flush()


def scrubbed(text: str) -> str:
    """`text` without what the environment holds as keys, and without names in addresses."""
    for name, value in sorted(_secrets(), key=lambda secret: -len(secret[1])):
        for form in (value, json.dumps(value)[1:-1]):
            text = text.replace(form, f"[{name}]")
    return _IN_ADDRESS.sub("", text)


def printable(text: str) -> str:
    """`text` without secrets and without what would steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", scrubbed(text))


def _secrets() -> Iterator[tuple[str, str]]:
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _LEAST_SECRET:
            yield name, value


def _in_words(error: Exception) -> str:
    if isinstance(error, UsageError | MissingPart | AgentDescentError | ValueError):
        return str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror or describe(error)}: {error.filename}"
    return describe(error)


def _status_of(error: Exception) -> Exit:
    match error:
        case MissingPart():
            return Exit.MISSING
        case TreeError():
            return Exit.USAGE
        case UsageError() | ValueError() if not isinstance(error, AgentDescentError):
            return Exit.USAGE
        case _:
            return Exit.FAILED


@contextmanager
def warnings_as_lines() -> Generator[None]:
    """Within the block every distinct warning is one line on stderr."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = str(message)
        if text not in said:
            said.add(text)
            complain(text, "warning")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield
