"""The commands, their options and their help."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from agentdescent.cli import apply, ledger
from agentdescent.cli.display import Output, account
from agentdescent.cli.endings import Exit, answerable
from agentdescent.cli.lines import JsonLines, plain
from agentdescent.cli.options import EPILOG, Debug, Json, Quiet
from agentdescent.result import EvolutionResult

_AGENT = "The agent"
_LEARNING = "What it learns, and from what"
_FILES: dict[str, Any] = {"rich_help_panel": "A directory that evolves"}
_PACE = "How it is done"
_BUDGETS = "When this call ends"

app: typer.Typer = typer.Typer(
    name="agentdescent",
    epilog=EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.add_typer(ledger.app)
app.add_typer(apply.app)


def _version(asked: bool) -> None:  # noqa: FBT001 - the form of an option's callback
    if asked:
        from agentdescent import __version__  # noqa: PLC0415 - that module imports all others

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


@app.command(epilog=EPILOG)
def demo(
    *,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws the problems and one of four conventions.")
    ] = 0,
    local_model: Annotated[
        bool,
        typer.Option(
            "--local-model", help="Teach a real model of 135M parameters, on this machine."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Keep the ledger in this directory; it is continued.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Watch an agent learn what its scorer wants: offline, without a key, in seconds.

    Money problems, and a scorer that wants the answers written in a way that is stated nowhere in
    the prompt. With --local-model the agent is a real small model that learns from worked examples;
    that takes a minute or two.
    """
    output = Output(json=json, quiet=quiet)
    with answerable(debug=debug, on_partial=lambda result: _close(result, output)):
        if local_model:
            from agentdescent.cli import local_demo as chosen  # noqa: PLC0415 - loaded when used
        else:
            from agentdescent.cli import demo as chosen  # noqa: PLC0415 - loaded when used
        _end(chosen.demonstrate(seed, output, out), output)


