"""The algebra of diffs, artifacts and versions."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import (
    AppendRules,
    Contract,
    Diff,
    EvidenceCard,
    Evolvable,
    EvolvingArtifact,
    Task,
)
from agentdescent.core.diff import (
    apply_ops,
    diffs_conflict,
    diffs_contradict,
    fuse_diffs,
    stable_hash,
    touched_keys,
    vv_dominates,
    vv_staleness,
)
from agentdescent.testing.strategies import states

keys = st.text("abc", min_size=1, max_size=2)
ops = st.dictionaries(keys, st.none() | st.text(max_size=3))


def diff(changes, name="d"):
    return Diff(name, "t", changes)


@given(ops, ops)
def test_contradiction_is_symmetric_and_a_union_without_one_commutes(left, right):
    a, b = diff(left, "a"), diff(right, "b")

    assert diffs_contradict(a, b) == diffs_contradict(b, a)
    if diffs_contradict(a, b):
        assert diffs_conflict(a, b)
    else:
        assert fuse_diffs([a, b]).ops == fuse_diffs([b, a]).ops


@given(states(), ops)
def test_applying_twice_is_applying_once(state, changes):
    once = apply_ops(state, changes)

    assert apply_ops(once, changes) == once
    assert list(once) == sorted(once)


@given(states(), states())
def test_the_diff_of_two_artifacts_leads_from_one_to_the_other(before, after):
    a, b = EvolvingArtifact("a", before), EvolvingArtifact("a", after)

    assert dict(a.apply(a.diff(b)).state) == dict(b.state)


def test_a_diff_and_an_artifact_keep_their_values_when_the_originals_change():
    changes = {"k": "v"}
    edit, artifact = diff(changes), EvolvingArtifact("a", changes)
    changes["k"] = "w"

    assert (edit.ops["k"], artifact.state["k"], edit.size()) == ("v", "v", 1)


def test_a_fusion_names_its_members_and_lets_the_later_one_win():
    fused = fuse_diffs([diff({"k": "1", "l": "1"}, "b"), Diff("a", "t", {"k": "2"}, True)])

    assert (fused.diff_id, fused.author, fused.contract_breaking) == (
        "fused(a+b)",
        "aggregator",
        True,
    )
    assert dict(fused.ops) == {"k": "2", "l": "1"}
    assert touched_keys([fused]) == {"k", "l"}


def test_nothing_cannot_be_fused():
    with pytest.raises(ValueError, match="diffs is empty"):
        fuse_diffs([])


def test_staleness_is_the_largest_lag_and_never_negative():
    assert vv_staleness({"a": 5, "b": 2}, {"a": 3, "b": 2}) == 2
    assert vv_staleness({"a": 1}, {"a": 3}) == 0
    assert vv_staleness({"a": 1}, {}) == 0


def test_domination_compares_every_artifact_of_the_other():
    assert vv_dominates({"a": 2, "b": 1}, {"a": 2})
    assert not vv_dominates({"a": 2}, {"a": 2, "b": 1})


def test_a_stable_hash_is_the_same_in_every_process():
    script = "from agentdescent.core.diff import stable_hash; print(stable_hash(('w', 3)))"
    other = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONHASHSEED": "9"}, capture_output=True, check=True
    )

    assert int(other.stdout) == stable_hash(("w", 3))


def test_an_artifact_is_evolvable_and_renders_by_its_strategy():
    artifact = EvolvingArtifact("skill", {"r1": "Be brief."}, strategy=AppendRules())

    assert isinstance(artifact, Evolvable)
    assert artifact.render() == "# Playbook\n- Be brief."
    assert artifact.apply(diff({"r1": None})).version == 2


def test_an_artifact_without_a_strategy_says_so():
    with pytest.raises(ValueError, match="'skill' has no strategy"):
        EvolvingArtifact("skill").render()


class Counts:
    """A runtime that returns how many tasks it was asked about."""

    def score(self, artifact, tasks):
        return len(tasks) / 10


def test_an_artifact_is_scored_on_tasks_alone_and_only_inside_a_run():
    artifact = EvolvingArtifact("a", runtime=Counts())
    card = EvidenceCard(diff({}), {"a": 1}, trajectory_refs=[Task("1", "p"), "not a task"])

    assert artifact.evidence_eval(card) == 0.1
    assert artifact.full_eval([Task("1", "p"), Task("2", "p")]) == {"reward": 0.2}
    assert artifact.score([]) == 0.0
    assert EvolvingArtifact("a").score([Task("1", "p")]) == 0.0


def test_contracts_are_compatible_by_their_major_number():
    assert Contract("a").is_compatible_with(Contract("b"))
    assert not Contract(major=1).is_compatible_with(Contract(major=2))


def test_a_card_is_no_candidate_once_it_was_tried_in_vain():
    assert EvidenceCard(diff({}), {}).is_candidate
    assert EvidenceCard(diff({}), {}, before_after_delta=0.1, verified=True).is_candidate
    assert not EvidenceCard(diff({}), {}, before_after_delta=0.0, verified=True).is_candidate


def test_a_rebased_card_takes_the_head_of_what_it_touches():
    card = EvidenceCard(diff({}), {"a": 1, "b": 1}, touched=["a", "gone"])

    assert card.rebased_onto({"a": 4, "b": 9}).base_version == {"a": 4, "b": 1}
    assert card.refused().refused().refusals == 2
