"""The trials can fail: a ledger that keeps no promise does not pass for one that does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PRELUDE = """
import json, random, sys
from pathlib import Path
from agentdescent.ledger import Step
from faults.children import acknowledged, examine, working
from faults.driver import Driver
from support.faults import Killing

place = Path(sys.argv[1])
driver = Driver(place, place, random.Random(7), long=False)
"""


@pytest.fixture
def trials(tmp_path):
    """Run a piece of code, with a driver at hand, in a process of its own; what it prints."""

    def run(code):
        path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + code, tmp_path],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


POWER = """
counts = {level: driver.power_failures(level, 4) for level in ("power", "process")}
print(json.dumps({level: list(count.values()) for level, count in counts.items()}))
"""


@pytest.mark.timeout(60)
def test_power_loses_nothing_and_process_does_but_says_so(trials):
    counts = trials(POWER)
    n, _, survived, lost, _ = counts["power"]
    assert (survived, lost) == (n, 0)
    n, _, survived, lost, silent = counts["process"]
    assert (survived, silent) == (n, 0)
    assert lost > 0


KILLED = """
child = working(place / "run", faults=Killing(Step.BRANCH_LOCKED, 5))
done, tried = acknowledged(child.wait())
left = [lock.name for lock in place.rglob("refs/**/*.lock")]
version, following, texts = examine(place / "run", done, tried)
print(json.dumps([child.signal, done, tried, left, version, following, texts]))
"""


def test_a_kill_leaves_a_lock_that_the_next_run_removes_without_a_word(trials):
    assert trials(KILLED) == [9, 3, 4, ["dev.lock"], 3, 4, []]


LOST = """
child = working(place / "run", commits=3)
done, tried = acknowledged(child.wait())
try:
    examine(place / "run", done + 1, done + 1)
except AssertionError as error:
    print(json.dumps(str(error)))
"""


def test_a_version_that_is_missing_is_noticed(trials):
    assert trials(LOST) == "version 4 is not in 5..5"
