from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.line_merge import Hunk, hunks, lay_over, lines_of, merge_lines

BASE = "one\ntwo\nthree\nfour\nfive\n"

texts = st.lists(st.sampled_from("abcd"), max_size=8).map("\n".join)


def edited(**changes):
    return "".join(changes.get(line.strip(), line) for line in BASE.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        pytest.param(
            edited(one="1\n"), edited(five="5\n"), edited(one="1\n", five="5\n"), id="far"
        ),
        pytest.param(
            edited(two="2\n"), edited(three="3\n"), edited(two="2\n", three="3\n"), id="neighbours"
        ),
        pytest.param(edited(two="2\n"), edited(two="zwei\n"), None, id="same line"),
        pytest.param(edited(two="2\n"), edited(two="2\n"), edited(two="2\n"), id="same change"),
        pytest.param(
            edited(one="1\n", two="2\n"), edited(two="2\n"), edited(one="1\n", two="2\n"), id="part"
        ),
        pytest.param(edited(two=""), edited(four=""), edited(two="", four=""), id="deletions"),
        pytest.param(edited(two=""), edited(two="2\n"), None, id="deleted and changed"),
        pytest.param(f"{BASE}six\n", f"{BASE}seis\n", None, id="both append"),
        pytest.param(f"{BASE}six\n", f"zero\n{BASE}", f"zero\n{BASE}six\n", id="both ends"),
        pytest.param(f"{BASE}six\n", edited(five="5\n"), None, id="an insertion that touches"),
        pytest.param("", edited(two="2\n"), None, id="all deleted"),
    ],
)
def test_changes_of_different_lines_are_joined(ours, theirs, merged):
    assert merge_lines(BASE, ours, theirs) == merged
    assert merge_lines(BASE, theirs, ours) == merged


def test_line_ends_of_other_systems_stay():
    base = "a\r\nb\r\nc"

    assert merge_lines(base, "A\r\nb\r\nc", "a\r\nb\r\nC") == "A\r\nb\r\nC"


@given(texts, texts)
def test_a_side_without_changes_gives_way(base, side):
    assert merge_lines(base, base, side) == side
    assert merge_lines(base, side, base) == side
    assert merge_lines(base, side, side) == side


@given(texts, texts, texts)
def test_it_does_not_matter_who_is_ours(base, ours, theirs):
    assert merge_lines(base, ours, theirs) == merge_lines(base, theirs, ours)


@given(texts, st.lists(texts, min_size=3, max_size=4), st.randoms())
def test_many_are_joined_if_every_two_are_in_any_order(base, sides, random):
    every_two = all(merge_lines(base, a, b) is not None for a, b in combinations(sides, 2))

    merged = merge_lines(base, *sides)
    random.shuffle(sides)

    assert (merged is not None) == every_two
    assert merge_lines(base, *sides) == merged


@pytest.mark.parametrize(
    ("under", "over", "both"),
    [
        (edited(one="1\n", five="5\n"), edited(five="V\n"), edited(one="1\n", five="V\n")),
        (edited(one="1\n"), edited(five=""), edited(one="1\n", five="")),
        (f"{BASE}six\n", f"{BASE}seis\n", f"{BASE}seis\n"),
        (f"zero\n{BASE}six\n", f"{BASE}seis\n", f"zero\n{BASE}seis\n"),
        (edited(two="2\n"), edited(two="2\n"), edited(two="2\n")),
    ],
    ids=["replaced", "deleted", "inserted", "elsewhere", "the same"],
)
def test_what_overlaps_is_as_in_the_upper_one(under, over, both):
    assert lay_over(BASE, under, over) == both


@given(texts, texts, texts)
def test_what_can_be_joined_is_laid_over_the_same_way(base, under, over):
    laid, merged = lay_over(base, under, over), merge_lines(base, under, over)

    assert merged in (None, laid)
    assert lay_over(base, base, over) == over == lay_over(base, over, over)
    assert lay_over(base, under, base) == under


@given(texts, texts)
def test_hunks_turn_one_text_into_the_other(base, text):
    lines = lines_of(base)
    for hunk in reversed(hunks(lines, lines_of(text))):
        lines[hunk.start : hunk.end] = hunk.lines

    assert "".join(lines) == text


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_changes_by_line_never_meet_unless_they_share_one(mine, data):
    yours = [not own and data.draw(st.booleans()) for own in mine]
    base = "".join(f"line {i}\n" for i in range(len(mine)))

    def side(changed, mark):
        return "".join(
            f"{mark if is_changed else 'line'} {i}\n" for i, is_changed in enumerate(changed)
        )

    both = "".join(
        f"{'mine' if own else 'yours' if other else 'line'} {i}\n"
        for i, (own, other) in enumerate(zip(mine, yours, strict=True))
    )
    assert merge_lines(base, side(mine, "mine"), side(yours, "yours")) == both


def test_texts_of_countless_equal_lines_are_compared_by_their_ends():
    base = ["x\n"] * 1000

    assert hunks(["a\n", *base, "b\n"], ["a\n", "y\n", *base, "c\n"]) == [
        Hunk(1, 1002, ("y\n", *base, "c\n"))
    ]
