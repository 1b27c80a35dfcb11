"""The optimizer and what a custom one works with."""

from agentdescent.config import AggregatorConfig
from agentdescent.core.evidence import EvidenceCard
from agentdescent.core.merging import (
    ArtifactLedger,
    Audit,
    LedgerSnapshot,
    Verdict,
    VerifierProtocol,
)
from agentdescent.core.outcomes import MergeOutcome, MergeReport, Refusal
from agentdescent.core.protocols import AggregatorFactory, AggregatorProtocol
from agentdescent.core.store import CommitNote
from agentdescent.merge.aggregator import Aggregator
from agentdescent.merge.buffer import Batch, EvidenceBuffer

__all__ = [
    "Aggregator",
    "AggregatorConfig",
    "AggregatorFactory",
    "AggregatorProtocol",
    "ArtifactLedger",
    "Audit",
    "Batch",
    "CommitNote",
    "EvidenceBuffer",
    "EvidenceCard",
    "LedgerSnapshot",
    "MergeOutcome",
    "MergeReport",
    "Refusal",
    "Verdict",
    "VerifierProtocol",
]
