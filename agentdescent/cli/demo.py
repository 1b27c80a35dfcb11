"""`agentdescent demo`: an evolution that needs no network, no key and no model."""

from pathlib import Path

from agentdescent.api import evolve
from agentdescent.cli.board import Board
from agentdescent.cli.display import Output, outcome, shown
from agentdescent.cli.problems import (
    CATEGORIES,
    PROMPT,
    convention_of,
    problems,
    reflect,
    reward,
    solve,
)
from agentdescent.policy.strategies import KeyedRules
from agentdescent.result import EvolutionResult
from agentdescent.usage import Usage

ROUNDS = 12
WORKERS = 4


def demonstrate(seed: int, output: Output, directory: Path | None) -> EvolutionResult:
    """Learn the convention that `seed` draws, and tell the story; the ledger goes to `directory`.

    Raises:
        EvolutionInterrupted: On Ctrl-C, with the partial result.
    """
    convention = convention_of(seed)
    tasks = problems(convention, seed)
    sample = tasks[0]
    output.say(f"The agent's prompt:  {PROMPT}")
    output.say(f"A problem:           {sample.prompt}")
    output.say(f"It answers:          {solve(PROMPT, sample)}")
    output.say(f"The scorer wants:    {sample.meta['gold']}")
    output.say("Nobody tells the agent why. It has to be learnt from forty such problems.\n")

    board = Board({"rounds": ROUNDS}, Usage())
    with shown(board, "agentdescent demo", output) as listeners:
        result = evolve(
            tasks,
            reward,
            run=solve,
            propose=reflect,
            strategy=KeyedRules(CATEGORIES, PROMPT, allow_new=False),
            n_workers=WORKERS,
            rounds=ROUNDS,
            target_reward=1.0,
            repo_path=directory,
            seed=seed,
            on_event=listeners,
            usage=board.usage,
        )
    _report(result, seed, output, directory)
    return result


def _report(result: EvolutionResult, seed: int, output: Output, directory: Path | None) -> None:
    if output.json:
        return
    sample = problems(convention_of(seed), seed)[0]
    output.say()
    for line in outcome(result):
        output.say(line)
    output.say("\nThe prompt has become\n")
    for line in result.rendered.splitlines():
        output.say(f"    {line}")
    output.say(
        f"\nand the agent now answers {solve(result.rendered, sample)} to the problem above."
    )
    output.say(f"The scorer's convention was: {convention_of(seed)}.\n")
    if directory is not None:
        output.say(f"How it came about:        git -C {directory} log -p dev")
    output.say(f"Another convention:       agentdescent demo --seed {seed + 1}")
    output.say("With a real small model:  agentdescent demo --local-model")
    output.say("With tasks of your own:   agentdescent run --help")
