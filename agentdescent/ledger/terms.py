"""On which terms a run opens a ledger."""

from dataclasses import dataclass, field
from typing import Literal

from agentdescent.ledger.faults import Faults, NoFaults
from agentdescent.ledger.owners import new_run

Durability = Literal["none", "process", "power"]
"""What a commit that returned survives.

"process": the death of the process; after a power failure the newest intact commit is found.
"power": a power failure too, at the price of some syncs a commit. At both levels a ledger that was
closed is on the disk. "none": for what nobody keeps; nothing is ever synced.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a run opens a ledger.

    Attributes:
        durability: See `Durability`.
        exclusive: Refuse if another run has it open.
        faults: Told of every step.
        run: The id of the run.
    """

    durability: Durability = "process"
    exclusive: bool = False
    faults: Faults = field(default_factory=NoFaults)
    run: str = field(default_factory=new_run)

    @property
    def syncs(self) -> bool:
        """True if anything has to reach the disk."""
        return self.durability != "none"
