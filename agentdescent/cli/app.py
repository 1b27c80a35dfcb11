"""The commands, their options and their help."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from agentdescent.cli.display import Output
from agentdescent.cli.endings import Exit, answerable
from agentdescent.result import EvolutionResult

_EPILOG = (
    "Exit status: 0 done; 1 the run ended in an error; 2 wrong usage, nothing was started; "
    "3 a needed part is not installed; 130 stopped by Ctrl-C; 143 stopped by SIGTERM."
)

app = typer.Typer(
    name="agentdescent",
    help="Evolve prompts, rules and worked examples of an agent against tasks of your own.",
    epilog=_EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while it goes on.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(asked: bool) -> None:  # noqa: FBT001 - the form of an option's callback
    if asked:
        from agentdescent import __version__  # noqa: PLC0415 - the package imports no floor above

        typer.echo(f"agentdescent {__version__}")
        raise typer.Exit


@app.callback()
def agentdescent(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Evolve prompts, rules and worked examples of an agent against tasks of your own."""
    del version


@app.command(epilog=_EPILOG)
def demo(
    *,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws the problems and one of four conventions.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Keep the ledger in this directory; it is continued.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Watch an agent learn what its scorer wants: offline, without a key, in seconds.

    Money problems, and a scorer that wants the answers written in a way that is stated nowhere in
    the prompt.
    """
    output = Output(json=json, quiet=quiet)
    with answerable(debug=debug, on_partial=lambda result: _close(result, output)):
        from agentdescent.cli.demo import demonstrate  # noqa: PLC0415 - loaded when used

        _end(demonstrate(seed, output, out), output)


def _end(result: EvolutionResult, output: Output) -> None:
    """Exit as `result` says."""
    if output.json:
        _close(result, output)
    if result.error:
        raise typer.Exit(Exit.FAILED)


def _close(result: EvolutionResult, output: Output) -> None:
    """Show the result of a run that is over."""
    from agentdescent.cli.display import account  # noqa: PLC0415
    from agentdescent.cli.lines import JsonLines, plain  # noqa: PLC0415

    if output.json:
        JsonLines().write({"event": "Result", **plain(result)})
        return
    for line in account(result):
        output.say(line)


def main() -> None:
    """Carry out the command line, and exit."""
    app(prog_name="agentdescent")
    sys.exit(Exit.OK)
