"""What each isolation stops, and what it does not: canaries for the table in the documentation."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentdescent.errors import AgentError, CommandNotStarted, CommandTimeout
from agentdescent.process import Launch, Limits, clean_environment
from agentdescent.runners import Bubblewrap, Plain, Workspace, code_runner, tree_runner
from support.programs import Lifeline
from support.runners import TASK, left_behind, processes_naming, python_agent, tree

INSTALLED = shutil.which("bwrap")
REFUSED = "bwrap is not installed"
SKILL = tree(SKILL_md="Say yes.")

READ = "print(open(sys.argv[1]).read())"
WRITE = "open(sys.argv[1], 'w').write('hacked'); print('written')"
CONNECT = """
import socket
print(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2).recv(5).decode())
"""
KILL = "os.kill(int(sys.argv[1]), 0); print('there')"
FILES = """
for n in range(200): open(f"f{n}", "w").close()
print("filled")
"""


async def attack(isolation, source, *args):
    """What a program says that tries something; "stopped" if it could not."""
    attempt = f"try:\n{indented(source)}\nexcept Exception:\n    print('stopped')"
    run = tree_runner(python_agent(attempt, *args), layout="root", isolation=isolation)
    call = run(SKILL, TASK)
    return await (call if isinstance(isolation, Plain) else unless_refused(call))


def indented(source):
    return "\n".join(f"    {line}" for line in source.strip().splitlines())


async def unless_refused(call):
    """Where `bwrap` is missing, that must be what is said."""
    if INSTALLED:
        return await call
    with pytest.raises(CommandNotStarted, match="apt-get install bubblewrap"):
        await call
    return REFUSED


def inside(answer):
    return answer if INSTALLED else REFUSED


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text("password")
    return file


@pytest.fixture
def service():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.asyncio
class TestPlain:
    """What it does not stop."""

    async def test_reading_what_the_user_can_read(self, secret):
        assert await attack(Plain(), READ, secret) == "password"

    async def test_writing_what_the_user_can_write(self, secret):
        assert await attack(Plain(), WRITE, secret) == "written"
        assert secret.read_text() == "hacked"

    async def test_the_network(self, service):
        assert await attack_service(Plain(), service) == "hello"

    async def test_other_processes(self):
        assert await attack(Plain(), KILL, os.getpid()) == "there"

    async def test_many_files(self):
        assert await attack(Plain(), FILES) == "filled"
        assert left_behind() == []

    async def test_a_daemon_that_hides_its_environment(self, tmp_path):
        hidden = """
if not os.fork():
    os.setsid()
    os.closerange(0, 99)
    os.execve("/bin/sh", ["sh", "-c", f"echo $$ > {sys.argv[1]}; exec sleep 60"], {"PATH": "/bin"})
