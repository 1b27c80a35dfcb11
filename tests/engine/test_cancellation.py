"""Leaving: cancellation from outside, several runs at once, Ctrl-C, wedged threads at exit."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import anyio
import pytest

from agentdescent import async_evolve
from agentdescent.core.events import Committed, RunEnded
from agentdescent.ledger import GitLedger, MemoryLedger
from support.toy import HiddenRules, final_rules


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_cancelling_stops_every_rollout_and_hands_out_the_partial_result(
    evolve_under, looptime
):
    world = HiddenRules(run_s=1.0)
    ended = []

    def listen(event):
        if isinstance(event, RunEnded):
            ended.append(event.result)

    with anyio.move_on_after(20.5) as scope:
        await evolve_under(
            **world.parts,
            rounds=1000,
            on_event=listen,
        )

    assert scope.cancelled_caught
    assert looptime == 20.5
    assert [result.stop_reason for result in ended] == ["interrupted"]
    assert ended[0].final_reward == 1.0
    assert ended[0].error is None


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_commit_under_way_is_finished_before_the_cancellation_goes_on(looptime):
    world = HiddenRules(run_s=1.0)
    ledger = MemoryLedger(delay=10)
    ended = []

    with anyio.move_on_after(8):
        await async_evolve(
            **world.parts,
            self_verify=False,
            asynchronous=False,
            max_concurrency=4,
            ledger=ledger,
            on_event=lambda event: ended.append(event) if isinstance(event, RunEnded) else None,
        )

    [event] = ended
    seed_s, rollouts_s, gate_s, commit_s = 1, 1, 1, 10
    assert looptime == seed_s + rollouts_s + gate_s + commit_s
    assert event.result.version == 2
    assert event.result.outcomes() == {"committed": 1}


@pytest.mark.asyncio
async def test_leaving_takes_no_longer_than_the_ledger_needs(evolve_under, tmp_path):
    world = HiddenRules(run_s=0.001)

    with anyio.CancelScope() as scope:
        await evolve_under(
            **world.parts,
            rounds=100_000,
            repo_path=tmp_path,
            on_event=lambda event: isinstance(event, Committed) and scope.cancel(),
        )
        pytest.fail("it was not cancelled")
    left = time.monotonic()
    reopened = GitLedger(tmp_path)
    await reopened.open()
    stored = (await reopened.read())["artifact"]
    await reopened.close()

    assert stored.version >= 2
    assert time.monotonic() - left < 5


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_three_runs_in_one_loop_do_not_disturb_each_other(evolve_under):
    worlds = [HiddenRules(rules=count, run_s=0.1 * count) for count in (2, 3, 4)]
    results = {}

    async def evolve(world):
        results[world.rules] = await evolve_under(**world.parts, ledger=MemoryLedger())

    async with anyio.create_task_group() as group:
        for world in worlds:
            group.start_soon(evolve, world)

    for world in worlds:
        assert final_rules(results[world.rules].rendered) == [
            f"rule{i}" for i in range(world.rules)
        ]
        assert results[world.rules].actor_calls == len(world.calls)


@pytest.mark.asyncio
@pytest.mark.leaves_thread
async def test_a_wedged_thread_does_not_hold_the_end_of_a_run_and_is_counted(evolve_under):
    world = HiddenRules(rules=2)
    release = threading.Event()
    stuck = []

    def run(rendered, task):
        if not stuck and task.id == "t0-0":
            stuck.append(task.id)
            release.wait()
        return rendered

    try:
        with pytest.warns(RuntimeWarning, match="1 synchronous call.* still running"):
            result = await evolve_under(
                world.tasks,
                world.reward,
                run=run,
                propose=world.propose,
                rounds=50,
                max_seconds=0.5,
            )
    finally:
        release.set()

    assert result.stop_reason == "max_seconds"
    assert result.abandoned == 1
    assert "still running" in result.warnings[-1]


SCRIPT = """
    import sys, time, threading
    from agentdescent import EvolutionInterrupted, Task, evolve

    def run(rendered, task):
        {wedge}
        return rendered

    def announce(info):
        print("round", info.round, flush=True)

    try:
        evolve(
            [Task(str(i), "p") for i in range(12)],
            lambda task, output: float("rule" in output),
            run=run,
            propose=lambda rendered, task, output, reward: "rule",
            rounds=100_000,
            repo_path=sys.argv[1],
            on_round=announce,
            {options}
        )
    except EvolutionInterrupted as interrupted:
        print(interrupted.result.stop_reason, interrupted.result.final_reward, flush=True)
        raise SystemExit(130)
    print("done", time.monotonic(), flush=True)
"""


@pytest.mark.asyncio
async def test_ctrl_c_ends_a_script_within_two_seconds_and_leaves_the_ledger_intact(tmp_path):
    script = textwrap.dedent(SCRIPT).format(wedge="", options="max_concurrency=4")
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    ) as process:
        for _ in range(3):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        sent = time.monotonic()
        output = process.stdout.read()
        code = process.wait()

    assert time.monotonic() - sent < 2.0
    assert code == 130
    assert output.splitlines()[-1] == "interrupted 1.0"
    ledger = GitLedger(tmp_path / "run")
    await ledger.open()
    assert list((await ledger.read())["artifact"].state.values()) == ["rule"]
    await ledger.close()


def test_a_wedged_thread_lets_the_interpreter_exit_within_two_seconds(tmp_path):
    wedge = "if task.id == '1': time.sleep(600)"
    script = textwrap.dedent(SCRIPT).format(wedge=wedge, options="round_timeout=0.2, max_seconds=2")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        done = [line for line in process.stdout if line.startswith("done")]
        ended = float(done[0].split()[1])
        code = process.wait()
        lingered = time.monotonic() - ended

    assert code == 0
    assert lingered < 2.0
