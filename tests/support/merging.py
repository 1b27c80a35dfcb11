"""A bench to merge on: a ledger in memory, a counting verifier, and cards made in one line."""

from dataclasses import dataclass, field, replace

import anyio

from agentdescent.aggregator import (
    Aggregator,
    AggregatorConfig,
    EvidenceCard,
    LedgerSnapshot,
    Verdict,
)
from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import TIE
from agentdescent.core.task import Task
from agentdescent.errors import CASConflict
from agentdescent.merge.record import Merge
from agentdescent.policy.governance import AuditScheduler
from agentdescent.policy.stats import probability_of_gain
from agentdescent.threads import either

SKILL = "skill"


class Plain:
    """A strategy that shows its whole state."""

    def initial(self):
        return {}

    def render(self, state):
        return repr(sorted(state.items()))

    def to_diff(self, state, proposal, author, base_version, target):
        return None


class Ledger:
    """Artifacts in a dict, with compare-and-swap; `rivals` commit just before we do."""

    def __init__(self, *artifacts):
        self.artifacts = {artifact.id: artifact for artifact in artifacts}
        self.visible = dict(self.artifacts)
        self.changed = []
        self.notes = []
        self.promoted = []
        self.rivals = []
        self.failures = []

    @either
    async def snapshot(self, branch="dev"):
        await anyio.lowlevel.checkpoint()
        return LedgerSnapshot(
            dict(self.visible), {name: a.version for name, a in self.visible.items()}
        )

    @either
    async def refresh(self):
        self.visible = dict(self.artifacts)
        return await self.snapshot()

    @either
    async def commit(self, artifact, base_version, branch="dev", message=""):
        if self.failures:
            raise self.failures.pop(0)
        if self.rivals:
            self.rivals.pop(0)(self)
        head = self.artifacts.get(artifact.id)
        if head is None or base_version.get(artifact.id) != head.version:
            raise CASConflict("moved")
        self.put(replace(head, state=artifact.state, version=head.version + 1))
        self.visible = dict(self.artifacts)
        self.notes.append(message)
        return "abc1234", head.version + 1

    @either
    async def promote_to_stable(self, artifact_id):
        if self.failures:
            raise self.failures.pop(0)
        self.promoted.append((artifact_id, self.artifacts[artifact_id].version))
        return len(self.promoted)

    @either
    async def log(self, branch="dev", limit=20):
        return [f"abc1234 {note.subject}" for note in self.notes[::-1][:limit]]

    def put(self, artifact):
        """Make `artifact` the head, as any writer does."""
        before = self.artifacts[artifact.id]
        keys = before.diff(artifact).ops.keys()
        self.changed.append((artifact.id, artifact.version, keys))
        self.artifacts[artifact.id] = artifact

    def publish(self, **ops):
        """Commit `ops` to the skill where everybody sees it."""
        self.put(self.artifacts[SKILL].apply(Diff("rival", SKILL, ops)))
        self.visible = dict(self.artifacts)

    def lag(self, card):
        base = card.base_version.get(card.diff.target, 0)
        return sum(
            1
            for name, version, keys in self.changed
            if name == card.diff.target and version > base and keys & card.diff.ops.keys()
        )