@app.command(epilog=EPILOG)
def run(  # noqa: PLR0913 - one option each
    *,
    tasks: Annotated[
        Path,
        typer.Argument(
            metavar="TASKS.jsonl",
            help='One task a line: {"prompt": ..., "gold": ..., "id": ...}.',
            dir_okay=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run's directory; one there is goes on.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="The model that solves, as its provider calls it.", rich_help_panel=_AGENT
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Of an OpenAI-compatible API, up to and with /v1.", rich_help_panel=_AGENT
        ),
    ] = None,
    agent_command: Annotated[
        str | None,
        typer.Option(
            help='Instead of a model: a program such as "claude -p".', rich_help_panel=_AGENT
        ),
    ] = None,
    pass_env: Annotated[
        list[str] | None,
        typer.Option(
            help="A variable that the program is given; repeatable.", rich_help_panel=_AGENT
        ),
    ] = None,
    reflect_model: Annotated[
        str | None,
        typer.Option(
            help="Reflects, and judges, instead of the one that solves.", rich_help_panel=_AGENT
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="What evolves: single, rules, keyed:NAME,NAME or fewshot.",
            rich_help_panel=_LEARNING,
        ),
    ] = "rules",
    prompt: Annotated[
        str | None,
        typer.Option(
            help="What the artifact begins with: a file, or the text itself.",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="A directory of files to evolve, instead of a text.", **_FILES),
    ] = None,
    layout: Annotated[
        str, typer.Option(help="Where its agent finds the files; see `tree_runner`.", **_FILES)
    ] = "claude_skill",
    entrypoint: Annotated[
        str | None,
        typer.Option(help='The files are this program, e.g. "python main.py".', **_FILES),
    ] = None,
    test_command: Annotated[
        str | None,
        typer.Option(help='Judges the program; "" for none. By default pytest.', **_FILES),
    ] = None,
    frozen: Annotated[
        list[str] | None, typer.Option(help="A glob that must not change; repeatable.", **_FILES)
    ] = None,
    test_frac: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="The share of tasks seen at the end alone.", **_FILES),
    ] = 0.2,
    reward: Annotated[
        str,
        typer.Option(
            help="exact, contains, number, judge or module:function.", rich_help_panel=_LEARNING
        ),
    ] = "exact",
    held_out_frac: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=0.99,
            help="The share of tasks that only judge.",
            rich_help_panel=_LEARNING,
        ),
    ] = 0.4,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the split into training and held-out tasks.", rich_help_panel=_LEARNING
        ),
    ] = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="Rollouts at once.", rich_help_panel=_PACE)
    ] = 4,
    eval_concurrency: Annotated[
        int | None, typer.Option(min=1, help="Held-out evaluations at once.", rich_help_panel=_PACE)
    ] = None,
    asynchronous: Annotated[
        bool,
        typer.Option(
            "--asynchronous/--in-rounds",
            help="Do workers wait for one another?",
            rich_help_panel=_PACE,
        ),
    ] = False,
    reply_tokens: Annotated[
        int,
        typer.Option(
            min=1, help="The longest reply: max_tokens of the model.", rich_help_panel=_AGENT
        ),
    ] = 4096,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Of the model.", rich_help_panel=_AGENT)
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Stop at this held-out reward.", rich_help_panel=_BUDGETS
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds.", rich_help_panel=_BUDGETS)] = 15,
    max_rollouts: Annotated[
        int | None, typer.Option(min=1, help="Rollouts.", rich_help_panel=_BUDGETS)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds.", rich_help_panel=_BUDGETS)
    ] = None,
    max_calls: Annotated[
        int | None,
        typer.Option(min=1, help="Calls of agent and reflector.", rich_help_panel=_BUDGETS),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(min=1, help="Requests to models, retries included.", rich_help_panel=_BUDGETS),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of models.", rich_help_panel=_BUDGETS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0.0, help="US dollars.", rich_help_panel=_BUDGETS)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Evolve an artifact against the tasks in a file; the same command again goes on with it.

    DIR gets the git ledger, artifact.txt and artifact.json, result.json, telemetry.jsonl and
    run.json. Keys come from OPENAI_API_KEY or ANTHROPIC_API_KEY; a server on this machine needs
    none.
    """
    output = Output(json=json, quiet=quiet)
    with answerable(debug=debug, on_partial=lambda result: _close(result, output)):
        from agentdescent.cli import choices, settings  # noqa: PLC0415 - loaded when used
        from agentdescent.cli import run as runs  # noqa: PLC0415 - loaded when used

        asked = settings.Settings(
            tasks=tasks,
            out=out,
            model=model,
            base_url=base_url,
            agent_command=agent_command,
            reflect_model=reflect_model,
            strategy=strategy,
            prompt=choices.read_prompt(prompt),
            reward=reward,
            held_out_frac=held_out_frac,
            seed=seed,
            files=None
            if directory is None
            else settings.Files(
                directory, layout, entrypoint, test_command, frozen or (), test_frac
            ),
        )
        budgets = settings.Budgets(
            rounds, max_rollouts, seconds, max_calls, max_attempts, max_tokens, max_cost
        )
        pace = runs.Pace(
            workers=workers,
            eval_concurrency=eval_concurrency,
            asynchronous=asynchronous,
            target=target,
            reply_tokens=reply_tokens,
            temperature=temperature,
            pass_env=pass_env or (),
        )
        _end(runs.carry_out(asked, budgets, pace, output), output)


@app.command(epilog=EPILOG)
def serve(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")] = 8071,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve the small local model in the form of the OpenAI API, until Ctrl-C."""
    output = Output(json=json)
    with answerable(debug=debug):
        from agentdescent.cli.local_model import served, weights  # noqa: PLC0415 - loaded late

        with served(weights(), port) as server:
            if json:
                JsonLines().write({"event": "Serving", "base_url": server.base_url})
            output.say(f"serving; try it with: --model local --base-url {server.base_url}")
            server.wait()


@app.command(epilog=EPILOG)
def doctor(
    *,
    call: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Make one real call of this model.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Of an OpenAI-compatible API, for the call.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what is there, what is missing, and how to get it.

    Keys are looked for and never shown. Nothing is missing that everybody needs, so the exit status
    is 0 unless the call fails.
    """
    output = Output(json=json)
    with answerable(debug=debug):
        from agentdescent.cli import doctor as examination  # noqa: PLC0415 - loaded when used

        findings = examination.examine()
        if call is not None:
            findings.append(examination.call(call, base_url))
        if json:
            JsonLines().write({"event": "Findings", "findings": plain(findings)})
        for line in examination.report(findings):
            output.say(line)
        if call is not None and not findings[-1].found:
            raise typer.Exit(Exit.FAILED)


def _end(result: EvolutionResult, output: Output) -> None:
    """Exit as `result` says."""
    if output.json:
        _close(result, output)
    if result.error:
        raise typer.Exit(Exit.FAILED)


def _close(result: EvolutionResult, output: Output) -> None:
    """Show the result of a run that is over."""
    if output.json:
        JsonLines().write({"event": "Result", **plain(result)})
    for line in account(result):
        output.say(line)


def main() -> None:
    """Carry out the command line, and exit."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed by who started us
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # whatever the locale, there is an output
    app(prog_name="agentdescent")
    sys.exit(Exit.OK)
