"""Workspaces: what is in one, that it goes, and that those of the dead are swept."""

import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agentdescent.runners import Plain, strays, sweep
from agentdescent.runners.removal import remove
from agentdescent.runners.workspaces import Workspaces
from support.runners import left_behind

OWNER = """
import sys, anyio
from agentdescent.runners import Plain
from agentdescent.runners.workspaces import Workspaces
from agentdescent.process import Launch, clean_environment, run_command

async def main():
    async with Workspaces(Plain(), sys.argv[1]).lease(lambda work: None) as space:
        command = ["sh", "-c", "setsid sh -c 'echo started; sleep 321.5' & wait"]
        launch = Plain().confine(Launch(command, space.work, clean_environment()), space)
        process = await anyio.open_process(launch.command, env=launch.env, start_new_session=True)
        print((await process.stdout.receive()).decode(), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def workspaces(tmp_path):
    return Workspaces(Plain(), tmp_path)


def names_in(folder):
    return [entry.name for entry in Path(folder).iterdir()]


def nothing(work):
    del work


@pytest.mark.asyncio
class TestLease:
    async def test_the_directory_to_work_in_holds_what_was_put_there(self, workspaces):
        async with workspaces.lease(lambda work: (work / "a").write_text("x")) as space:
            assert names_in(space.work) == ["a"]
            assert names_in(space.home) == []

    async def test_it_is_nobody_elses(self, workspaces):
        async with workspaces.lease(nothing) as space:
            assert space.path.stat().st_mode & 0o777 == 0o700

    async def test_nothing_is_left_after_it(self, workspaces, tmp_path):
        async with workspaces.lease(nothing) as space:
            (space.work / "dir").mkdir()
            (space.work / "dir" / "file").touch()

        assert left_behind(tmp_path) == []

    async def test_nothing_is_left_when_it_cannot_be_filled(self, workspaces, tmp_path):
        def fail(work):
            (work / "a").touch()
            raise OSError("no room")

        with pytest.raises(OSError, match="no room"):
            async with workspaces.lease(fail):
                pass

        assert left_behind(tmp_path) == []

    async def test_nothing_is_left_after_an_error(self, workspaces, tmp_path):
        with pytest.raises(RuntimeError):
            async with workspaces.lease(nothing):
                raise RuntimeError

        assert left_behind(tmp_path) == []

    async def test_nothing_is_left_after_cancellation(self, workspaces, tmp_path):
        with anyio.move_on_after(0.05):
            async with workspaces.lease(nothing):
                await anyio.sleep_forever()

        assert left_behind(tmp_path) == []

    async def test_nothing_is_made_when_it_was_cancelled_before(self, workspaces, tmp_path):
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with workspaces.lease(nothing):
                raise AssertionError

        assert left_behind(tmp_path) == []

    async def test_a_failed_one_is_kept_on_request(self, tmp_path):
        workspaces = Workspaces(Plain(), tmp_path, keep_failed=True)

        with pytest.warns(RuntimeWarning, match="is kept in") as warned, pytest.raises(KeyError):
            async with workspaces.lease(lambda work: (work / "a").write_text("x")):
                raise KeyError

        (kept,) = left_behind(tmp_path)
        assert str(warned[0].message).endswith(str(kept))
        assert (kept / "a").read_text() == "x"

    async def test_the_place_is_made_if_it_is_not_there(self, tmp_path):
        async with Workspaces(Plain(), tmp_path / "new" / "place").lease(nothing) as space:
            assert space.path.parent == tmp_path / "new" / "place"

    async def test_a_lock_that_was_taken_for_dead_is_not_used(self, workspaces, monkeypatch):
        answers = iter([False, True])
        monkeypatch.setattr(
            "agentdescent.runners.workspaces.try_seize", lambda _: next(answers, True)
        )

        async with workspaces.lease(nothing) as space:
            assert space.path.with_suffix(".lock").exists()
            assert next(answers, None) is None

        for lock in space.path.parent.glob("*.lock"):
            lock.unlink()

    async def test_where_there_are_no_locks_there_are_workspaces(self, workspaces, monkeypatch):
        def refuse(descriptor):
            raise OSError(38, "No locks available")

        monkeypatch.setattr("agentdescent.runners.workspaces.try_seize", refuse)
        async with workspaces.lease(nothing) as space:
            assert space.work.is_dir()
            assert sweep(space.path.parent) == []

    async def test_what_cannot_be_removed_is_reported(self, workspaces, monkeypatch):
        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        with monkeypatch.context() as patch:
            patch.setattr("agentdescent.runners.workspaces.remove", refuse)
            with pytest.warns(RuntimeWarning, match="could not be removed: .*Permission denied"):
                async with workspaces.lease(nothing) as space:
                    pass

        assert sweep(space.path.parent) == [space.path]


class TestSweep:
    def test_those_of_a_killed_owner_go_with_all_that_runs_for_them(self, tmp_path):
        command = [sys.executable, "-c", OWNER, str(tmp_path)]
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with owner:
            assert owner.stdout.readline() == "started\n"
            (space,) = (place for place in tmp_path.iterdir() if place.is_dir())
            runs = processes_of(space)
            owner.send_signal(signal.SIGKILL)
            owner.wait()

            assert len(runs) >= 2
            assert sweep(tmp_path) == [space]

        assert left_behind(tmp_path) == []
        assert processes_of(space) == []

    @pytest.mark.asyncio
    async def test_those_of_the_living_stay(self, workspaces, tmp_path):
        async with workspaces.lease(nothing) as space:
            assert sweep(tmp_path) == []
            assert space.work.is_dir()

    @pytest.mark.asyncio
    async def test_whoever_makes_one_sweeps_first(self, workspaces, tmp_path):
        dead = tmp_path / "agentdescent-ws-dead"
        dead.mkdir()
        (tmp_path / "agentdescent-ws-dead.lock").touch()

        async with workspaces.lease(nothing):
            assert not dead.exists()

    def test_a_link_is_not_taken_for_a_lock(self, tmp_path):
        (tmp_path / "precious").touch()
        (tmp_path / "agentdescent-ws-1").mkdir()
        (tmp_path / "agentdescent-ws-1.lock").symlink_to(tmp_path / "precious")

        assert sweep(tmp_path) == []
        assert (tmp_path / "agentdescent-ws-1").is_dir()


def processes_of(space):
    mark = os.fsencode(space)
    return [pid for pid in living() if mark in environment(pid)]


def living():
    return [int(name) for name in names_in("/proc") if name.isdigit()]


def environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


class TestStrays:
    """What runs for a workspace is known by its environment."""

    @pytest.fixture
    def stray(self, tmp_path):
        home = f"{tmp_path}/home"
        with subprocess.Popen(["sleep", "60"], cwd=tmp_path, env={"HOME": home}) as process:
            yield process
            process.kill()

    def test_what_runs_for_one_is_killed(self, tmp_path, stray):
        strays.end_strays(tmp_path)

        assert stray.wait() == -signal.SIGKILL

    def test_what_is_becoming_another_program_is_killed_as_well(self, tmp_path, stray, monkeypatch):
        """For a moment such a program has no environment."""
        read, place = strays.read_bytes, f"/proc/{stray.pid}/environ"
        monkeypatch.setattr(strays, "read_bytes", lambda path: b"" if path == place else read(path))

        strays.end_strays(tmp_path)

        assert stray.wait() == -signal.SIGKILL

    def test_what_has_no_environment_at_all_lives(self, tmp_path):
        with subprocess.Popen(["/bin/sleep", "60"], env={}) as process:
            strays.end_strays(tmp_path)

            assert process.poll() is None
            process.kill()

    def test_who_only_looks_around_in_one_lives(self, tmp_path):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        looker = ["/bin/sh", "-c", "echo here; read answer"]
        with subprocess.Popen(looker, cwd=tmp_path, env={"HOME": "/"}, **pipes) as process:
            assert process.stdout.readline() == b"here\n"
            strays.end_strays(tmp_path)
            process.stdin.write(b"\n")

        assert process.returncode == 0

    def test_what_has_ended_is_passed_over(self, tmp_path):
        with subprocess.Popen(["true"], env={"HOME": f"{tmp_path}/home"}) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

            strays.end_strays(tmp_path)


class TestRemoval:
    def test_links_go_and_what_they_point_to_stays(self, tmp_path):
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").touch()
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "link").symlink_to(tmp_path / "precious")

        remove(victim)

        assert not victim.exists()
        assert (tmp_path / "precious" / "file").exists()

    def test_the_directory_itself_may_have_become_a_link(self, tmp_path):
        (tmp_path / "precious").mkdir()
        (tmp_path / "victim").symlink_to(tmp_path / "precious")

        remove(tmp_path / "victim")

        assert names_in(tmp_path) == ["precious"]

    def test_a_link_that_takes_the_place_of_a_directory_meanwhile_is_not_followed(
        self, tmp_path, monkeypatch
    ):
        """The worst moment: as soon as a directory has been looked at, it is another."""
        precious = tmp_path / "precious"
        precious.mkdir(0o755)
        (precious / "file").touch()
        victim = tmp_path / "victim"
        (victim / "a" / "b").mkdir(parents=True)
        scandir = os.scandir

        def swap(folder):
            for at in list(victim.iterdir()):
                if at.is_dir() and not at.is_symlink():
                    at.rename(victim / f"was-{secrets.token_hex(4)}")
                    at.symlink_to(precious)
            return scandir(folder)

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", swap)
            with suppress(OSError):
                remove(victim)
        remove(victim)

        assert names_in(precious) == ["file"]
        assert precious.stat().st_mode & 0o777 == 0o755
        assert not victim.exists()

    def test_any_depth(self, tmp_path):
        victim = tmp_path / "victim"
        victim.mkdir()
        fd = os.open(victim, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=fd)
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)

        remove(victim)

        assert not victim.exists()

    def test_any_modes(self, tmp_path):
        victim = tmp_path / "victim"
        (victim / "a" / "b").mkdir(parents=True)
        (victim / "a" / "b" / "c").touch()
        for folder in (victim / "a" / "b", victim / "a", victim):
            folder.chmod(0)

        remove(victim)

        assert not victim.exists()

    def test_what_is_not_there_is_removed(self, tmp_path):
        remove(tmp_path / "nothing")

    def test_what_resists_is_an_error(self, tmp_path, monkeypatch):
        (tmp_path / "victim").mkdir()

        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "rmdir", refuse)
        with pytest.raises(PermissionError):
            remove(tmp_path / "victim")