class Verifier:
    """Scores `reward(state, task)`, each (state, task) once; `broken` tasks cannot be scored."""

    def __init__(self, reward, n_tasks, ranking=None):
        self.held_out = [Task(f"h{i}", f"task {i}") for i in range(n_tasks)]
        self.ranking = self.held_out[: ranking or n_tasks]
        self.reward = reward
        self.broken = set()
        self.scored = []
        self.gated = []
        self.along = []
        self.seconds = []
        self.failures = []

    def score(self, artifact, task):
        key = (artifact.render(), task.id)
        if key not in self.scored:
            self.scored.append(key)
        return float(self.reward(artifact.state, int(task.id[1:])))

    @either
    async def evaluate(self, artifact, tasks):
        await anyio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        return [self.score(artifact, task) for task in tasks]

    @either
    async def second(self, artifact, tasks):
        self.seconds.extend((artifact.render(), task.id) for task in tasks)
        await anyio.lowlevel.checkpoint()
        return [float(self.reward(artifact.state, int(task.id[1:]))) for task in tasks]

    @either
    async def gate(self, head, candidate, bar, *, curtail=True, along=()):
        self.gated.append((dict(candidate.state), round(bar, 6), curtail))
        self.along.append([(sorted(artifact.state), task.id) for artifact, task in along])
        if self.broken:
            return Verdict(False, 0.0, bar, 0.0, 0.0, 0, len(self.held_out), undecided="h0 failed")
        old = await self.evaluate(head, self.held_out)
        new = await self.evaluate(candidate, self.held_out)
        probability, n = probability_of_gain(old, new), len(self.held_out)
        pairs = list(zip(self.held_out, old, new, strict=True))
        return Verdict(
            accepted=probability > bar and sum(new) - sum(old) > TIE,
            probability=probability,
            bar=bar,
            before=sum(old) / n,
            after=sum(new) / n,
            finished=n,
            total=n,
            won=tuple(task for task, was, now in pairs if now > was),
            lost=tuple(task for task, was, now in pairs if now < was),
        )

    @either
    async def cheap_total(self, artifact, fraction=1.0):
        n = max(1, round(len(self.ranking) * fraction))
        return sum(await self.evaluate(artifact, self.ranking[:n]))

    @either
    async def cheap_eval(self, artifact):
        return await self.cheap_total(artifact) / len(self.ranking)

    @either
    async def eval_counts(self, artifact):
        total = sum(await self.evaluate(artifact, self.held_out))
        return total, len(self.held_out) - total

    @either
    async def oracle_eval(self, artifact):
        return (await self.eval_counts(artifact))[0] / len(self.held_out)


@dataclass
class Bench:
    """Everything one aggregator needs, wired up."""

    ledger: Ledger
    verifier: Verifier
    audit: AuditScheduler = field(default_factory=AuditScheduler)
    n_cards: int = 0

    @property
    def head(self):
        return self.ledger.artifacts[SKILL]

    def aggregator(self, kind=Aggregator, policy=None, **knobs):
        return kind(self.ledger, self.verifier, self.audit, AggregatorConfig(**knobs), policy)

    def merge(self, *cards, **knobs):
        """The record of one merge of the skill."""
        return Merge(self.head, self.verifier, AggregatorConfig(**knobs), cards)

    def waiting(self, aggregator):
        """(edit, refusals) of every card that waits."""
        batch = aggregator.buffer.lease(SKILL)
        found = [(dict(card.diff.ops), card.refusals) for card in batch.cards]
        batch.restore()
        return found

    def card(self, ops=None, /, *, author=None, base=1, gain=None, tasks=(), breaking=False, **kw):
        """An evidence card; its worker is its running number."""
        number, self.n_cards = self.n_cards, self.n_cards + 1
        ops, author = ops or kw, author or f"w{number}"
        diff = Diff(f"{author}:{'+'.join(ops)}:{base}", SKILL, ops, breaking, author)
        return EvidenceCard(
            diff,
            {SKILL: base},
            [SKILL],
            before_after_delta=gain or 0.0,
            trajectory_refs=list(tasks),
            order=(number, 1),
            verified=gain is not None,
        )

    async def run(self, aggregator, *cards):
        """File `cards` and take one step; the only report."""
        for card in cards:
            await aggregator.ingest(card)
        [report] = await aggregator.step()
        return report


def solves(state, i):
    """Task i is solved by key "k<i>" with the value "good", unless a key "bad<i>" is there."""
    return state.get(f"k{i}") == "good" and f"bad{i}" not in state


def worth(**values):
    """The reward of a state is the greatest that one of its values has."""
    return lambda state, _: max((values.get(v, 0.0) for v in state.values()), default=0.0)


def rival(**ops):
    """Somebody who commits `ops` just before we do."""
    return lambda ledger: ledger.put(ledger.artifacts[SKILL].apply(Diff("rival", SKILL, ops)))


def make_bench(reward=solves, *, n_tasks=8, state=(), version=1, blast_radius=0.2, ranking=None):
    """A bench for one artifact with so many held-out tasks."""
    skill = EvolvingArtifact(SKILL, dict(state), version, blast_radius, Plain())
    return Bench(Ledger(skill), Verifier(reward, n_tasks, ranking))


def lines_of(note):
    """The subject and body of a commit note."""
    return [note.subject, *note.body.splitlines()]
