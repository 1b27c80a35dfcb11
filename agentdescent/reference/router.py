"""The router: a table from keywords to labels, and the texts that it has to label.

It is deterministic and needs no model. What evolves is the table; one task is a cluster of texts; a
proposal sets a few rows of the table, some of them wrong if it is to be noisy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any

from agentdescent.core.artifact import TEXT_CONTRACT, Contract
from agentdescent.core.diff import Diff, State, apply_ops, stable_hash
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.task import Task

SUBJECTS = ("billing", "shipping", "returns", "accounts", "technical", "other")
"""What texts are about: the labels."""

UNKNOWN = "unknown"
"""The label of a text in which no known keyword occurs."""

_FILLERS = ("please", "urgent", "hello", "ticket", "again")
_EMPTY = "(empty)"


@dataclass(frozen=True, slots=True)
class RouterTask:
    """One text, with the label that is right and the keyword that it follows from."""

    text: str
    label: str
    keyword: str


@dataclass(frozen=True, slots=True)
class TaskUniverse:
    """Every text there is.

    Attributes:
        gold: Keyword to label: the table that is to be found.
        tasks: The texts, shuffled.
        seed: Of the shuffles.
    """

    gold: Mapping[str, str]
    tasks: Sequence[RouterTask]
    seed: int

    def split(self, held_out_frac: float = 0.4) -> tuple[list[RouterTask], list[RouterTask]]:
        """The texts to learn from and those to be measured on; all keywords are in both."""
        shuffled = list(self.tasks)
        Random(self.seed + 1).shuffle(shuffled)  # noqa: S311 - deals texts, guards nothing
        cut = int(len(shuffled) * (1.0 - held_out_frac))
        return shuffled[:cut], shuffled[cut:]

    def clusters(self, n: int = 6) -> list[list[RouterTask]]:
        """The texts in `n` buckets by keyword, without the empty ones."""
        return by_keyword(self.tasks, n)


def make_task_universe(
    n_keywords: int = 24, tasks_per_keyword: int = 12, seed: int = 7
) -> TaskUniverse:
    """Texts of the form ``<filler>-<keyword>-<number>``; labels cycle through the subjects."""
    width = max(2, len(str(n_keywords - 1)))  # of one length, so that none is part of another
    keywords = [f"kw{index:0{width}d}" for index in range(n_keywords)]
    gold = {keyword: SUBJECTS[i % len(SUBJECTS)] for i, keyword in enumerate(keywords)}
    random = Random(seed)  # noqa: S311 - makes up texts, guards nothing
    tasks = [
        RouterTask(f"{random.choice(_FILLERS)}-{keyword}-{number}", gold[keyword], keyword)
        for keyword in keywords
        for number in range(tasks_per_keyword)
    ]
    random.shuffle(tasks)
    return TaskUniverse(MappingProxyType(gold), tuple(tasks), seed)


def by_keyword(tasks: Iterable[RouterTask], n: int) -> list[list[RouterTask]]:
    """`tasks` in `n` buckets, each keyword in one of them; without the empty ones."""
    buckets: list[list[RouterTask]] = [[] for _ in range(n)]
    for task in tasks:
        buckets[stable_hash(task.keyword) % n].append(task)
    return [bucket for bucket in buckets if bucket]


@dataclass(frozen=True)
class RouterSkill:
    """The table as an artifact of its own, outside a run: an `Evolvable`."""

    id: str = "mol-router"
    table: State = field(default_factory=dict[str, str])
    version: int = 1
    blast_radius: float = 0.2
    contract: Contract = TEXT_CONTRACT

    def classify(self, text: str) -> str:
        """The label of the first keyword, in their order, that occurs in `text`."""
        return next((self.table[key] for key in sorted(self.table) if key in text), UNKNOWN)

    def accuracy(self, tasks: Sequence[RouterTask]) -> float:
        """The share of `tasks`, at least one, that it labels rightly."""
        return sum(self.classify(task.text) == task.label for task in tasks) / len(tasks)

    def diff(self, other: "RouterSkill") -> Diff:
        """The edit that turns this table into the other one."""
        changed = {k: v for k, v in other.table.items() if self.table.get(k) != v}
        gone = dict.fromkeys(self.table.keys() - other.table.keys())
        return Diff(f"{self.id}:diff", self.id, {**changed, **gone})

    def apply(self, diff: Diff) -> "RouterSkill":
        """A new table, one version on."""
        return replace(self, table=apply_ops(self.table, diff.ops), version=self.version + 1)

    def evidence_eval(self, card: EvidenceCard) -> float:
        """The mean accuracy over the clusters of `card`; 0.0 if it has none."""
        clusters = [ref for ref in card.trajectory_refs if isinstance(ref, Task)]
        scores = [self.accuracy(_items(cluster)) for cluster in clusters]
        return sum(scores) / len(scores) if scores else 0.0


@dataclass(frozen=True, slots=True)
class RouterStrategy:
    """The artifact is the table, rendered row by row; a proposal is rows, too.

    Attributes:
        max_ops: How many rows one proposal may change; what is beyond waits for another one.
    """

    max_ops: int = 4

    def initial(self) -> State:
        """An empty table."""
        return {}

    def render(self, state: State) -> str:
        """A title, and the rows in the order of their keywords."""
        rows = [f"{key}: {state[key]}" for key in sorted(state)] or [_EMPTY]
        return "\n".join(["# Routes", *rows])

    def to_diff(
        self, state: State, proposal: str, author: str, base_version: int, target: str
    ) -> Diff | None:
        """The first `max_ops` rows of `proposal` that are news."""
        rows = routes(proposal)
        changed = sorted(key for key, label in rows.items() if state.get(key) != label)
        ops = {key: rows[key] for key in changed[: self.max_ops]}
        if not ops:
            return None
        return Diff(f"{author}:{'-'.join(ops)}:{base_version}", target, ops, author=author)


def routes(rendered: str) -> dict[str, str]:
    """The rows in a text: keyword to label."""
    pairs = (line.split(": ", 1) for line in rendered.splitlines() if ": " in line)
    return {keyword: label for keyword, label in pairs}  # noqa: C416 - the pairs are lists


@dataclass(frozen=True, slots=True)
class ClusteredTasks:
    """A universe as the engine takes it: one task is a cluster of texts.

    Attributes:
        train: One for each bucket of keywords, named c0, c1, ...
        held_out: Of all keywords each, named h0, h1, ...
    """

    train: Sequence[Task]
    held_out: Sequence[Task]

    @property
    def all(self) -> list[Task]:
        """Both, in the order in which `held_out_frac` parts them."""
        return [*self.train, *self.held_out]

    @property
    def held_out_frac(self) -> float:
        """The share by which the positional split of a run parts them exactly."""
        return len(self.held_out) / len(self.all)


def clustered(
    train: Iterable[RouterTask], held_out: Sequence[RouterTask], n: int = 6
) -> ClusteredTasks:
    """Texts to learn from by keyword, those to be measured on dealt in turn, `n` clusters each.

    The first may be fewer: a bucket without keywords makes no task.
    """
    dealt = [held_out[index::n] for index in range(n)]
    return ClusteredTasks(
        [_cluster(f"c{i}", bucket) for i, bucket in enumerate(by_keyword(train, n))],
        [_cluster(f"h{i}", share) for i, share in enumerate(dealt) if share],
    )


def _cluster(name: str, tasks: Sequence[RouterTask]) -> Task:
    meta = {
        "items": [(task.text, task.label, task.keyword) for task in tasks],
        "keywords": sorted({task.keyword for task in tasks}),
    }
    return Task(name, "\n".join(task.text for task in tasks), meta)


def _items(task: Task) -> list[RouterTask]:
    return [RouterTask(*item) for item in task.meta["items"]]


def router_run(rendered: str, task: Task) -> str:
    """Label every text of a cluster with a rendered table, one label a line."""
    skill = RouterSkill(table=routes(rendered))
    return "\n".join(skill.classify(item.text) for item in _items(task))


def router_reward(task: Task, output: str) -> float:
    """The share of the texts that are labelled rightly."""
    answers = _answers(task, output)
    return sum(item.label == label for item, label in answers) / len(answers)


def _answers(task: Task, output: str) -> list[tuple[RouterTask, str]]:
    """Each text of a cluster with the label that it was given; "" where a line is missing."""
    items = _items(task)
    labels = [*output.splitlines(), *[""] * len(items)]
    return list(zip(items, labels, strict=False))


def router_propose(
    gold: Mapping[str, str], noise: float = 0.0, seed: int = 0, max_ops: int = 4
) -> Callable[[str, Task, Any, float], str | None]:
    """A reflector that knows the answers and passes some of them on.

    Args:
        gold: The table that is right.
        noise: With this probability, in [0, 1], a row names another label.
        seed: What is drawn depends on it, on the task, and on how often that was asked about; not
            on the order in which rollouts end.
        max_ops: How many of the keywords that went wrong it names.

    Returns:
        A function to be given as `propose`.
    """
    turns: dict[str, count[int]] = {}

    def propose(rendered: str, task: Task, output: str, reward: float) -> str | None:
        del rendered, reward
        turn = next(turns.setdefault(task.id, count(1)))
        random = Random(f"{seed}/{task.id}/{turn}")  # noqa: S311 - it stands for a model
        answers = _answers(task, output)
        wrong = sorted({item.keyword for item, label in answers if label != item.label})
        rows = [f"{keyword}: {_label(gold[keyword], noise, random)}" for keyword in wrong[:max_ops]]
        return "\n".join(rows) or None

    return propose


def _label(right: str, noise: float, random: Random) -> str:
    if random.random() >= noise:
        return right
    return random.choice([subject for subject in SUBJECTS if subject != right])
