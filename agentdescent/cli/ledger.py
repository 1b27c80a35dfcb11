"""The commands that look into the ledger of a run: log, diff, show and rollback."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from agentdescent.cli.display import Output
from agentdescent.cli.endings import UsageError, answerable, printable
from agentdescent.cli.lines import JsonLines, plain
from agentdescent.cli.options import EPILOG, Debug, Json
from agentdescent.cli.settings import RunDirectory
from agentdescent.core.diff import State
from agentdescent.ledger import Changes, Ledger, Version
from agentdescent.ledger.codec import canonical_json

app: typer.Typer = typer.Typer(rich_markup_mode="rich")

_DEFAULT = "artifact"
_STYLES = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}


def _number(text: str) -> int:
    """The version that "3" or "v3" names."""
    try:
        return int(text.removeprefix("v"))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no version: say 3, or v3") from None


def _ledger_of(path: Path) -> Path:
    """The ledger in the directory of a run, or `path`, if it is a ledger itself."""
    inside = RunDirectory(path).ledger
    return inside if inside.is_dir() and not (path / ".git").exists() else path


Repo = Annotated[
    Path,
    typer.Argument(
        callback=_ledger_of,
        metavar="DIR",
        help="What --out or repo_path= was.",
        show_default=False,
    ),
]
VersionNumber = Annotated[
    int, typer.Argument(parser=_number, metavar="VERSION", help="E.g. 3 or v3.")
]
Artifact = Annotated[
    str | None, typer.Option(help="Which artifact; the only one by default.", show_default=False)
]
Branch = Annotated[str, typer.Option(help="dev, or stable, which has what was promoted.")]


@app.command(epilog=EPILOG)
def log(
    *,
    repo: Repo,
    artifact: Artifact = None,
    branch: Branch = "dev",
    number: Annotated[
        int | None, typer.Option("-n", min=1, help="So many of the newest; all by default.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the versions of an artifact, the newest first."""
    with answerable(debug=debug):
        ledger = Ledger(repo)
        versions = ledger.history(_chosen(ledger, artifact, branch), branch)[::-1][:number]
        for version in versions:
            _tell(version, json=json)


@app.command(epilog=EPILOG)
def diff(
    *,
    repo: Repo,
    before: Annotated[int, typer.Argument(parser=_number, metavar="A", help="E.g. 3 or v3.")],
    after: Annotated[int, typer.Argument(parser=_number, metavar="B", help="E.g. 4 or v4.")],
    artifact: Artifact = None,
    branch: Branch = "dev",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what changed between two versions of an artifact, key by key."""
    with answerable(debug=debug):
        ledger = Ledger(repo)
        changes = ledger.diff(before, after, _chosen(ledger, artifact, branch), branch)
        if json:
            _write("Changes", plain(changes))
        else:
            _print(str(changes), _style)


@app.command(epilog=EPILOG)
def show(
    *,
    repo: Repo,
    version: Annotated[
        int | None,
        typer.Argument(parser=_number, metavar="[VERSION]", help="The newest by default."),
    ] = None,
    artifact: Artifact = None,
    branch: Branch = "dev",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one version of an artifact: what its commit says, and its state."""
    with answerable(debug=debug):
        ledger = Ledger(repo)
        chosen = _chosen(ledger, artifact, branch)
        found = ledger.version(version, chosen, branch)
        state = ledger.at(found.number, chosen, branch)
        if json:
            _write("Version", {**plain(found), "artifact": chosen, "state": plain(state)})
        else:
            _print(_shown(found, state))


@app.command(epilog=EPILOG)
def rollback(
    *,
    repo: Repo,
    version: VersionNumber,
    artifact: Artifact = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Commit the state of an old version again, as a new version; history stays as it was.

    A run that is using the ledger goes on from the new version.
    """
    with answerable(debug=debug):
        ledger = Ledger(repo)
        chosen = _chosen(ledger, artifact, "dev")
        newest = ledger.version(artifact=chosen).number
        changes = ledger.diff(newest, version, chosen)
        if changes and not yes:
            _ask(changes, can_ask=sys.stdin.isatty() and not json)
        made = ledger.rollback(version, chosen)
        if made.number == newest and not json:
            _print(f"v{newest} has the state of v{version} already")
        else:
            _tell(made, json=json)


def _chosen(ledger: Ledger, artifact: str | None, branch: str) -> str:
    """The artifact that is meant: the named one, or the only one."""
    if artifact is not None:
        return artifact
    names = list(ledger.artifacts(branch))
    return names[0] if len(names) == 1 else _DEFAULT


def _ask(changes: Changes, *, can_ask: bool) -> None:
    if not can_ask:
        raise UsageError("there is nobody to ask whether to commit: say --yes")
    _print(str(changes), _style)
    typer.confirm("Commit these changes?", abort=True)


def _shown(version: Version, state: State) -> str:
    about = [f"version {version.number}", f"commit  {version.commit}", f"time    {version.time}"]
    message = [version.subject, *([version.body] if version.body else [])]
    values = [f"[{key}]\n{_text(value)}" for key, value in state.items()]
    return "\n\n".join(["\n".join(about), *message, *values])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value, indent=2).rstrip("\n")


def _tell(version: Version, *, json: bool) -> None:
    if json:
        _write("Version", plain(version))
    else:
        _print(str(version))


def _write(event: str, record: Mapping[str, Any]) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if callable(reconfigure):
        # Half a surrogate pair, which UTF-8 cannot carry, comes out as its JSON escape.
        reconfigure(errors="backslashreplace")
    JsonLines().write({"event": event, **record})


def _print(text: str, style: Callable[[str], str] | None = None) -> None:
    """Write text, each line in the style that `style` has for it if this is a terminal."""
    if style and sys.stdout.isatty():
        console = Console(file=sys.stdout, highlight=False)
        for line in printable(text).split("\n"):
            console.print(Text(line, style(line)), soft_wrap=True)
    else:
        Output().say(text)


def _style(line: str) -> str:
    return next((style for start, style in _STYLES.items() if line.startswith(start)), "")
