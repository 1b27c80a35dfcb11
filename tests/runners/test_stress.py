"""Hostile agents, many at once: afterwards nothing of them is left."""

import gc
import os
import time

import anyio
import pytest

from agentdescent.errors import CommandTimeout
from agentdescent.runners import Plain, code_runner, tree_runner
from agentdescent.runners.removal import remove
from agentdescent.runners.workspaces import Workspaces
from support.runners import TASK, descriptors, left_behind, processes_naming, python_agent, tree

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

ROLLOUTS = int(os.environ.get("AGENTDESCENT_STRESS_ROLLOUTS", "60"))
SKILL = tree(SKILL_md="Say yes.")

HOSTILE = {
    "hangs": "time.sleep(60)",
    "ignores SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
    "forks and sleeps": """
for _ in range(2): os.fork()
time.sleep(60)
""",
    "goes into a session of its own": """
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork(): os._exit(0)
time.sleep(60)
""",
    "prints without end": "while True: os.write(1, bytes(2**20))",
}


BORN = """
born = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
open(f"{sys.argv[2]}/{sys.argv[3]}", "w").write(born)
"""


@pytest.mark.alone
async def test_64_hostile_agents_are_gone_soon_after_their_timeout(tmp_path):
    mark, timeout = f"stress-{os.getpid()}", 3.0
    ended = {}

    async def roll_out(number, source):
        agent = python_agent(BORN + source, mark, tmp_path, number, timeout=timeout)
        with pytest.raises(CommandTimeout):
            await tree_runner(agent)(SKILL, TASK)
        ended[number] = time.clock_gettime(time.CLOCK_BOOTTIME)

    async with anyio.create_task_group() as tasks:
        for number in range(64):
            tasks.start_soon(roll_out, number, list(HOSTILE.values())[number % len(HOSTILE)])

    ticks = os.sysconf("SC_CLK_TCK")
    born = {int(file.name): int(file.read_text()) / ticks for file in tmp_path.iterdir()}
    late = [ended[number] - born[number] - timeout for number in range(64)]
    assert max(late) < 10  # 1.1 to 1.4 s on two busy cores
    assert processes_naming(mark) == []
    assert left_behind() == []


@pytest.mark.alone
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
async def test_one_hostile_agent_is_gone_within_2_s_of_its_timeout(source):
    mark = f"hostile-{os.getpid()}"
    began = time.perf_counter()

    with pytest.raises(CommandTimeout):
        await tree_runner(python_agent(source, mark, timeout=0.5))(SKILL, TASK)

    assert time.perf_counter() - began < 2.5
    assert processes_naming(mark) == []


async def test_an_agent_may_print_a_gigabyte():
    program = ["sh", "-c", "head -c 1000000000 /dev/zero | tr '\\0' x"]

    output = await code_runner(program, timeout=30)(SKILL, TASK)

    assert (len(output), output.cut) == (4 * 2**20, True)


async def test_rollouts_of_which_half_are_cancelled_leave_nothing():
    mark = f"rollouts-{os.getpid()}"
    finishes = python_agent("print('done')", mark)
    hangs = python_agent("os.fork(); time.sleep(60)", mark)
    await tree_runner(finishes)(SKILL, TASK)
    gc.collect()
    before = descriptors()
    limiter, answers = anyio.CapacityLimiter(16), []

    async def roll_out(number):
        async with limiter:
            if number % 2:
                answers.append(await tree_runner(finishes)(SKILL, TASK))
            else:
                with anyio.move_on_after(0.02 * (number % 10)):
                    await tree_runner(hangs)(SKILL, TASK)

    async with anyio.create_task_group() as tasks:
        for number in range(ROLLOUTS):
            tasks.start_soon(roll_out, number)

    gc.collect()
    assert answers == ["done"] * (ROLLOUTS // 2)
    assert descriptors() <= before
    assert processes_naming(mark) == []
    assert left_behind() == []


async def test_many_tiny_files_go_too():
    def fill(work):
        for number in range(5000):
            (work / f"f{number}").touch()

    async with Workspaces(Plain()).lease(fill):
        pass

    assert left_behind() == []


async def test_nobody_waits_for_a_removal(monkeypatch):
    """The event loop goes on while files are being removed."""
    turns = 0

    def slow(path):
        time.sleep(0.2)
        remove(path)

    async def turn():
        nonlocal turns
        while True:
            await anyio.sleep(0.01)
            turns += 1

    monkeypatch.setattr("agentdescent.runners.workspaces.remove", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        async with Workspaces(Plain()).lease(lambda work: None):
            pass
        tasks.cancel_scope.cancel()

    assert turns > 5
