"""Child processes: what they print, what they may see and use, and that nothing of them is left."""

import asyncio
import errno
import gc
import os
import resource
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentdescent.errors import AgentError, CommandNotStarted, CommandTimeout
from agentdescent.process import Limits, clean_environment, run_command
from support.programs import Lifeline, Programs

pytestmark = pytest.mark.asyncio

HANG = "hold(sys.argv[1]); time.sleep(60)"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + HANG
FORKING = """
os.fork()
os.fork()
hold(sys.argv[1])
time.sleep(60)
"""
STUBBORN_CHILD = """
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hold(sys.argv[1])
time.sleep(60)
"""
RUNAWAY = """
if not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
    hold(sys.argv[1])
time.sleep(60)
"""


@pytest.fixture
def program(tmp_path):
    return Programs(tmp_path)


@pytest.fixture
def lifeline(tmp_path):
    line = Lifeline(tmp_path / "lifeline")
    yield line
    line.close()


class TestResult:
    async def test_it_tells_what_was_printed_and_the_status(self, program):
        command = program("print('out'); print('err', file=sys.stderr); sys.exit(3)")

        finished = await run_command(command)

        assert (finished.returncode, finished.stdout, finished.stderr) == (3, "out\n", "err\n")
        assert (finished.stdout_dropped, finished.stderr_dropped) == (0, 0)
        assert finished.seconds > 0

    async def test_a_signal_is_a_negative_status(self, program):
        finished = await run_command(program("os.kill(os.getpid(), signal.SIGKILL)"))

        assert finished.returncode == -signal.SIGKILL

    async def test_what_is_no_utf_8_is_replaced(self, program):
        finished = await run_command(program(r"os.write(1, b'caf\xe9 \xff!')"))

        assert finished.stdout == "caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}!"

    async def test_output_beyond_the_cap_is_counted_and_dropped(self, program):
        command = program("os.write(1, b'0123456789'); os.write(2, b'abcd')")

        finished = await run_command(command, max_output=4)

        assert (finished.stdout, finished.stdout_dropped) == ("0123", 6)
        assert (finished.stderr, finished.stderr_dropped) == ("abcd", 0)

    async def test_the_cap_leaves_no_half_character(self, program):
        finished = await run_command(program(r"os.write(1, b'ab\xe2\x82\xacd')"), max_output=4)

        assert (finished.stdout, finished.stdout_dropped) == ("ab", 2)

    async def test_a_flood_neither_fills_memory_nor_blocks(self, program):
        command = program(
            "for _ in range(200): os.write(1, bytes(2**20)); os.write(2, bytes(2**16))"
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        finished = await run_command(command, timeout=15)

        assert len(finished.stdout) == 4 * 2**20
        assert finished.stdout_dropped == 196 * 2**20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024

    async def test_all_of_the_input_can_be_read(self, program):
        text = "žluťoučký kůň\n" * 50_000

        finished = await run_command(program("print(len(sys.stdin.buffer.read()))"), stdin=text)

        assert int(finished.stdout) == len(text.encode())

    async def test_input_that_nobody_reads_is_no_matter(self, program):
        finished = await run_command(program("os.close(0); print('done')"), stdin="x" * 10**6)

        assert finished.stdout == "done\n"

    async def test_half_a_surrogate_in_the_input_becomes_a_question_mark(self, program):
        finished = await run_command(program("print(sys.stdin.read())"), stdin="a\ud800b")

        assert finished.stdout == "a?b\n"

    async def test_without_input_there_is_nothing_to_read(self, program):
        finished = await run_command(program("print(repr(sys.stdin.read()))"))

        assert finished.stdout == "''\n"

    async def test_it_runs_in_the_directory_it_is_told(self, program, tmp_path):
        finished = await run_command(program("print(os.getcwd())"), cwd=tmp_path)

        assert finished.stdout == f"{tmp_path}\n"

    async def test_what_stays_behind_may_finish_its_sentence(self, program):
        command = program("""
parent = os.getpid()
if not os.fork():
    while os.getppid() == parent: pass
    print("the last word")
""")

        assert (await run_command(command)).stdout == "the last word\n"

    async def test_64_at_once(self, program):
        command = program("print(sys.stdin.read())")
        answers = {}

        async def run(number):
            answers[number] = (await run_command(command, stdin=str(number))).stdout

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(run, number)

        assert answers == {number: f"{number}\n" for number in range(64)}


class TestEnd:
    @pytest.mark.parametrize("source", [STUBBORN, RUNAWAY], ids=["stubborn", "runaway"])
    async def test_a_timeout_ends_the_whole_family(self, program, lifeline, source):
        began = time.perf_counter()

        with pytest.raises(CommandTimeout, match=r"exceeded timeout=0\.9s"):
            await run_command(program(source, lifeline.path), timeout=0.9)

        assert time.perf_counter() - began < 2.9
        await lifeline.taken()
        assert await lifeline.is_cut(within=0.5)

    @pytest.mark.parametrize(
        "source",
        [HANG, STUBBORN, FORKING, STUBBORN_CHILD, RUNAWAY],
        ids=["hanging", "stubborn", "forking", "stubborn-child", "runaway"],
    )
    async def test_cancellation_ends_the_whole_family(self, program, lifeline, source):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_command, program(source, lifeline.path))
            await lifeline.taken()
            tasks.cancel_scope.cancel()
            began = time.perf_counter()

        assert time.perf_counter() - began < 2
        assert await lifeline.is_cut(within=0.5)

    async def test_an_impatient_event_loop_leaves_nothing_either(self, program, lifeline):
        call = asyncio.create_task(run_command(program(STUBBORN, lifeline.path)))
        await lifeline.taken()

        for _ in range(2):  # the second one calls off the grace
            call.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await call

        assert await lifeline.is_cut(within=0.5)

    async def test_a_program_may_tidy_up(self, program, lifeline, tmp_path):
        command = program(
            """
def tidy(*_):
    open(sys.argv[2], "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, tidy)
hold(sys.argv[1])
time.sleep(60)
""",
            lifeline.path,
            tmp_path / "tidy",
        )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_command, command)
            await lifeline.taken()
            tasks.cancel_scope.cancel()

        assert (tmp_path / "tidy").exists()

    async def test_what_a_program_leaves_behind_ends_with_it(self, program, lifeline):
        began = time.perf_counter()

        finished = await run_command(
            program("if os.fork(): os._exit(0)\nhold(sys.argv[1]); time.sleep(60)", lifeline.path)
        )

        assert finished.returncode == 0
        assert time.perf_counter() - began < 2
        assert await lifeline.is_cut(within=0.5)

    async def test_a_daemon_that_keeps_the_output_open_holds_nobody(self, program, tmp_path):
        daemon = """
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
"""
        began = time.perf_counter()

        finished = await run_command(program(daemon, tmp_path / "pid"), stdin="x" * 10**6)

        assert time.perf_counter() - began < 2
        assert finished.returncode == 0
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    async def test_a_program_that_ended_in_time_is_not_late_for_what_it_left(self):
        finished = await run_command(["sh", "-c", "sleep 60 & exit 3"], timeout=0.4)

        assert finished.returncode == 3

    async def test_a_late_program_keeps_what_it_had_said(self, program):
        command = program("os.write(1, b'so far'); os.write(2, b'wait'); time.sleep(60)")

        with pytest.raises(CommandTimeout) as late:
            await run_command(command, timeout=0.6)

        assert (late.value.stdout, late.value.stderr) == ("so far", "wait")
        assert isinstance(late.value, AgentError)

    async def test_a_cancelled_call_starts_nothing(self, program, tmp_path):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run_command(program("open(sys.argv[1], 'w')", tmp_path / "made"))

        assert scope.cancelled_caught
        assert not (tmp_path / "made").exists()

    async def test_100_calls_leave_no_descriptor_and_no_zombie(self):
        async def run(timeout):
            with anyio.move_on_after(timeout):
                await run_command(["sh", "-c", "exec cat"], stdin="text")

        await run(None)
        before, children = descriptors(), children_of(os.getpid())
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                for number in range(10):
                    tasks.start_soon(run, None if number % 2 else 0.003)

        gc.collect()
        assert descriptors() <= before
        assert children_of(os.getpid()) == children

    async def test_refusals_leave_no_descriptor(self):
        before = descriptors()

        for _ in range(20):
            with pytest.raises(CommandNotStarted):
                await run_command(["no-such-program"], stdin="text")

        gc.collect()
        assert descriptors() == before


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children_of(pid):
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            children.append(int(status.parent.name))
    return children


