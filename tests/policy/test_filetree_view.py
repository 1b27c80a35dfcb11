import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.filetree_view import Shown, chosen, listing, ranked


def test_files_that_are_named_come_first():
    paths = ["a.md", "README.md", "docs/SKILL.md", "refs/rules.md", "x/tax.py", "z.md"]

    order = ranked(paths, ["I read refs/rules.md.", "then `tax.py`, but no az.md or z.md5"])

    assert order == ["refs/rules.md", "x/tax.py", "README.md", "docs/SKILL.md", "a.md", "z.md"]


@pytest.mark.parametrize(
    ("budget", "shown"),
    [
        (5000, [("a", 1000), ("b", 2000), ("c", 600)]),
        (2000, [("a", 1000), ("b", 1000)]),
        (1650, [("a", 1000), ("b", 650)]),
        (1400, [("a", 1000)]),
        (900, [("a", 900)]),
        (600, [("a", 600)]),
        (499, []),
    ],
)
def test_files_are_shown_whole_while_there_is_room(budget, shown):
    files = {"a": "x" * 1000, "b": "x" * 2000, "c": "x" * 600}

    assert chosen(files, ["a", "b", "c"], budget) == [Shown(*one) for one in shown]


@given(st.dictionaries(st.text(), st.text(max_size=2000), max_size=5), st.integers(0, 4000))
def test_the_budget_is_kept(files, budget):
    assert sum(one.room for one in chosen(files, sorted(files), budget)) <= budget


def test_every_file_is_listed_and_frozen_ones_are_marked():
    files = {"b.md": "x" * 1234, "a.md": ""}

    assert listing(files, lambda path: path == "b.md") == (
        "a.md  (0 chars; frozen)\nb.md  (1,234 chars)"
    )
    assert listing(files, lambda path: True, 1) == "a.md  (0 chars)\n... and 1 more file(s)"
    assert listing({}, lambda path: True) == "(there are no files yet)"
