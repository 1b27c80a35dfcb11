"""The parts of a reflector's prompt that are there only when there is something to show.

Each is "" or stands between line breaks. What users and models wrote stands between tags and is cut
to its share, so that a prompt is bounded whatever they wrote.
"""

from collections.abc import Iterable, Sequence

from agentdescent.agents.templates import data, expected_block
from agentdescent.core.outcomes import ProposalOutcome
from agentdescent.core.reflection import Attempt, Rejection

FEEDBACK_CHARS = 4_000
REASON_CHARS = 600
REJECTED_CHARS = 8_000
OTHERS_CHARS = 24_000
SUCCESSES_CHARS = 12_000

_FEEDBACK = "What the scorer said about it:"
_REJECTED = "These proposals were tried before and came to nothing. Propose something else:"
_OTHERS = "The same artifact failed these tasks as well. Look for what the failures have in common:"
_SUCCESSES = "It solved these tasks, and has to go on solving them:"


def feedback_block(feedback: str) -> str:
    """What the scorer said."""
    return _block(_FEEDBACK, [data("feedback", feedback, FEEDBACK_CHARS)] if feedback else [])


def rejected_block(rejected: Sequence[Rejection]) -> str:
    """Proposals that came to nothing, each with what was measured."""
    return _block(_REJECTED, [_rejection(one, REJECTED_CHARS // len(rejected)) for one in rejected])


def others_block(others: Sequence[Attempt], meta_chars: int | None) -> str:
    """Further failures; `meta_chars` as for a reflector, None to show no metadata."""
    return _block(
        _OTHERS, [_failure(one, OTHERS_CHARS // len(others), meta_chars) for one in others]
    )


def successes_block(successes: Sequence[Attempt]) -> str:
    """Tasks that the artifact solves."""
    return _block(_SUCCESSES, [_tried(one, SUCCESSES_CHARS // len(successes)) for one in successes])


def _block(heading: str, parts: Iterable[str]) -> str:
    listed = [*parts]
    return "\n" + "\n\n".join([heading, *listed]) + "\n" if listed else ""


def _rejection(rejection: Rejection, share: int) -> str:
    text = data("rejected", rejection.proposal, share)
    reason = "\n" + data("reason", rejection.reason, REASON_CHARS) if rejection.reason else ""
    return f"{_measured(rejection)}:\n{text}{reason}"


def _measured(rejection: Rejection) -> str:
    if rejection.delta is None:
        return f"Turned down ({rejection.outcome})"
    where = "its own task" if rejection.outcome == ProposalOutcome.NO_GAIN else "other tasks"
    return f"It changed the reward on {where} by {rejection.delta:+.3f}"


def _failure(attempt: Attempt, share: int, meta_chars: int | None) -> str:
    feedback = data("feedback", attempt.feedback, share // 5) if attempt.feedback else ""
    expected = "" if meta_chars is None else expected_block(attempt.task.meta, meta_chars)
    parts = [f"Scored {attempt.reward:.2f}:", _tried(attempt, share), feedback, expected.strip()]
    return "\n".join(part for part in parts if part)


def _tried(attempt: Attempt, share: int) -> str:
    most = share * 2 // 5
    return f"{data('input', attempt.task.prompt, most)}\n{data('output', attempt.output, most)}"