class TestRefusal:
    async def test_a_missing_program_is_named_with_where_it_was_looked_for(self):
        with pytest.raises(
            CommandNotStarted, match=r"'no-such-program'.*PATH='/nowhere'"
        ) as refusal:
            await run_command(["no-such-program"], env={"PATH": "/nowhere"})

        assert isinstance(refusal.value.__cause__, FileNotFoundError)
        assert refusal.value.attempts_made == 1

    async def test_a_missing_directory_is_named(self, tmp_path):
        with pytest.raises(CommandNotStarted, match=r"there is no directory '.*nowhere'"):
            await run_command([sys.executable], cwd=tmp_path / "nowhere")

    async def test_a_file_that_is_no_program_says_why(self, tmp_path):
        file = tmp_path / "file"
        file.touch()

        with pytest.raises(CommandNotStarted, match="Permission denied"):
            await run_command([file])

    async def test_arguments_may_be_too_long(self):
        with pytest.raises(CommandNotStarted, match="Argument list too long") as refusal:
            await run_command(["true", "x" * 10**6])

        assert refusal.value.__cause__.errno == errno.E2BIG

    async def test_an_argument_with_nul_is_refused(self):
        with pytest.raises(CommandNotStarted, match="null byte"):
            await run_command(["true", "a\0b"])

    async def test_a_file_that_is_being_written_is_worth_another_try(self, tmp_path):
        file = tmp_path / "program"
        with file.open("wb") as busy:
            busy.write(Path("/bin/true").read_bytes())
            file.chmod(0o755)

            with pytest.raises(CommandNotStarted) as refusal:
                await run_command([file])

        assert refusal.value.attempts_made is None


