"""Hypothesis strategies for the values that plug-ins handle. Needs `hypothesis`."""

from typing import Any

from hypothesis import strategies as st

from agentdescent.core.diff import Diff

_keys = st.text("abc", min_size=1, max_size=2)
_values = st.text(max_size=8)


def states() -> st.SearchStrategy[dict[str, str]]:
    """Flat states over few keys, so that edits to them meet."""
    return st.dictionaries(_keys, _values, max_size=6)


def diffs(target: str = "artifact") -> st.SearchStrategy[Diff]:
    """Diffs of one artifact that set and delete keys of `states`; some contradict each other."""
    ops: st.SearchStrategy[dict[str, Any]] = st.dictionaries(_keys, st.none() | _values, max_size=4)
    return st.builds(
        Diff,
        diff_id=st.text("0123456789", min_size=1, max_size=4),
        target=st.just(target),
        ops=ops,
        author=st.sampled_from(["w0", "w1", "w2"]),
    )
