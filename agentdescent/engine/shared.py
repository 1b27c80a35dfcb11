"""What the tasks of one run have in common."""

from dataclasses import dataclass

from agentdescent.core.events import Emit
from agentdescent.core.spend import Spend
from agentdescent.engine.alerts import Alerts
from agentdescent.engine.budget import EarlyStop, Stop
from agentdescent.engine.experience import Experience
from agentdescent.engine.head import Head
from agentdescent.engine.health import Health


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that every task of a run may look at.

    Attributes:
        head: The newest version.
        spend: The budgets.
        health: Whether the backend works.
        stop: The order to end.
        early: Target and patience.
        alerts: Warnings.
        emit: Tells listeners; None when nobody listens.
        experience: What reflectors are told; None when the run's `propose` cannot be told.
        sweeps: There are no rounds: the merger sweeps up what is there.
    """

    head: Head
    spend: Spend
    health: Health
    stop: Stop
    early: EarlyStop
    alerts: Alerts
    emit: Emit | None
    experience: Experience | None
    sweeps: bool
