import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.rewards_text import holds, normalised, without_emphasis, words


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**Answer:** *5*", "Answer: 5"),
        ("`x` and __y__ and ***z***", "x and y and z"),
        ("2*3 and 2 * 3 and 2**3", "2*3 and 2 * 3 and 2**3"),
        ("snake_case a__b", "snake_case a__b"),
        ("***", "***"),
    ],
)
def test_emphasis_is_taken_off_at_the_edges_of_words(text, plain):
    assert without_emphasis(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('  "Paris."  ', "paris"),
        ("({[<x>]})", "x"),
        ("(a) (b)", "(a) (b)"),
        ("a\n\tB", "a b"),
        ("Stra\u00dfe", "strasse"),
        ("\uff11\u00bd", "11\u20442"),
        ("'...'", ""),
        ("(", "("),
    ],
)
def test_normalisation(text, plain):
    assert normalised(text) == plain


def test_articles_are_words_when_there_are_no_others():
    assert words("The cat, a cat!") == ["cat", "cat"]
    assert words("The") == ["the"]
    assert words("\u7b54\u6848 ok") == ["\u7b54", "\u6848", "ok"]


@given(st.text("ab 1.,", max_size=5), st.text("ab1", min_size=1, max_size=3), st.text("ab 1.,"))
def test_whole_words_are_found_among_all_occurrences(before, part, after):
    text = f"{before}{part}{after}"

    assert holds(text, part, whole_words=False)
    assert holds(f"{before} {part} {after}", part, whole_words=True)
    assert not holds(f"x{part}x", part, whole_words=True)