os.wait3(os.WNOHANG)
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()): pass
print("left")
"""
        assert await attack(Plain(), hidden, tmp_path / "pid") == "left"

        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.asyncio
class TestBubblewrap:
    async def test_it_stops_reading_what_is_not_the_systems(self, secret):
        assert await attack(Bubblewrap(), READ, secret) == inside("stopped")
        assert await attack(Bubblewrap(), READ, "/etc/shadow") == inside("stopped")

    async def test_it_lets_be_read_what_it_is_told(self, secret):
        isolation = Bubblewrap(readable=[secret.parent])

        assert await attack(isolation, READ, secret) == inside("password")
        assert await attack(isolation, WRITE, secret) == inside("stopped")
        assert secret.read_text() == "password"

    @pytest.mark.parametrize(
        "place", ["/usr/hacked", "/etc/hacked", "/hacked", f"{sys.prefix}/hacked"]
    )
    async def test_it_stops_writing_to_the_system(self, place):
        assert await attack(Bubblewrap(), WRITE, place) == inside("stopped")
        assert not Path(place).exists()

    async def test_temporary_files_are_its_own(self):
        canary = Path("/tmp") / f"agentdescent-canary-{os.getpid()}"
        assert await attack(Bubblewrap(), WRITE, canary) == inside("written")
        assert not canary.exists()

    async def test_it_stops_the_network(self, service):
        assert await attack_service(Bubblewrap(), service) == inside("stopped")

    async def test_it_lets_the_network_be_used_if_it_is_told(self, service):
        assert await attack_service(Bubblewrap(network=True), service) == inside("hello")

    async def test_it_hides_other_processes(self):
        with subprocess.Popen(["sleep", "60"]) as other:
            assert await attack(Bubblewrap(), KILL, other.pid) == inside("stopped")
            other.kill()

    async def test_it_hides_our_name_for_the_workspace_and_our_home(self, monkeypatch):
        monkeypatch.setenv("HOME", "/home/somebody")
        monkeypatch.setenv("PATH", f"/home/somebody/bin:{os.environ['PATH']}")
        source = "print(os.getcwd(), os.environ['HOME'], 'somebody' in str(os.environ))"

        assert await attack(Bubblewrap(), source) == inside("/workspace /home/agent False")

    async def test_it_does_not_stop_many_files(self):
        assert await attack(Bubblewrap(), FILES) == inside("filled")
        assert left_behind() == []

    async def test_home_lasts_from_command_to_command(self):
        keep = ["sh", "-c", "echo kept > ~/file; echo lost > /tmp/file"]
        show = ["sh", "-c", "cat ~/file /tmp/file 2>&1; true"]
        run = code_runner(show, setup_cmd=keep, isolation=Bubblewrap())

        output = await unless_refused(run(SKILL, TASK))

        assert output.splitlines()[:1] == [inside("kept")]
        assert "lost" not in output

    async def test_a_program_that_cannot_be_read_inside_is_named(self, tmp_path):
        program = tmp_path / "agent"
        program.write_text("#!/bin/sh\necho hello\n")
        program.chmod(0o755)
        hidden = code_runner([program], isolation=Bubblewrap())
        shown = code_runner([program], isolation=Bubblewrap(readable=[tmp_path]))

        complaint = "agent cannot be read inside" if INSTALLED else "apt-get install bubblewrap"
        with pytest.raises(CommandNotStarted, match=complaint):
            await hidden(SKILL, TASK)
        assert await unless_refused(shown(SKILL, TASK)) == inside("hello")

    async def test_a_program_of_the_tree_is_started(self):
        run = code_runner(["./run.sh"], isolation=Bubblewrap())
        program = tree(run_sh="#!/bin/sh\necho hello\n")

        assert await unless_refused(run(program, TASK)) == inside("hello")
        output = await unless_refused(run(SKILL, TASK))
        assert output.startswith(inside("AGENTDESCENT_GATE_FAILED (entrypoint exited 1):"))

    async def test_a_program_that_is_nowhere_is_our_fault(self):
        run = code_runner(["no-such-program"], isolation=Bubblewrap())

        complaint = "no such program, with PATH" if INSTALLED else "apt-get install bubblewrap"
        with pytest.raises(CommandNotStarted, match=complaint):
            await run(SKILL, TASK)

    async def test_limits_hold_from_the_start(self):
        source = "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))"
        isolation = Bubblewrap(limits=Limits(file_bytes=4096, cpu_s=5))

        assert await attack(isolation, source) == inside("(4096, 4096)")

    @pytest.mark.alone
    async def test_all_of_it_ends_at_the_timeout(self):
        source = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "654.5"], {})
time.sleep(60)
"""
        run = tree_runner(python_agent(source, timeout=1), isolation=Bubblewrap())
        began = time.perf_counter()

        with pytest.raises(CommandTimeout if INSTALLED else CommandNotStarted):
            await run(SKILL, TASK)

        assert time.perf_counter() - began < 3
        assert processes_naming("654.5") == []

    async def test_all_of_it_ends_when_we_are_killed(self, tmp_path):
        line = Lifeline(tmp_path / "line")
        owner = """
import sys, anyio
from agentdescent.runners import Bubblewrap, tree_runner
from support.runners import TASK, python_agent, tree
hold = "line = os.open(sys.argv[1], os.O_WRONLY); os.write(line, b'up'); time.sleep(60)"
run = tree_runner(
    python_agent(hold, sys.argv[1]),
    isolation=Bubblewrap(readable=[sys.argv[2]]),
    workspace_root=sys.argv[2],
)
anyio.run(run, tree(a="b"), TASK)
"""
        if INSTALLED:
            await killed(owner, line, tmp_path)
        line.close()


