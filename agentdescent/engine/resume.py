"""Going on from a saved search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentdescent.core.diff import State
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.search import Persistent, load_cards
from agentdescent.core.store import SavedSearch, Stored
from agentdescent.core.task import Task
from agentdescent.engine.search import rounds_of
from agentdescent.result import ResumedFrom, RoundInfo

STATISTICS = ("aggregator", "audit", "experience", "parallel", "sampler")
"""Parts that a new run on the same data goes on with; the others belong to one run alone."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A search from before, as far as this run goes on with it.

    Attributes:
        saved: What the ledger gave back.
        newest: The artifact as it is now.
        whole: The run itself goes on, with its budgets and its history; else a new one begins.
        evaluations: Measurements that may be trusted.
        tasks: All training tasks, by id.
    """

    saved: SavedSearch
    newest: Stored
    whole: bool
    evaluations: list[Any]
    tasks: Mapping[str, Task]

    @property
    def merges_again(self) -> bool:
        """The run died in a merge that has to be taken again."""
        return self.whole and self.saved.document["phase"] == "merge"

    @property
    def base(self) -> Stored:
        """The artifact to start from."""
        return self.saved.base if self.merges_again else self.newest

    def made(self) -> dict[int, tuple[str, State]]:
        """Commits that the merge which is taken again has made before, by version."""
        if not self.merges_again:
            return {}
        return {entry.version: (commit, entry.state) for commit, entry in self.saved.commits}

    def history(self) -> list[RoundInfo]:
        """The rounds to go on from; none if a new run begins."""
        if not self.whole:
            return []
        return [RoundInfo.of(entry) for entry in rounds_of(self.saved.document, self.saved.pages)]

    @property
    def cards(self) -> list[EvidenceCard]:
        """Evidence that no merge has judged yet, or whose merge is taken again."""
        state = self.base.state
        cards = load_cards(self.saved.document["parts"]["merger"], self.tasks)
        return [card for card in cards if self.merges_again or _changes(state, card)]

    def restore(self, parts: Mapping[str, Persistent]) -> None:
        """Let every part go on from what it had dumped."""
        saved: Mapping[str, Any] = self.saved.document["parts"]
        for name, part in parts.items():
            if (self.whole or name in STATISTICS) and saved.get(name) is not None:
                part.restore(saved[name])

    @property
    def summary(self) -> ResumedFrom:
        """What is said about it."""
        return ResumedFrom(
            run=self.saved.run,
            version=self.base.version,
            whole=self.whole,
            rounds=len(self.history()),
            evaluations=len(self.evaluations),
            cards=len(self.cards),
        )


def _changes(state: State, card: EvidenceCard) -> bool:
    return any(state.get(key) != value for key, value in card.diff.ops.items())