class TestEnvironment:
    async def test_by_default_nothing_but_the_harmless_is_seen(self, program, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        monkeypatch.setenv("LANG", "C.UTF-8")

        finished = await run_command(program("print(*sorted(os.environ))"))

        seen = set(finished.stdout.split())
        assert {"PATH", "LANG"} <= seen
        assert seen <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TEMP", "TMP", "TMPDIR"}

    async def test_an_environment_that_is_given_is_all_there_is(self, program):
        command = program("print(*sorted(os.environ))")

        finished = await run_command(command, env={"ONLY": "this", "LC_ALL": "C.UTF-8"})

        assert finished.stdout == "LC_ALL ONLY\n"

    async def test_names_are_handed_on_if_they_are_set(self, monkeypatch):
        monkeypatch.setenv("WANTED", "yes")

        environment = clean_environment(("WANTED", "UNSET"))

        assert environment["WANTED"] == "yes"
        assert "UNSET" not in environment

    async def test_extra_variables_win(self, tmp_path):
        environment = clean_environment(extra={"PATH": "/extra"}, home=tmp_path)

        assert (environment["PATH"], environment["HOME"]) == ("/extra", str(tmp_path))
        assert "HOME" not in clean_environment()


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "kind", "value"),
        [
            (Limits(cpu_s=7), resource.RLIMIT_CPU, 7),
            (Limits(memory_bytes=2**31), resource.RLIMIT_AS, 2**31),
            (Limits(file_bytes=4096), resource.RLIMIT_FSIZE, 4096),
            (Limits(open_files=40), resource.RLIMIT_NOFILE, 40),
            (Limits(processes=500), resource.RLIMIT_NPROC, 500),
        ],
    )
    async def test_a_program_is_granted_what_is_said(self, program, limits, kind, value):
        command = program(
            "while resource.getrlimit(int(sys.argv[1]))[1] != int(sys.argv[2]): pass", kind, value
        )

        assert (await run_command(command, timeout=9, limits=limits)).returncode == 0

    async def test_a_program_that_computes_for_ever_is_ended(self, program):
        finished = await run_command(program("while True: pass"), limits=Limits(cpu_s=1))

        assert finished.returncode == -signal.SIGKILL

    async def test_no_more_is_granted_than_we_have(self, program):
        _, ours = resource.getrlimit(resource.RLIMIT_NOFILE)
        command = program("""
while resource.getrlimit(resource.RLIMIT_NPROC)[1] != 500: pass
print(resource.getrlimit(resource.RLIMIT_NOFILE))
""")

        finished = await run_command(command, limits=Limits(open_files=ours + 1, processes=500))

        assert finished.stdout == f"({ours}, {ours})\n"
