"""Containers: the command lines that an engine is given, played by a program that records them."""

import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from agentdescent.errors import AgentError, CommandNotStarted, CommandTimeout
from agentdescent.process import Limits
from agentdescent.runners import Container, code_runner, tree_runner
from support.runners import TASK, left_behind, python_agent, tree

pytestmark = pytest.mark.asyncio

SKILL = tree(SKILL_md="Say yes.")

ENGINE = """#!{python} -IS
import json, os, sys, time
record = {{"argv": sys.argv[1:], "env": dict(os.environ), "stdin": ""}}
if sys.argv[1] == "run":
    record["stdin"] = sys.stdin.read()
    mounts = [part for part in sys.argv if part.startswith("type=bind")]
    record["files"] = os.listdir(mounts[0].split("src=")[1].split(",")[0])
with open({place!r} + "/calls", "a") as calls:
    calls.write(json.dumps(record) + "\\n")
answer = {place!r} + "/" + sys.argv[1]
if os.path.exists(answer):
    exec(open(answer).read())
"""


class Engine:
    """Stands in for an engine; `answers` says what one of its commands does."""

    def __init__(self, place):
        self._place = place

    def answers(self, command, source):
        (self._place / command).write_text(source)

    def calls(self, command):
        lines = (self._place / "calls").read_text().splitlines()
        return [call for call in map(json.loads, lines) if call["argv"][0] == command]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put an engine where programs are looked for, alone."""

    def install(name="docker"):
        place = tmp_path / "engine"
        place.mkdir()
        program = place / name
        program.write_text(ENGINE.format(python=sys.executable, place=str(place)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(place))
        return Engine(place)

    return install


def agent(**options):
    return python_agent("pass", via_stdin=True, **options)


def pairs(argv, option):
    return [value for name, value in pairwise(argv) if name == option]


class TestCommandLine:
    async def test_a_program_runs_in_a_container_of_its_own(self, install, tmp_path):
        engine = install()
        engine.answers("run", "print('yes')")
        run = tree_runner(
            agent(), layout="root", isolation=Container("image:1"), workspace_root=tmp_path
        )

        assert await run(SKILL, TASK) == "yes"

        (call,) = engine.calls("run")
        argv = call["argv"]
        end = argv.index("image:1")
        assert argv[end + 1 :] == list(agent().command)
        assert call["stdin"].startswith("What is it?")
        assert call["files"] == ["SKILL.md"]
        space = pairs(argv, "--label")[1].removeprefix("agentdescent.workspace=")
        assert pairs(argv, "--mount") == [
            f"type=bind,src={space}/work,dst=/workspace",
            f"type=bind,src={space}/home,dst=/home/agent",
        ]
        assert pairs(argv, "--label")[0] == f"agentdescent.root={tmp_path}"
        assert pairs(argv, "--name")[0].startswith(f"{Path(space).name}-")
        assert pairs(argv, "--workdir") == ["/workspace"]

    async def test_it_is_held_as_tightly_as_can_be(self, install):
        engine = install()

        await tree_runner(agent(), isolation=Container("i"))(SKILL, TASK)

        (call,) = engine.calls("run")
        argv = call["argv"]
        assert {"--rm", "--init", "--interactive", "--read-only"} <= {*argv}
        assert pairs(argv, "--network") == ["none"]
        assert pairs(argv, "--cap-drop") == ["ALL"]
        assert pairs(argv, "--security-opt") == ["no-new-privileges"]
        assert pairs(argv, "--pids-limit") == ["512"]
        assert pairs(argv, "--ulimit") == ["fsize=536870912:536870912"]
        assert pairs(argv, "--tmpfs") == ["/tmp:rw,exec,mode=1777,size=268435456"]
        assert pairs(argv, "--pull") == ["never"]
        assert pairs(argv, "--user") == [f"{os.geteuid()}:{os.getegid()}"]
        assert "--memory" not in argv

    async def test_what_changes_programs_is_in_the_name(self):
        names = {Container("i").identity, Container("j").identity, Container("i", cpus=1).identity}

        assert len(names) == 3
        assert Container("i").identity == Container("i", engine="podman").identity

    async def test_limits_are_handed_to_the_engine(self, install):
        engine = install()
        limits = Limits(cpu_s=9, memory_bytes=2**30, file_bytes=7, open_files=40, processes=50)
        isolation = Container("i", limits=limits, cpus=1.5, network=True, rootless=True)

        await tree_runner(agent(), isolation=isolation)(SKILL, TASK)

        (call,) = engine.calls("run")
        argv = call["argv"]
        assert pairs(argv, "--ulimit") == ["cpu=9:9", "fsize=7:7", "nofile=40:40"]
        assert pairs(argv, "--memory") == pairs(argv, "--memory-swap") == ["1073741824"]
        assert (pairs(argv, "--cpus"), pairs(argv, "--pids-limit")) == (["1.5"], ["50"])
        assert pairs(argv, "--network") == ["bridge"]
        assert "--user" not in argv

    async def test_no_value_of_a_variable_is_on_the_command_line(self, install, monkeypatch):
        engine = install()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
        monkeypatch.setenv("HOME", "/home/somebody")
        its = agent(env={"ITS_KEY": "sk-its", "DOCKER_HOST": "tcp://elsewhere"})

        await tree_runner(its, isolation=Container("i"))(SKILL, TASK)

        (call,) = engine.calls("run")
        assert "ITS_KEY" in pairs(call["argv"], "--env")
        assert "HOME=/home/agent" in pairs(call["argv"], "--env")
        assert not {"PATH", "TMPDIR", "DOCKER_HOST"} & {*pairs(call["argv"], "--env")}
        assert (call["env"]["ITS_KEY"], call["env"]["HOME"]) == ("sk-its", "/home/somebody")
        assert "sk-" not in " ".join(call["argv"])
        assert not {"OPENAI_API_KEY", "DOCKER_HOST"} & call["env"].keys()

    async def test_podman_keeps_our_user(self, install, monkeypatch):
        engine = install("podman")
        monkeypatch.setattr(os, "geteuid", lambda: 1234)

        await code_runner(["true"], isolation=Container("i"))(SKILL, TASK)

        (call,) = engine.calls("run")
        assert pairs(call["argv"], "--userns") == ["keep-id"]
        assert pairs(call["argv"], "--user")[0].startswith("1234:")


class TestEnd:
    async def test_what_outlives_its_program_is_removed(self, install):
        engine = install()
        engine.answers("run", "time.sleep(60)")
        engine.answers("ps", "if '--quiet' in sys.argv: print('c1 c2')")
        run = tree_runner(agent(timeout=0.3), isolation=Container("i"))

        with pytest.raises(CommandTimeout):
            await run(SKILL, TASK)

        assert [call["argv"] for call in engine.calls("rm")] == [["rm", "--force", "c1", "c2"]]
        space = pairs(engine.calls("ps")[1]["argv"], "--filter")[0]
        assert space.startswith("label=agentdescent.workspace=")
        assert left_behind() == []

    @pytest.mark.parametrize(
        "answer",
        ["print('c1') if '--quiet' in sys.argv else None", "sys.exit('--quiet' in sys.argv)"],
        ids=["rm", "ps"],
    )
    async def test_what_cannot_be_removed_is_reported(self, install, answer):
        engine = install()
        engine.answers("ps", f"print('gone wrong', file=sys.stderr); {answer}")
        engine.answers("rm", "sys.exit('gone wrong')")

        with pytest.warns(RuntimeWarning, match="may be left: gone wrong"):
            await tree_runner(agent(), isolation=Container("i"))(SKILL, TASK)

    async def test_an_engine_that_vanishes_is_reported(self, install):
        engine = install()
        engine.answers("run", f"os.unlink({str(engine._place / 'docker')!r}); print('yes')")
        run = tree_runner(agent(), isolation=Container("i", engine="docker"))

        with pytest.warns(RuntimeWarning, match="may be left: 'docker' could not be started"):
            assert await run(SKILL, TASK) == "yes"

    async def test_containers_of_dead_runs_are_removed_first(self, install, tmp_path):
        engine = install()
        (tmp_path / "agentdescent-ws-alive").mkdir()
        names = "agentdescent-ws-alive-1 agentdescent-ws-dead-1"
        engine.answers("ps", f"if '--quiet' not in sys.argv: print({names!r})")
        run = tree_runner(agent(), isolation=Container("i"), workspace_root=tmp_path)

        await run(SKILL, TASK)
        await run(SKILL, TASK)

        assert [call["argv"] for call in engine.calls("rm")] == [
            ["rm", "--force", "agentdescent-ws-dead-1"]
        ]


class TestRefusal:
    async def test_without_an_engine_it_says_what_to_use(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(CommandNotStarted, match=r"neither docker nor podman.*Bubblewrap\(\)"):
            await tree_runner(agent(), isolation=Container("i"))(SKILL, TASK)

    async def test_an_engine_that_does_not_answer_is_quoted(self, install):
        install().answers("ps", "sys.exit('Cannot connect to the daemon')")

        with pytest.raises(AgentError, match="'docker' does not answer: Cannot connect"):
            await tree_runner(agent(), isolation=Container("i"))(SKILL, TASK)

        assert left_behind() == []

    async def test_a_real_engine_either_answers_or_is_quoted(self):
        engine = shutil.which("docker") or shutil.which("podman")
        run = code_runner(["true"], isolation=Container("agentdescent-no-such-image:0"))

        if engine is None:
            with pytest.raises(CommandNotStarted, match="neither docker nor podman"):
                await run(SKILL, TASK)
            return
        with pytest.raises(AgentError, match=r"does not answer|entrypoint could not be started"):
            await run(SKILL, TASK)

    async def test_a_container_that_cannot_be_made_is_no_fault_of_the_candidate(self, install):
        install().answers("run", "print('docker: no such image', file=sys.stderr); sys.exit(125)")
        run = code_runner(["true"], isolation=Container("i"))

        with pytest.raises(AgentError, match="entrypoint could not be started: docker: no such"):
            await run(SKILL, TASK)

    async def test_a_candidate_may_end_with_the_status_of_the_engine(self, install):
        install().answers("run", "sys.exit(125)")

        output = await code_runner(["true"], isolation=Container("i"))(SKILL, TASK)

        assert "(entrypoint exited 125)" in output
