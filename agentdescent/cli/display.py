"""Which display a run gets: the live block, plain lines, JSON, or none."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console

from agentdescent.cli.board import Board
from agentdescent.cli.endings import printable, put
from agentdescent.cli.lines import JsonLines, PlainLines
from agentdescent.cli.live import LiveBlock
from agentdescent.core.events import Event
from agentdescent.result import EvolutionResult

LEAST_WIDTH = 30

Listener = Callable[[Event], object]


@dataclass(frozen=True, slots=True)
class Output:
    """How the user wants to be told.

    Attributes:
        json: One JSON object a line, and nothing else, on stdout.
        quiet: Nothing while it goes on.
    """

    json: bool = False
    quiet: bool = False

    def say(self, text: str = "") -> None:
        """A line of prose; there is none in JSON."""
        if not self.json:
            put(sys.stdout, printable(text))


@contextmanager
def shown(board: Board, title: str, output: Output) -> Generator[Sequence[Listener]]:
    """The listeners of a run whose progress is shown within the block; `board` is one of them."""
    if output.json:
        yield [board, JsonLines()]
    elif output.quiet:
        yield [board]
    elif is_lively(sys.stdout):
        with LiveBlock(board, Console(file=sys.stdout, highlight=False), title) as block:
            yield [board, block]
    else:
        yield [board, PlainLines()]


def is_lively(stream: TextIO) -> bool:
    """True if lines on `stream` can be redrawn: a terminal, no dumb one, and not too narrow."""
    if not stream.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return Console(file=stream).width >= LEAST_WIDTH


def account(result: EvolutionResult) -> list[str]:
    """What a run came to and what it took, for people."""
    test = getattr(result, "test", None)
    return [*outcome(result), *([str(test)] if test else []), result.cost_summary()]


def outcome(result: EvolutionResult) -> list[str]:
    """What a run came to."""
    before = "?" if result.initial_reward is None else f"{result.initial_reward:.3f}"
    ending = f"incomplete: {result.error}" if result.error else str(result.stop_reason)
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(result.outcomes().items()))
    return [
        f"held-out reward {before} -> {result.final_reward:.3f} ({ending})",
        *([f"outcomes: {outcomes}"] if outcomes else []),
    ]
