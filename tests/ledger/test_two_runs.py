"""Whole runs that share a path, in one process and in two."""

import json

import anyio
import pytest

from agentdescent import AggregatorConfig, Ledger, async_evolve
from agentdescent.core.events import RunStarted
from agentdescent.errors import LedgerRefused
from agentdescent.ledger import GitLedger
from faults.children import check_with_git
from support.worlds import Theirs, World

pytestmark = pytest.mark.asyncio

IN_ROUNDS = {"asynchronous": False, "max_concurrency": 4, "rounds": 8}
BARRIER_FREE = {"asynchronous": True, "max_iters": 40, "max_seconds": 30}
AT_ONCE = AggregatorConfig(cas_attempts=1)
OURS = {f"rule{n}" for n in range(4)}
THEIRS = {f"other{n}" for n in range(4)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def rules(rendered):
    return {line[2:] for line in rendered.splitlines() if line.startswith("- ")}


async def evolve(world, path, schedule=IN_ROUNDS, **options):
    world.run_s = 0.02
    return await async_evolve(
        **world.parts, **schedule, **options, n_workers=4, repo_path=path, evaluation_key="v1"
    )


async def at_once(*runs):
    """The results of some runs at once."""
    results = [None] * len(runs)

    async def keep(place, run):
        results[place] = await run

    async with anyio.create_task_group() as group:
        for place, run in enumerate(runs):
            group.start_soon(keep, place, run)
    return results


@pytest.mark.parametrize("schedule", [IN_ROUNDS, BARRIER_FREE], ids=["rounds", "barrier-free"])
async def test_both_keep_what_they_have_learned(path, schedule):
    ours, theirs = await at_once(evolve(World(), path, schedule), evolve(Theirs(), path, schedule))

    assert (ours.error, theirs.error) == (None, None)
    assert ours.final_reward == theirs.final_reward == 1.0
    assert rules(ours.rendered) >= OURS
    assert rules(theirs.rendered) >= THEIRS
    newest = max(ours, theirs, key=lambda result: result.version)
    assert Ledger(path).at() == newest.state
    assert rules(newest.rendered) == OURS | THEIRS
    check_with_git(path)


async def test_a_commit_that_was_too_late_counts_as_a_conflict(path):
    results = await at_once(
        evolve(World(), path, agg_config=AT_ONCE), evolve(Theirs(), path, agg_config=AT_ONCE)
    )

    assert sum(result.cas_conflicts for result in results) > 0
    for result in results:
        assert result.outcomes().get("cas-conflict", 0) == result.cas_conflicts
        assert result.final_reward == 1.0


async def test_exclusive_refuses_the_second(path):
    inside = anyio.Event()

    async def first():
        return await evolve(World(), path, on_round=lambda _: inside.set())

    async def second():
        await inside.wait()
        world = Theirs()
        with pytest.raises(LedgerRefused, match=r"\(process \d+ on .*\) has it open"):
            await evolve(world, path, exclusive=True)
        assert not world.calls

    result, _ = await at_once(first(), second())

    assert result.final_reward == 1.0


@pytest.mark.parametrize("resume", [None, "continue"])
async def test_a_run_beside_a_live_one_begins_its_own_and_says_so(path, resume, recwarn):
    heard = []
    await evolve(World(), path)
    alive = GitLedger(path)
    await alive.open()
    await alive.adopt("artifact")
    try:
        result = await evolve(World(), path, resume=resume, on_event=heard.append)
    finally:
        await alive.close()

    (started,) = (event for event in heard if isinstance(event, RunStarted))
    assert started.resumed_from.startswith(
        f"begins a search of its own from the newest version: run {alive.run_id} (process "
    )
    assert result.resumed_from is None
    assert result.initial_reward == 1.0
    warned = [str(warning.message) for warning in recwarn]
    assert len(warned) == (resume == "continue")
    assert all("found no run to go on with and begins" in text for text in warned)


async def test_a_run_that_is_alone_says_nothing(path):
    heard = []

    await evolve(World(), path, on_event=heard.append)

    assert [event.resumed_from for event in heard if isinstance(event, RunStarted)] == [""]


IN_A_PROCESS = """
from agentdescent import async_evolve
from support.worlds import Theirs, World

async def main():
    world = {"ours": World, "theirs": Theirs}[sys.argv[2]]()
    print("ready", flush=True)
    sys.stdin.readline()
    result = await async_evolve(**world.parts, rounds=8, repo_path=sys.argv[1], asynchronous=False,
        n_workers=4, max_concurrency=4)
    print(json.dumps([result.error, result.final_reward, result.rendered]))

anyio.run(main)
"""


async def test_two_processes_keep_what_they_have_learned(path, spawn):
    runs = [spawn(IN_A_PROCESS, path, whose) for whose in ("ours", "theirs")]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()

    found = [json.loads(run.communicate(timeout=30)[0]) for run in runs]

    assert [(error, reward) for error, reward, _ in found] == [(None, 1.0)] * 2
    assert rules(found[0][2]) >= OURS
    assert rules(found[1][2]) >= THEIRS
    assert {line for *_, text in found for line in rules(text)} == OURS | THEIRS
    assert rules("\n".join(f"- {rule}" for rule in Ledger(path).at().values())) == OURS | THEIRS
    check_with_git(path)
