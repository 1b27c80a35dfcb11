"""`agentdescent apply`: what a run has made of a directory takes its place."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentdescent.cli.display import Output
from agentdescent.cli.endings import UsageError, answerable
from agentdescent.cli.lines import JsonLines, plain
from agentdescent.cli.options import EPILOG, Debug, Json

if TYPE_CHECKING:
    from agentdescent.frontends.evolved import Evolved
    from agentdescent.trees import WritePlan

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog=EPILOG)
def apply(
    *,
    out: Annotated[
        Path, typer.Argument(metavar="RUN", help="The --out of the run.", show_default=False)
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="Another directory than the run began with.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also what the test tasks do not support.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Put the directory that a run has evolved in the place of the one it began with.

    The old one is kept beside it, with a note of the version and its rewards. Nothing is done if
    the directory has changed since the run began, or if the test reward is lower than before.
    """
    with answerable(debug=debug):
        result = _result(out)
        if not (result.is_supported or anyway or dry_run):
            raise UsageError(
                f"{result.test or 'the test tasks were not measured'}; nothing was written; "
                "--anyway does it nevertheless"
            )
        plan = result.write_to(to, prune=True, dry_run=dry_run)
        if json:
            JsonLines().write({"event": "WritePlan", **plain(plan)})
        for line in _told(plan, dry_run=dry_run):
            Output(json=json).say(line)


def _result(out: Path) -> "Evolved":
    from agentdescent.frontends.evolved import Evolved  # noqa: PLC0415 - not needed for --help

    file = out / "result.json"
    if not file.is_file():
        raise UsageError(f"{out} holds no run that has come to a result; give the --out of one")
    result = Evolved.load(file)
    if result.origin is None:
        raise UsageError(f"the run in {out} evolved a text, not a directory; see artifact.txt")
    return result


def _told(plan: "WritePlan", *, dry_run: bool) -> list[str]:
    if not plan["written"] and not plan["deleted"]:
        return ["nothing to do: it is as the run has made it"]
    if dry_run:
        return [plan["diff"].rstrip("\n")]
    deleted = [f"deleted: {', '.join(plan['deleted'])}"] if plan["deleted"] else []
    written = [f"written: {', '.join(plan['written'])}"] if plan["written"] else []
    backup = [f"backup:  {plan['backup']}"] if plan["backup"] else []
    return [*written, *deleted, *backup]
