"""Second looks: what the gate has turned down by bad luck may come again."""

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Any

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.diff import Diff
from agentdescent.core.merging import Verdict
from agentdescent.merge.acceptance import gate
from agentdescent.merge.candidates import signature
from agentdescent.merge.record import Merge
from agentdescent.merge.together import together

MOST_KNOWN = 256
"""So many of the newest refusals are remembered of each artifact."""


class TurnedDown:
    """The edits that the gate has turned down lately, on the present version of each artifact."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, None]]] = {}

    def note(self, merge: Merge, diff: Diff) -> None:
        """Remember that the gate has turned down `diff`."""
        names = self._names(merge)
        names[_digest(diff)] = None
        if len(names) > MOST_KNOWN:
            del names[next(iter(names))]
        self._known[merge.artifact.id] = merge.artifact.version, names

    def has(self, merge: Merge, diff: Diff) -> bool:
        """True if an earlier merge has turned down `diff` on the same version."""
        return _digest(diff) in self._names(merge)

    def dump(self) -> dict[str, Any]:
        """The version and the edits of each artifact, as JSON values."""
        return {name: [version, list(names)] for name, (version, names) in self._known.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `dump` gave."""
        self._known = {
            name: (version, dict.fromkeys(names)) for name, (version, names) in saved.items()
        }

    def _names(self, merge: Merge) -> dict[str, None]:
        version, names = self._known.get(merge.artifact.id, (0, {}))
        return names if version == merge.artifact.version else {}


def _digest(diff: Diff) -> str:
    return blake2b(signature(diff).encode(), digest_size=16).hexdigest()


async def look_again(merge: Merge, candidate: EvolvingArtifact, verdict: Verdict) -> Verdict:
    """The verdict on a candidate that an earlier merge has turned down.

    Wherever it was seen to differ from the head, both are measured a second time, once and for all,
    and the means are judged. A candidate that differs in nothing but chance passes the second look
    more seldom than the first, since the means still hold what it was turned down for.
    """
    if not verdict.won or merge.policies.acceptance is not None:
        return verdict
    second = partial(merge.verifier.second, tasks=(*verdict.won, *verdict.lost))
    await together(second, [merge.artifact, candidate])
    merge.forget(candidate)
    return await gate(merge, candidate)
