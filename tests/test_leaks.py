"""The checks of `conftest.py` are checked here: each leak below must be noticed."""

import subprocess
import sys
from pathlib import Path

LEAKS = """
import asyncio, os, tempfile, threading
import pytest

release = threading.Event()
kept = []


@pytest.fixture(scope="module", autouse=True)
def let_go():
    yield
    release.set()


@pytest.mark.asyncio
async def test_task():
    kept.append(asyncio.ensure_future(asyncio.sleep(60)))
    await asyncio.sleep(0)


def test_thread():
    threading.Thread(target=release.wait, daemon=True).start()


@pytest.mark.leaves_thread
def test_thread_on_purpose():
    threading.Thread(target=release.wait, daemon=True).start()


def test_descriptors():
    kept.extend(os.pipe() + os.pipe())


def test_scratch():
    tempfile.mkdtemp(prefix="agentdescent-evolve-")


def test_file():
    open("left", "w").close()


def test_nothing():
    pass
"""


def test_every_kind_of_leak_is_noticed(tmp_path):
    conftest = Path(__file__).with_name("conftest.py").read_text()
    shortened = conftest.replace("SECONDS_TO_END = 2.0", "SECONDS_TO_END = 0.05")
    (tmp_path / "conftest.py").write_text(shortened)
    (tmp_path / "test_it.py").write_text(LEAKS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")

    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-rE", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options]
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    errors = [line.split("::")[1].split()[0] for line in child.stdout.splitlines() if "::" in line]
    assert errors == ["test_task", "test_thread", "test_descriptors", "test_scratch", "test_file"]