async def attack_service(isolation, service):
    """As `attack`, for a program that connects to `service`, which says hello."""
    said = []

    async def try_it(scope):
        said.append(await attack(isolation, CONNECT, service.getsockname()[1]))
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(try_it, tasks.cancel_scope)
        await anyio.wait_readable(service)
        connection, _ = service.accept()
        connection.sendall(b"hello")
        connection.close()
    return said[0]


async def killed(owner, line, place):
    """Kill a process that runs `owner` once the line is taken, and see the line cut."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", owner, str(line.path), str(place)]
    with subprocess.Popen(command, env=environment) as process:
        await line.taken()
        process.kill()
    assert await line.is_cut(within=2)


@pytest.mark.asyncio
class TestRefusal:
    async def test_without_bwrap_it_says_what_to_install(self):
        run = tree_runner(python_agent("pass"), isolation=Bubblewrap(program="no-such-bwrap"))

        with pytest.raises(CommandNotStarted, match=r"apt-get install bubblewrap.*Plain\(\)"):
            await run(SKILL, TASK)

        assert left_behind() == []

    async def test_a_kernel_that_refuses_is_quoted(self, tmp_path):
        program = tmp_path / "bwrap"
        program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
        program.chmod(0o755)
        run = tree_runner(python_agent("pass"), isolation=Bubblewrap(program=str(program)))

        with pytest.raises(AgentError, match="here: No permissions to create new namespace; allow"):
            await run(SKILL, TASK)

    async def test_a_namespace_that_is_refused_later_is_no_fault_of_the_candidate(self, tmp_path):
        program = tmp_path / "bwrap"
        program.write_text(
            "#!/bin/sh\ncase $* in *'-- true') exit;; esac\n"
            "echo 'bwrap: No space left on device' >&2; exit 1\n"
        )
        program.chmod(0o755)
        isolation = Bubblewrap(program=str(program))
        run = code_runner(["/bin/sh"], test_cmd=["/bin/sh"], isolation=isolation)

        with pytest.raises(AgentError, match="tests could not be started: bwrap: No space left"):
            await run(SKILL, TASK)

    async def test_a_single_readable_directory_must_be_in_a_list(self):
        with pytest.raises(TypeError, match="readable must be a list"):
            Bubblewrap(readable="/srv")


class TestSearchPath:
    def test_directories_of_home_are_hidden_but_for_the_programs_own(self, tmp_path, monkeypatch):
        home = tmp_path / "home"
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "agent").touch(0o755)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", f"{home}/other:{home}/bin:/usr/bin")

        assert path_of(["agent"]) == f"{home}/bin:/usr/bin"
        assert path_of(["sh"]) == "/usr/bin"

    def test_a_path_that_was_given_stays(self, monkeypatch):
        monkeypatch.setenv("HOME", "/home/somebody")

        assert path_of(["sh"], PATH="/home/somebody/bin") == "/home/somebody/bin"

    def test_where_nobody_is_at_home_nothing_is_hidden(self, monkeypatch):
        monkeypatch.setenv("HOME", "/")

        assert path_of(["sh"]) == os.environ["PATH"]


def path_of(command, **env):
    launch = Launch(command, None, {**clean_environment(), **env})
    return Plain().confine(launch, Workspace(Path("/nowhere"))).env["PATH"]
