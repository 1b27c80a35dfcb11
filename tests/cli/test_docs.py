"""The page about the command line tells the truth."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from agentdescent.cli.app import app
from agentdescent.cli.endings import Exit

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands


def commands(fence):
    blocks = re.findall(rf"^```{fence}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("agentdescent ")]


def options_of(name):
    return {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("line", commands("bash"))
def test_commands_that_need_nothing_run(agentdescent, line):
    assert agentdescent(*shlex.split(line)[1:]).returncode == 0


@pytest.mark.parametrize("line", commands("console"))
def test_commands_that_need_a_model_are_understood(line):
    name, *rest = shlex.split(line)[1:]

    assert {word for word in rest if word.startswith("--")} <= options_of(name)


def test_every_option_of_run_is_explained():
    explained = set(re.findall(r"`(--[a-z-]+)`", PAGE))

    assert {option for option in options_of("run") if option.startswith("--")} <= explained


def test_every_exit_status_is_explained():
    table = PAGE.partition("| exit status | |")[2].partition("\n\n")[0]

    assert {int(number) for number in re.findall(r"\b\d+\b", table)} == set(map(int, Exit))
