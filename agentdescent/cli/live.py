"""The live block: how a run goes, redrawn in place while it goes on."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agentdescent.cli.board import Board, Budget, sparkline
from agentdescent.cli.endings import printable
from agentdescent.core.events import Event

REDRAWS_PER_SECOND = 8
_LABEL = 9
_STAGES = ("rollouts", "proposals", "evaluations", "merges", "commits", "failures")


class LiveBlock:
    """A listener that shows a `Board` on a terminal, within a ``with`` block.

    It is redrawn at most 8 times a second by a thread of its own, so that the clock goes on while
    models think, and stays as it was last when the block ends.
    """

    def __init__(self, board: Board, console: Console, title: str) -> None:
        self._board = board
        self._live = Live(
            _Drawing(board, title),
            console=console,
            refresh_per_second=REDRAWS_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=True,  # warnings go above the block
        )

    def __call__(self, event: Event) -> None:
        """The board listens for itself; the next redrawing shows `event`."""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


class _Drawing:
    def __init__(self, board: Board, title: str) -> None:
        self._board = board
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(8, options.max_width - _LABEL - 2)
        table = Table.grid(padding=(0, 1), expand=False)
        table.add_column(style="dim", no_wrap=True, width=_LABEL)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=room)
        for label, line in rows(self._board, room):
            table.add_row(label, line)
        yield Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        yield table


def rows(board: Board, room: int) -> Iterator[tuple[str, Text]]:
    """The lines of the block, each with its label, for `room` columns."""
    yield "reward", _reward(board, room)
    counts = dict(board.counts)
    yield (
        "stages",
        Text(
            "  ".join(f"{stage} {counts[stage]}" for stage in _STAGES if counts.get(stage))
            or "measuring what there is"
        ),
    )
    if board.last_merge:
        yield "merge", Text(printable(board.last_merge))
    tally = sorted(dict(board.outcomes).items())
    if any(count for _, count in tally):
        yield "outcomes", Text("  ".join(f"{name} {count}" for name, count in tally if count))
    if board.trouble:
        yield "trouble", Text(printable(board.trouble), style="yellow")
    yield "spent", Text("  ".join(map(_spent, board.budgets())) or _seconds(board.elapsed))
    if board.ended is None:
        yield "left", Text(_left(board))


def _reward(board: Board, room: int) -> Text:
    rewards = list(board.rewards)
    if not rewards:
        return Text("not known yet", style="dim")
    text = Text(f"{rewards[-1]:.3f}", style="bold green" if rewards[-1] > rewards[0] else "bold")
    figures = f"  from {rewards[0]:.3f}, version {board.version}"
    text.append("  " + sparkline(rewards, max(4, room - len(figures) - 8)), style="cyan")
    return text.append(figures, style="dim")


def _spent(budget: Budget) -> str:
    if budget.name == "seconds":
        return f"{_seconds(budget.used)} of {_seconds(budget.limit)}"
    if budget.name == "cost":
        return f"${budget.used:.4f} of ${budget.limit:g}"
    return f"{budget.name} {budget.used:,.0f} of {budget.limit:,.0f}"


def _left(board: Board) -> str:
    eta = board.eta()
    if eta is None:
        return "nobody can say yet" if board.limits else "until it is solved"
    seconds, name = eta
    return f"at most about {_seconds(seconds)}, then {name} are spent"


def _seconds(seconds: float) -> str:
    whole = round(seconds)
    return f"{seconds:.1f} s" if seconds < 60 else f"{whole // 60} min {whole % 60:02} s"
