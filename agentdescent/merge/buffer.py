"""The evidence buffer: cards that wait for a merge, one bucket per artifact."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from agentdescent.config import AggregatorConfig
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.search import dump_card, load_cards
from agentdescent.core.task import Task


@dataclass(slots=True)
class _Bucket:
    cards: list[EvidenceCard] = field(default_factory=list[EvidenceCard])
    waited: int = 0


class EvidenceBuffer:
    """Holds evidence cards until they are due.

    It lives on the event loop and needs no lock.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def add(self, card: EvidenceCard) -> None:
        """File one card under the artifact that its diff targets."""
        self._buckets.setdefault(card.diff.target, _Bucket()).cards.append(card)

    def tick(self) -> None:
        """Note that every waiting bucket has seen one more step."""
        for bucket in self._buckets.values():
            bucket.waited += 1

    def due(self, config: AggregatorConfig) -> list[str]:
        """Ids of the artifacts whose bucket is full enough or has waited long enough."""
        return [
            artifact_id
            for artifact_id, bucket in self._buckets.items()
            if len(bucket.cards) >= config.batch_trigger or bucket.waited >= config.max_wait_rounds
        ]

    def waiting(self) -> list[str]:
        """Ids of the artifacts that have any card."""
        return list(self._buckets)

    def pending(self) -> int:
        """How many cards wait; leased ones do not count."""
        return sum(len(bucket.cards) for bucket in self._buckets.values())

    def dump(self) -> dict[str, Any]:
        """What waits, as JSON values; leased cards are left out."""
        return {
            artifact_id: {"waited": bucket.waited, "cards": [dump_card(c) for c in bucket.cards]}
            for artifact_id, bucket in self._buckets.items()
        }

    def restore(self, saved: Mapping[str, Any], tasks: Mapping[str, Task]) -> None:
        """Go on from what `dump` gave."""
        for artifact_id, bucket in saved.items():
            self.put_back(artifact_id, load_cards(bucket["cards"], tasks), bucket["waited"])

    def lease(self, artifact_id: str) -> "Batch":
        """Take every card of an artifact, to be forgotten or put back by the batch."""
        bucket = self._buckets.pop(artifact_id, None) or _Bucket()
        return Batch(self, artifact_id, bucket)

    def put_back(self, artifact_id: str, cards: Iterable[EvidenceCard], waited: int = 0) -> None:
        """File `cards` before those that came in meanwhile."""
        returned = list(cards)
        if returned:
            bucket = self._buckets.setdefault(artifact_id, _Bucket())
            bucket.cards[:0] = returned
            bucket.waited = max(bucket.waited, waited)


class Batch:
    """Cards on lease from the buffer.

    As a context manager it is committed at the end, and restored by any exception, cancellation
    included, so that a merge that fails loses no evidence.
    """

    def __init__(self, buffer: EvidenceBuffer, artifact_id: str, bucket: _Bucket) -> None:
        self._buffer = buffer
        self._artifact_id = artifact_id
        self._bucket = bucket

    @property
    def cards(self) -> list[EvidenceCard]:
        """The leased cards, in the order in which they came; empty once given up."""
        return list(self._bucket.cards)

    def commit(self, left_out: Iterable[EvidenceCard] = ()) -> None:
        """Forget the cards, but for those `left_out`, which wait for the next merge."""
        self._buffer.put_back(self._artifact_id, left_out)
        self._bucket = _Bucket()

    def restore(self) -> None:
        """Put every card back in front of those that came in meanwhile."""
        self._buffer.put_back(self._artifact_id, self._bucket.cards, self._bucket.waited)
        self._bucket = _Bucket()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.restore()
