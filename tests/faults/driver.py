"""Does to ledgers and to runs whatever can happen to them, and counts what they survived.

`nox -s faults` takes about a minute; `nox -s faults -- --long` does many times as many trials;
`--seed` repeats a run.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import anyio

from agentdescent.ledger import Step
from agentdescent.ledger.faults import NoFaults
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.packing import MANY_LOOSE, MANY_PACKS, Packer
from agentdescent.ledger.repository import open_repository
from faults.children import Child, acknowledged, copy, examine, work, working
from faults.contention import contention
from faults.power import Blackout, Disk, lose, restart
from faults.runs import WholeRuns
from support.faults import Failing, Killing, Seen


class Driver:
    """Runs the trials in a directory of its own; a failed one leaves its ledger there."""

    def __init__(self, disk, memory, rng, *, long):
        self._disk, self._memory, self.rng, self.long = disk, memory, rng, long
        self.failures = []
        self._n = 0

    def fresh(self, *, on_disk=False):
        """A path where nothing is; in memory, where only the real disk would be in the way."""
        self._n += 1
        return (self._disk if on_disk else self._memory) / f"{self._n}"

    def attempt(self, name, trial):
        """Whether a trial succeeded; its result."""
        try:
            return True, trial()
        except Exception:
            self.failures.append(name)
            print(f"FAILED: {name}\n{traceback.format_exc()}", flush=True)
            return False, None

    def random_kills(self):
        """kill -9 at any instant, a fifth of them while the ledger is being made."""
        trials, lost = 400 if self.long else 20, 0
        path, least = self.fresh(on_disk=True), 0
        for trial in range(trials):
            if not trial % 5:
                path, least = self.fresh(on_disk=True), 0
            durability = self.rng.choice(["process", "process", "power"])
            child = working(path, durability=durability)
            time.sleep(self.rng.uniform(0, 0.02 if not least else 0.2))
            child.kill()
            done, tried = acknowledged(child.wait(), least)
            name = f"kill {trial} in {path}"
            good, found = self.attempt(name, lambda p=path, d=done, t=tried: examine(p, d, t))
            lost += not good
            least = found[1] if good else 0
            if not good:
                path = self.fresh(on_disk=True)
        return {"random kills": trials, "survived": trials - lost}

    def scenarios(self):
        """Name -> (ledger to begin with or None, its least version, options)."""
        return {
            "new": (None, 0, {"durability": "power", "commits": 3}),
            "damaged": (*self._damaged(), {"commits": 1}),
            "crowded": (*self.crowded(), {"commits": 1}),
        }

    def _damaged(self):
        """A ledger whose last two versions a dead run left damaged."""
        path = self.fresh()
        working(path, commits=8, durability="none").wait()
        objects = sorted(
            (path / ".git/objects").glob("??/*"), key=lambda file: file.stat().st_mtime
        )
        for file in objects[-14:]:
            file.chmod(0o644)
            file.write_bytes(file.read_bytes()[:8])
        (path / ".git/agentdescent-owners/dead.lock").touch()
        sample = self._start(path)
        return path, examine(sample, 0, 9)[0]

    def crowded(self):
        """A ledger with more loose objects and packs than it should have."""
        path = self.fresh()
        working(path, commits=2, durability="none").wait()
        repository = open_repository(path / ".git")
        packer = Packer(
            repository, path / ".git", Objects(path / ".git", repository.odb), NoFaults()
        )
        for number in range(MANY_PACKS):
            repository.create_blob(f"pack {number}".encode())
            packer.pack()
        for number in range(MANY_LOOSE + 1):
            repository.create_blob(f"loose {number}".encode())
        repository.free()
        return path, 3

    def every_step(self):
        """kill -9, and a full disk, at every step: once, or first, in the middle and last."""
        counts = dict.fromkeys(
            ("steps", "kills", "kills survived", "full disks", "full disks survived"), 0
        )
        reached = set()
        for name, (template, least, options) in self.scenarios().items():
            steps = self._steps(template, options)
            reached |= set(steps)
            for step, times in steps.items():
                some = {1, times // 2 + 1, times} if self.long else {self.rng.randint(1, times)}
                for nth in sorted(some):
                    label = f"{name}: {step} for the {nth}. time of {times}"
                    for kind, tally in ((Killing, "kills"), (Failing, "full disks")):
                        strike = partial(self._strike, kind(step, nth), template, least, options)
                        counts[tally] += 1
                        counts[f"{tally} survived"] += self.attempt(f"{tally}, {label}", strike)[0]
        counts["steps"] = len(reached)
        missing = [step for step in Step if step not in reached and _is_ours(step)]
        self.attempt("every step is reached", lambda: _none(missing))
        return counts

    def _steps(self, template, options):
        """How often each step is reached when nothing goes wrong."""
        path = self._start(template)
        seen = Seen()

        def main(report):
            anyio.run(lambda: work(path, lambda _: None, faults=seen, **options))
            report(seen.steps)

        (steps,) = Child(main).wait()
        shutil.rmtree(path)
        return {Step(step): steps.count(step) for step in steps}

    def _start(self, template):
        path = self.fresh()
        if template:
            copy(template, path)
        return path

    def _strike(self, fault, template, least, options):
        path = self._start(template)
        child = working(path, faults=fault, **options)
        messages = child.wait()
        if isinstance(fault, Killing):
            assert child.signal == 9, "it was not killed"
        errors = [message["error"] for message in messages if "error" in message]
        assert all(error.startswith("LedgerFull") for error in errors), errors
        examine(path, *acknowledged(messages, least))
        shutil.rmtree(path)

    def power_failures(self, durability, trials=None):
        """A power failure at a random step."""
        trials = trials or (300 if self.long else 15)
        good = stepped = silent = 0
        for trial in range(trials):
            fine, found = self.attempt(
                f"power failure {trial} at {durability!r}", lambda: self._power_failure(durability)
            )
            good += fine
            if found:
                stepped += found[0]
                silent += found[1]
        return {
            "power failures": trials,
            "durability": durability,
            "survived": good,
            "acknowledged versions lost": stepped,
            "times without a word": silent,
        }

    def _power_failure(self, durability):
        path, at, note = self.fresh(), self.rng.randint(8, 120), self.fresh()
        child = Child(lambda report: _until_power_fails(path, report, durability, at, note))
        done, tried = acknowledged(child.wait())
        disk = Disk()
        disk.read(note)
        after = self.fresh()
        lose(path, disk, self.rng, after)
        restart(after)
        power = durability == "power"
        version, _, texts = examine(after, done if power else 0, tried, fsck=power)
        for leftover in (path, after):
            shutil.rmtree(leftover)
        return done - min(version, done), version < done and not texts


def _until_power_fails(path, report, durability, at, note):
    disk = Disk()
    os.fsync = disk.fsync
    fault = Blackout(at, disk, note)
    anyio.run(lambda: work(path, report, commits=12, durability=durability, faults=fault))
    fault.finish()


def _memory():
    """A file system in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _is_ours(step):
    return not step.value.startswith("save")


def _none(things):
    assert not things, things


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="many times as many trials")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    disk, memory = (
        Path(tempfile.mkdtemp(prefix="ledger-faults-", dir=where)) for where in (None, _memory())
    )
    driver = Driver(disk, memory, random.Random(options.seed), long=options.long)
    print(f"seed {options.seed}", flush=True)
    runs = WholeRuns(driver)
    for trials in (
        partial(contention, driver),
        driver.random_kills,
        driver.every_step,
        partial(driver.power_failures, "power"),
        partial(driver.power_failures, "process"),
        runs.random_kills,
        runs.killed_again_and_again,
        runs.every_step,
        partial(runs.power_failures, "power"),
        partial(runs.power_failures, "process"),
    ):
        began = time.perf_counter()
        counts = trials()
        shown = ", ".join(f"{name} {value}" for name, value in counts.items())
        print(f"{shown} ({time.perf_counter() - began:.0f} s)", flush=True)
    if driver.failures:
        print(f"{len(driver.failures)} failures; their ledgers are in {disk} and {memory}")
        sys.exit(1)
    for place in (disk, memory):
        shutil.rmtree(place)
    print("everything survived")


if __name__ == "__main__":
    main()
