from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.diff import Diff, fuse_diffs
from agentdescent.merge.candidates import candidates, contains, signature
from support.merging import make_bench

keys = st.text("abc", min_size=1, max_size=2)
values = st.none() | st.text("xy", max_size=2) | st.lists(st.integers(0, 2), max_size=2)
diffs = st.dictionaries(keys, values, max_size=3).map(lambda ops: Diff("d", "skill", ops))


def test_identical_edits_are_one_candidate_with_all_authors():
    at = make_bench()
    cards = [at.card(a="1"), at.card(b="1"), at.card(a="1"), at.card(a="1", author="w0")]

    found = candidates(cards)

    assert [(dict(d.ops), d.author) for d in found] == [({"a": "1"}, "w0+w2"), ({"b": "1"}, "w1")]


def test_an_edit_breaks_the_contract_if_one_of_its_authors_says_so():
    at = make_bench()

    [found] = candidates([at.card(a="1"), at.card(a="1", breaking=True)])

    assert found.contract_breaking


def test_the_greatest_gain_on_its_own_task_comes_first_then_the_earliest():
    at = make_bench()
    cards = [
        at.card(late="1", gain=0.5),
        at.card(most="1", gain=0.5),
        at.card(early="1", gain=0.5),
        at.card(most="1", gain=1.0),
    ]
    cards[0] = replace(cards[0], order=(9, 1))

    assert [list(d.ops) for d in candidates(cards)] == [["most"], ["early"], ["late"]]


def test_without_cards_there_is_no_candidate():
    assert candidates([]) == []


@given(diffs, diffs)
def test_edits_have_one_signature_exactly_when_they_are_equal(left, right):
    assert (signature(left) == signature(right)) == (left.ops == right.ops)


@given(diffs, diffs)
def test_a_union_contains_its_members_and_contradicts_none(left, right):
    if not left.contradicts(right):
        union = fuse_diffs([left, right])
        assert contains(union, left)
        assert contains(union, right)
        assert not union.contradicts(left)


@given(st.lists(diffs, min_size=1, max_size=4))
def test_union_commutes_when_nothing_contradicts(members):
    if not any(a.contradicts(b) for a in members for b in members):
        assert fuse_diffs(members).ops == fuse_diffs(members[::-1]).ops


@given(diffs, diffs)
def test_what_contains_each_other_is_equal(left, right):
    assert (contains(left, right) and contains(right, left)) == (left.ops == right.ops)
