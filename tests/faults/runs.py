"""Whole runs that something happens to, and that are continued until they are done.

In rounds a run must then have come to what one came to that was left alone, and must never have
measured again what it had saved. Without rounds chance decides, but nothing that was acknowledged
may be missing, and the reward must not be lower.
"""

import json
import os
import shutil
from collections import Counter
from functools import partial

import anyio

from agentdescent import Ledger
from agentdescent.ledger import Step
from faults.children import Child, check_with_git, copy
from faults.power import Blackout, Disk, lose, restart
from support.faults import Failing, Killing, Seen
from support.mortal import Breath, Life, Mortal, live, saved_pairs

SCHEDULES = ("rounds", "barrier-free")
OF_LEDGER_ALONE = {Step.QUARANTINED, Step.STEPPED_BACK, Step.MENDED}
"""Steps that only a damaged ledger has."""


class WholeRuns:
    """Trials of whole runs, in the driver's directory and with its dice."""

    def __init__(self, driver):
        self._driver, self._rng = driver, driver.rng
        self._crowded, _ = driver.crowded()
        self._whole = {schedule: self._left_alone(schedule) for schedule in SCHEDULES}

    def random_kills(self):
        """kill -9 at a random breath, in turn in all forms; the run is continued."""
        n = 300 if self._driver.long else 20
        good = 0
        for trial in range(n):
            schedule = SCHEDULES[trial % 2]
            breath = self._rng.randint(1, self._whole[schedule].breaths)
            options = {
                "durability": self._rng.choice(["process", "process", "power"]),
                "template": self._crowded if not trial % 5 else None,
            }
            strike = partial(self._strike, schedule, Breath(breath), **options)
            name = f"whole run {trial}, {schedule}, killed at breath {breath} with {options}"
            good += self._driver.attempt(name, strike)[0]
        return {"whole runs killed at random": n, "survived": good}

    def killed_again_and_again(self):
        """One run in rounds whose every life but the last ends early."""
        n = 100 if self._driver.long else 20
        name = f"a whole run killed {n} times"
        good, lives = self._driver.attempt(name, lambda: self._many_lives(n))
        return {"kills of one run": n, "lives": lives, "survived": int(good)}

    def every_step(self):
        """kill -9, and a full disk, at the steps of the ledger while a whole run works."""
        tally = dict.fromkeys(("steps of whole runs", "struck", "survived"), 0)
        reached = set()
        for schedule, options in (
            ("rounds", {"durability": "power"}),
            ("barrier-free", {}),
            ("rounds", {"template": self._crowded}),
        ):
            steps = self._steps(schedule, **options)
            new = {step: times for step, times in steps.items() if step not in reached}
            reached |= set(steps)
            for step, times in (steps if self._driver.long else new).items():
                for kind in (Killing, Failing):
                    nth = self._rng.randint(1, times)
                    strike = partial(self._strike, schedule, kind(step, nth), **options)
                    label = f"{kind.__name__} a whole run, {schedule}, at {step} {nth}/{times}"
                    tally["struck"] += 1
                    tally["survived"] += self._driver.attempt(label, strike)[0]
        tally["steps of whole runs"] = len(reached)
        missing = set(Step) - reached - OF_LEDGER_ALONE
        self._driver.attempt("whole runs reach every step", lambda: _none(missing))
        return tally

    def power_failures(self, durability):
        """A power failure at a random breath of a run in rounds."""
        n = 60 if self._driver.long else 5
        good = 0
        for trial in range(n):
            breath = self._rng.randint(8, self._whole["rounds"].breaths)
            fail = partial(self._power_failure, durability, breath)
            name = f"power failure {trial} of a whole run at {durability!r}, breath {breath}"
            good += self._driver.attempt(name, fail)[0]
        return {"power failures of whole runs": n, "durability": durability, "survived": good}

    def _left_alone(self, schedule):
        path = self._driver.fresh()
        life, _ = self._live(path, schedule, Breath(0))
        shutil.rmtree(path)
        return life

    def _steps(self, schedule, durability="process", template=None):
        """How often each step is reached when nothing goes wrong."""
        path, seen, report = self._begin(template), Seen(), self._driver.fresh()

        def main(tell):
            anyio.run(live, path, schedule, Mortal(seen, report), durability)
            tell(seen.steps)

        (steps,) = Child(main).wait()
        shutil.rmtree(path)
        return {Step(step): steps.count(step) for step in steps if step != "run"}

    def _begin(self, template):
        path = self._driver.fresh()
        if template:
            copy(template, path)
        return path

    def _strike(self, schedule, fault, *, durability="process", template=None):
        path = self._begin(template)
        first, child = self._live(path, schedule, fault, durability)
        if isinstance(fault, Killing):
            assert child.signal == 9, "it was not killed"
        if _is_there(path):
            check_with_git(path)
        self._continue(path, schedule, first)
        shutil.rmtree(path)

    def _many_lives(self, n):
        path, lives = self._driver.fresh(), []
        per_life = self._whole["rounds"].breaths // 6
        while len(lives) < n or lives[-1].result is None:
            fault = Breath(self._rng.randint(1, per_life) if len(lives) < n else 0)
            saved = self._saved(path) if _is_there(path) else Counter()
            life, _ = self._live(path, "rounds", fault)
            assert not life.measured_again(saved), "it measured again what it had saved"
            lives.append(life)
            if life.result is not None:
                break
        self._check(path, "rounds", lives)
        shutil.rmtree(path)
        return len(lives)

    def _continue(self, path, schedule, first):
        """Take a run up again, and look at what it comes to."""
        saved = self._saved(path) if schedule == "rounds" and _is_there(path) else Counter()
        second, _ = self._live(path, schedule, Breath(0))
        assert not second.measured_again(saved), "it measured again what it had saved"
        self._check(path, schedule, [first, second])

    def _check(self, path, schedule, lives):
        last = lives[-1].result
        if schedule == "rounds":
            _equal(last, self._whole["rounds"].result)
        made = {(version.number, version.commit) for version in Ledger(path).history()}
        acknowledged = {commit for life in lives for commit in life.commits}
        assert acknowledged <= made, sorted(acknowledged - made)
        assert last["final_reward"] >= max(life.reward for life in lives), "the reward fell"
        check_with_git(path)

    def _power_failure(self, durability, breath):
        path, after = self._driver.fresh(), self._driver.fresh()
        note, report = self._driver.fresh(), self._driver.fresh()
        disk = Disk()

        def main(_tell):
            os.fsync = disk.fsync
            fault = Blackout(breath, disk, note)
            anyio.run(live, path, "rounds", Mortal(fault, report), durability)
            fault.finish()

        Child(main).wait()
        disk.read(note)
        lose(path, disk, self._rng, after)
        restart(after)
        if durability == "power":
            self._continue(after, "rounds", Life(report))
        else:
            last, _ = self._live(after, "rounds", Breath(0))
            assert last.result["final_reward"] >= last.result["initial_reward"]
        for leftover in (path, after):
            shutil.rmtree(leftover)

    def _saved(self, path):
        sample = self._driver.fresh()
        copy(path, sample)

        def main(tell):
            tell(sorted(saved_pairs(sample).items()))

        (pairs,) = Child(main).wait()
        shutil.rmtree(sample)
        return Counter({tuple(pair): times for pair, times in pairs})

    def _live(self, path, schedule, fault, durability="process"):
        """One life in a process of its own: what it came to, and how it ended."""
        report = self._driver.fresh()
        report.touch()
        mortal = partial(Mortal, fault, report)
        child = Child(lambda _tell: anyio.run(live, path, schedule, mortal(), durability))
        messages = child.wait()
        life = Life(report)
        errors = [message["error"] for message in messages if "error" in message]
        for error in filter(None, [*errors, life.error]):
            assert isinstance(fault, Failing), error
            assert error.startswith("LedgerFull"), error
        report.unlink()
        return life, child


def _is_there(path):
    return (path / ".git").exists()


def _none(things):
    assert not things, things


def _equal(one, other):
    assert one == other, json.dumps([one, other], indent=1)
