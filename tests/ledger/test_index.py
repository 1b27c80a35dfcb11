import json

import pytest

from agentdescent.core.artifact import Contract
from agentdescent.errors import CASConflict, ContractRejected, LedgerRefused
from agentdescent.ledger import index
from agentdescent.ledger.index import Entry
from support.ledgers import stored

CONTRACT = Contract("task", "text", ("network",), major=2)


def test_an_index_comes_back_from_its_text():
    listed = {"skill": Entry(8, 0.2, CONTRACT), "b/é": Entry(1, 0.5, Contract())}
    assert index.load(index.dump(listed)) == listed


def test_the_text_is_plain_json():
    assert json.loads(index.dump({"skill": Entry(8, 0.2, CONTRACT)})) == {
        "format": 1,
        "artifacts": {
            "skill": {
                "version": 8,
                "blast_radius": 0.2,
                "contract": {
                    "input_schema": "task",
                    "output_schema": "text",
                    "side_effects": ["network"],
                    "major": 2,
                },
            }
        },
    }


def test_a_newer_format_is_refused_with_both_numbers():
    with pytest.raises(
        LedgerRefused, match=r"in git repository /x: it has ledger format 2 .* up to 1"
    ):
        index.load('{"format": 2, "artifacts": {}}', "/x")


def test_a_commit_on_the_version_that_is_there_passes():
    index.check_base({"skill": Entry(3, 0.2, CONTRACT)}, stored(contract=CONTRACT), 3)


@pytest.mark.parametrize("base", [2, 4])
def test_another_base_conflicts_and_both_versions_are_named(base):
    with pytest.raises(CASConflict, match=f"'skill' is at version 3, .* builds on version {base}"):
        index.check_base({"skill": Entry(3, 0.2, CONTRACT)}, stored(contract=CONTRACT), base)


def test_a_commit_of_an_unknown_artifact_conflicts():
    with pytest.raises(CASConflict, match="'skill' is not registered"):
        index.check_base({}, stored(), 0)


def test_another_contract_is_rejected_with_both_majors():
    with pytest.raises(ContractRejected, match="contract major 2, but the commit has major 1"):
        index.check_base({"skill": Entry(3, 0.2, CONTRACT)}, stored(), 3)


def test_a_compatible_contract_passes():
    index.check_base({"skill": Entry(3, 0.2, CONTRACT)}, stored(contract=Contract(major=2)), 3)
