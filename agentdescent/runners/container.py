"""Isolation by containers: docker or podman."""

import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentdescent.errors import AgentError, CommandNotStarted
from agentdescent.process import Finished, Launch, Limits, clean_environment, run_command
from agentdescent.runners.isolation import DEFAULT_LIMITS, Workspace

WORK, HOME = "/workspace", "/home/agent"
"""Where a program finds its workspace and its HOME."""

_ENGINES = ("docker", "podman")
_ROOT, _SPACE = "agentdescent.root", "agentdescent.workspace"
_ENGINE_VARIABLES = (
    *("HOME", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_CERT_PATH"),
    *("DOCKER_TLS_VERIFY", "CONTAINER_HOST", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
)
_ITS_OWN = ("PATH", "HOME", "TMPDIR", "TMP", "TEMP")
_PATIENCE_S = 30.0
_ENGINE_FAILED = 125
_ITS_WORDS = ("docker: ", "Error: ", "Unable to find image")
_HARDENING = (
    *("--rm", "--init", "--interactive", "--read-only", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges"),
)


@dataclass(frozen=True, slots=True)
class Container:
    """Each program runs in a container of its own, which is removed when it ends.

    The file system of the image is read-only, ``/tmp`` is empty, there are no privileges and by
    default no network; HOME and the workspace last as long as the rollout. Programs come from the
    image. It does not stop a program from filling the disk through the workspace, and it is no
    stronger than the kernel, which the containers share.

    Attributes:
        image: The image; it is not pulled.
        engine: "docker", "podman" or where one is; None for whichever is installed.
        limits: What it may use: `memory_bytes` and `processes` altogether, the rest each process.
        cpus: Processors it may use at once; None for all.
        network: Let it use the network of the engine.
        tmp_bytes: The size of its ``/tmp``.
        rootless: The engine runs without root, as a rootless docker does: root inside is this user.
    """

    image: str
    engine: str | None = None
    limits: Limits = DEFAULT_LIMITS
    cpus: float | None = None
    network: bool = False
    tmp_bytes: int = 256 * 1024 * 1024
    rootless: bool = False

    @property
    def identity(self) -> str:
        """What of it may change what a program does."""
        settings = (self.image, self.limits, self.cpus, self.network, self.tmp_bytes)
        return f"container {settings}"

    async def prepare(self, root: Path, /) -> None:
        """See that the engine answers, and remove the containers of dead runs below `root`.

        Raises:
            CommandNotStarted: If there is no engine.
            AgentError: If it does not answer.
        """
        of_root = ("--filter", f"label={_ROOT}={root}", "--format", "{{.Names}}")
        found = await self._engine("ps", "--all", *of_root)
        if found.returncode:
            refusal = AgentError(
                f"{self._program()!r} does not answer: {found.stderr.strip()[:400]}; start the "
                "engine, or use another isolation"
            )
            refusal.attempts_made = 1
            raise refusal
        names = found.stdout.split()
        dead = [name for name in names if not (root / name.rpartition("-")[0]).exists()]
        if dead:
            await self._engine("rm", "--force", *dead)

    def confine(self, launch: Launch, space: Workspace, /) -> Launch:
        """Start it by the engine, in a container of this workspace.

        Raises:
            CommandNotStarted: If there is no engine.
        """
        command = (
            *(self._program(), "run", *_HARDENING),
            *("--name", f"{space.path.name}-{secrets.token_hex(4)}"),
            *("--label", f"{_ROOT}={space.path.parent}", "--label", f"{_SPACE}={space.path}"),
            *("--pull", "never", "--network", "bridge" if self.network else "none"),
            *("--tmpfs", f"/tmp:rw,exec,mode=1777,size={self.tmp_bytes}"),  # noqa: S108 - its own
            *("--mount", f"type=bind,src={space.work},dst={WORK}"),
            *("--mount", f"type=bind,src={space.home},dst={HOME}", "--workdir", WORK),
            *self._user(),
            *self._limiting(),
            *(part for name in sorted(_handed_on(launch)) for part in ("--env", name)),
            *("--env", f"HOME={HOME}"),
            self.image,
            *launch.command,
        )
        env = {**_engine_environment(), **_handed_on(launch)}
        return Launch(command, launch.cwd, env)

    def complaint(self, finished: Finished, /) -> str:
        """What the engine said that could not make the container."""
        said = finished.stderr.strip()
        return said if finished.returncode == _ENGINE_FAILED and said.startswith(_ITS_WORDS) else ""

    async def clear(self, space: Workspace, /) -> None:
        """Remove what still runs; a RuntimeWarning says if the engine cannot."""
        try:
            found = await self._engine("ps", "--all", "--quiet", "--filter", _label(space))
            left = found.stdout.split()
            if left:
                found = await self._engine("rm", "--force", *left)
            complaint = found.stderr.strip() if found.returncode else ""
        except AgentError as error:
            complaint = str(error)
        if complaint:
            warnings.warn(
                f"containers of {space.path} may be left: {complaint[:400]}", RuntimeWarning, 2
            )

    def _program(self) -> str:
        found = self.engine or next(filter(shutil.which, _ENGINES), None)
        if found is None:
            refusal = CommandNotStarted(
                "there is neither docker nor podman to start a container with; install one, or "
                "use isolation=Bubblewrap()"
            )
            refusal.attempts_made = 1
            raise refusal
        return found

    async def _engine(self, *arguments: str) -> Finished:
        command = (self._program(), *arguments)
        return await run_command(command, env=_engine_environment(), timeout=_PATIENCE_S)

    def _user(self) -> Iterator[str]:
        """Let what it writes be ours, so that we can remove it."""
        if self.rootless:
            return
        if os.path.basename(self._program()) == "podman" and os.geteuid() != 0:  # noqa: PTH119 - text
            yield from ("--userns", "keep-id")
        yield from ("--user", f"{os.geteuid()}:{os.getegid()}")

    def _limiting(self) -> Iterator[str]:
        limits = self.limits
        yield from ("--pids-limit", str(limits.processes or 512))
        if self.cpus is not None:
            yield from ("--cpus", f"{self.cpus:g}")
        if limits.memory_bytes is not None:
            memory = str(limits.memory_bytes)
            yield from ("--memory", memory, "--memory-swap", memory)
        for name, limit in (
            ("cpu", limits.cpu_s),
            ("fsize", limits.file_bytes),
            ("nofile", limits.open_files),
        ):
            if limit is not None:
                yield from ("--ulimit", f"{name}={limit}:{limit}")


def _handed_on(launch: Launch) -> dict[str, str]:
    """What a program sees of its environment.

    It is handed on by name alone, so that no value can be read off the list of processes.
    """
    own = {*_ITS_OWN, *_ENGINE_VARIABLES}
    return {name: value for name, value in launch.env.items() if name not in own}


def _label(space: Workspace) -> str:
    return f"label={_SPACE}={space.path}"


def _engine_environment() -> dict[str, str]:
    return clean_environment(_ENGINE_VARIABLES)
