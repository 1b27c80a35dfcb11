import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import GovernanceError
from agentdescent.policy.governance import (
    FAST_MAX,
    FROZEN_IDS,
    AuditScheduler,
    Layer,
    assert_mutable,
    classify_layer,
    tolerance,
)

ALPHAS = {"alpha_head": 5, "alpha_tail": 1}


@pytest.mark.parametrize(
    ("radius", "layer"),
    [
        (0.0, Layer.L2_FAST),
        (FAST_MAX, Layer.L2_FAST),
        (0.31, Layer.L1_SLOW),
        (0.99, Layer.L1_SLOW),
        (1.0, Layer.L1_SLOW),
    ],
)
def test_the_blast_radius_decides_the_layer(radius, layer):
    assert classify_layer("artifact", radius) is layer


def test_reserved_ids_are_frozen_at_any_radius():
    assert {"oracle", "audit_budget", "merge_permissions", "safety_constraints"} == FROZEN_IDS
    assert {classify_layer(name, 0.0) for name in FROZEN_IDS} == {Layer.L0_FROZEN}
    assert [layer.value for layer in Layer] == [0, 1, 2]


@pytest.mark.parametrize("name", sorted(FROZEN_IDS))
def test_a_frozen_artifact_is_refused_by_its_name(name):
    with pytest.raises(
        GovernanceError,
        match=f"artifact_id='{name}' is a reserved name.*rename the artifact.*'my_{name}'",
    ):
        assert_mutable(name)


def test_other_names_may_evolve():
    assert assert_mutable("artifact") is None


@pytest.mark.parametrize(
    ("radius", "breaking", "commits"),
    [(0.2, False, 1), (0.30, False, 1), (0.6, False, 5), (0.2, True, 0), (0.6, True, 0)],
)
def test_tolerance_is_wider_for_slow_artifacts_and_none_for_broken_contracts(
    radius, breaking, commits
):
    assert tolerance(radius, contract_breaking=breaking, **ALPHAS) == commits


def test_a_large_radius_is_always_audited_and_counted():
    audit = AuditScheduler()

    assert audit.force_oracle(0.31, "a") is True
    assert audit.force_oracle(0.30, "a") is False
    assert audit.audits == 1


def test_one_disagreement_opens_the_audit_and_one_agreement_closes_it():
    audit = AuditScheduler()

    audit.update_trust("a", False)
    assert (audit.trust("a"), audit.force_oracle(0.2, "a")) == (0.5, True)

    audit.update_trust("a", True)
    assert (audit.trust("a"), audit.force_oracle(0.2, "a")) == (0.75, False)


def test_trust_belongs_to_one_artifact():
    audit = AuditScheduler()
    audit.update_trust("a", False)

    assert (audit.trust("b"), audit.force_oracle(0.2, "b")) == (1.0, False)


@given(st.lists(st.booleans(), max_size=40))
def test_trust_stays_between_a_quarter_and_four(verdicts):
    audit = AuditScheduler()
    for agreed in verdicts:
        audit.update_trust("a", agreed)

    assert 0.25 <= audit.trust("a") <= 4.0


def test_trust_has_a_floor_and_a_ceiling():
    audit = AuditScheduler()
    for _ in range(20):
        audit.update_trust("good", True)
        audit.update_trust("bad", False)

    assert (audit.trust("good"), audit.trust("bad")) == (4.0, 0.25)
