"""The reference and the tables of the concepts name everything there is, and nothing else."""

import dataclasses
import re
from pathlib import Path

import agentdescent
from agentdescent import EvolutionResult, MergeOutcome, ProposalOutcome

DOCS = Path(__file__).parents[2] / "docs"
ENTRY = re.compile(r"^(?:::: agentdescent\.(\w+)$|#+ .*\{ #agentdescent\.(\w+) \}$)", re.MULTILINE)


def rows(header):
    """The rows of the table of the concepts that begins with `header`, cell by cell."""
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    table = text.partition(f"{header}\n")[2].partition("\n\n")[0]
    return [row.strip("| ").split(" | ") for row in table.splitlines()[1:]]


def names_in(cells):
    return [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]


def test_every_public_name_has_one_entry_in_the_reference():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    entries = ["".join(found) for found in ENTRY.findall(pages)]

    assert sorted(entries) == sorted(agentdescent.__all__)


def test_every_outcome_of_a_run_is_explained_and_says_where_to_look():
    table = rows("| outcome | meaning | look at |")

    outcomes = {*MergeOutcome, *ProposalOutcome}
    assert sorted(names_in(row[0] for row in table)) == sorted(outcomes)
    assert all(len(row) == 3 and all(row) for row in table)


def test_every_field_of_a_result_is_explained():
    table = rows("| field of the result | |")

    fields = [field.name for field in dataclasses.fields(EvolutionResult)]
    assert sorted(names_in(row[0] for row in table)) == sorted(fields)
