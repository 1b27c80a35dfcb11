"""A run that is killed at its n-th breath, and what there is to say about it afterwards.

`python -m support.mortal PATH SCHEDULE N REPORT` breathes at every call of `run` and at every step
of the ledger; with N = 0 it lives to its end. REPORT gets one line a measurement, and the result.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio

from agentdescent import Diff, DifficultyWeighted, Task, async_evolve
from agentdescent.calls import Stage, current_stage
from agentdescent.core.events import Committed, RoundEnded
from agentdescent.engine.search import EVALUATIONS, entries
from agentdescent.evaluate.identity import task_key
from agentdescent.ledger import GitLedger

RULES, COPIES = 8, 5


def tasks():
    """Interleaved, so that training and held-out tasks need the same rules."""
    return [
        Task(f"t{copy}-{rule}", f"needs rule{rule}", {"rule": f"rule{rule}"})
        for copy in range(COPIES)
        for rule in range(RULES)
    ]


class Breath:
    """Kills the process at its n-th breath; 0 lets it live."""

    def __init__(self, last):
        self._left = last

    def reach(self, _step):
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """Actor, reward and disk of one life. Every answer depends on its question alone.

    `fault` is told of every breath: of a step of the ledger, or of "run".
    """

    def __init__(self, fault, report):
        self.breaths = 0
        self._fault = fault
        self._report = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reach(self, step):
        self.breaths += 1
        self._fault.reach(step)

    async def run(self, rendered, task):
        if current_stage() is Stage.GATE:
            self.note({"run": [hashlib.sha256(rendered.encode()).hexdigest(), task.id]})
        self.reach("run")
        await anyio.sleep(0)
        return rendered

    async def reward(self, task, output):
        harmed = f"- harm {task.meta['rule']}" in output
        return float(f"- {task.meta['rule']}" in output) * (0.0 if harmed else 1.0)

    async def propose(self, rendered, task, output, reward):
        await anyio.sleep(0)
        draw = hashlib.sha256(f"{rendered} {task.id}".encode()).digest()[0]
        other = f"rule{draw % RULES}"
        return f"harm {other}\n{task.meta['rule']}" if draw < 60 else task.meta["rule"]

    def hear(self, event):
        """What a user is told of counts as acknowledged."""
        match event:
            case Committed():
                self.note({"committed": [event.version, event.commit]})
            case RoundEnded():
                self.note({"reward": event.info.held_out_reward})

    def note(self, line):
        os.write(self._report, f"{json.dumps(line)}\n".encode())


class Pairs:
    """Each line of a proposal is a rule of its own."""

    def initial(self):
        return {}

    def render(self, state):
        return "\n".join(f"- {rule}" for rule in sorted(state))

    def to_diff(self, state, proposal, author, base_version, target):
        ops = {rule: "x" for rule in proposal.splitlines() if rule not in state}
        return Diff(f"{author}:{base_version}", target, ops) if ops else None


async def live(path, schedule, mortal, durability="process"):
    """One life."""
    in_rounds = schedule == "rounds"
    result = await async_evolve(
        tasks(),
        mortal.reward,
        run=mortal.run,
        propose=mortal.propose,
        strategy=Pairs(),
        task_sampler=DifficultyWeighted(),
        ledger=GitLedger(path, faults=mortal, durability=durability),
        on_event=mortal.hear,
        resume="continue",
        evaluation_key="v1",
        asynchronous=not in_rounds,
        n_workers=4,
        held_out_frac=0.5,
        **(
            {"rounds": 6, "max_concurrency": 4}
            if in_rounds
            else {"max_iters": 24, "max_seconds": 60}
        ),
    )
    mortal.note({"result": result.record(), "breaths": mortal.breaths})


class Life:
    """What one process came to, by what it has noted.

    Attributes:
        measured: How often each (digest of the rendering, digest of the task) was measured.
        commits: (version, commit id) of every commit that was acknowledged.
        reward: The highest that was acknowledged.
        result: Of the whole run, without what depends on the clock; None if there is none.
        error: Of the run, or None.
        breaths: How many it drew, if it came to its end.
    """

    def __init__(self, report):
        text = Path(report).read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        digests = {task.id: task_key(task).digest.hex() for task in tasks()}
        runs = [line["run"] for line in lines if "run" in line]
        self.measured = Counter((artifact, digests[name]) for artifact, name in runs)
        self.commits = [tuple(line["committed"]) for line in lines if "committed" in line]
        self.reward = max([0.0, *(line["reward"] for line in lines if "reward" in line)])
        ends = [line for line in lines if "result" in line]
        self.result = timeless(ends[0]["result"]) if ends else None
        self.error = ends[0]["result"]["error"] if ends else None
        self.breaths = ends[0]["breaths"] if ends else 0

    def measured_again(self, saved):
        """What it measured although `saved` had it: everything has a value, and may have a second.

        What this does not see, the calls of the whole result show.
        """
        return [pair for pair, times in self.measured.items() if times + saved[pair] > 2]


def spend(path, schedule, last_breath, report):
    """A life in a process of its own; whether it was killed, and what it came to."""
    command = [sys.executable, "-m", "support.mortal", path, schedule, last_breath, report]
    ended = subprocess.run(
        [str(part) for part in command],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        check=False,
    )
    killed = ended.returncode == -signal.SIGKILL
    assert killed or not ended.returncode, ended.stderr.decode()
    return killed, Life(report)


def timeless(record):
    """What two runs of equal seeds have in common."""
    kept = ("state", "final_reward", "initial_reward", "stop_reason", "version", "actor_calls")
    history = [{**entry, "elapsed_s": 0} for entry in record["history"]]
    return {name: record[name] for name in kept} | {"history": history}


def saved_pairs(path):
    """How many measurements of each pair a ledger holds."""

    async def read():
        ledger = GitLedger(path)
        await ledger.open()
        saved = await ledger.adopt("artifact")
        await ledger.close()
        found = entries(saved.pages, EVALUATIONS) if saved else []
        return Counter((artifact, task) for artifact, task, _, _ in found)

    return anyio.run(read)


if __name__ == "__main__":
    path, schedule, last_breath, report = sys.argv[1:]
    anyio.run(live, Path(path), schedule, Mortal(Breath(int(last_breath)), report))
