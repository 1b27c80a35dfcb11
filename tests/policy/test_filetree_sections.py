import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.filetree_sections import (
    joined,
    merge_sections,
    section_text,
    sections,
    with_section,
)

BASE = "intro\n\n# One\n\none\n\n## Two\n\ntwo\n"

lines = st.sampled_from(
    ["# A", "## B ##", "text", "", "```", "# ", "---", "    # code", "####### no"]
)
texts = st.lists(lines, max_size=8).map("\n".join)


def headings(text):
    return [part.heading for part in sections(text)]


@given(texts | st.text())
def test_the_sections_of_a_text_are_the_text(text):
    assert joined(sections(text)) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (BASE, ["", "One", "Two"]),
        ("# A #\n##B\n#\n### C # #", ["", "A", "", "C #"]),
        ("```\n# no\n```\n# Yes", ["", "Yes"]),
        ("~~~~\n# no\n~~~\n# no\n~~~~~\n# Yes", ["", "Yes"]),
        ("---\n# no\n---\n# Yes", ["", "Yes"]),
        ("    # code\n   # Yes\n#tag\n####### seven", ["", "Yes"]),
        ("", [""]),
    ],
)
def test_headings_are_those_that_markdown_shows(text, found):
    assert headings(text) == found


@pytest.mark.parametrize(
    ("heading", "content", "text"),
    [
        ("Two", "2", "intro\n\n# One\n\none\n\n## Two\n\n2\n"),
        (" two ", "\n2\n\n", "intro\n\n# One\n\none\n\n## Two\n\n2\n"),
        ("## Two", "### TWO\n2", "intro\n\n# One\n\none\n\n### TWO\n2\n"),
        ("One", "1\n\n## Extra\n\nx", "intro\n\n# One\n\n1\n\n## Extra\n\nx\n\n## Two\n\ntwo\n"),
        ("One", "", "intro\n\n# One\n\n## Two\n\ntwo\n"),
        ("One", None, "intro\n\n## Two\n\ntwo\n"),
        ("Two", None, "intro\n\n# One\n\none\n"),
        ("Three", "3", f"{BASE}\n## Three\n\n3\n"),
    ],
)
def test_one_section_is_replaced_and_the_rest_stays(heading, content, text):
    assert with_section(BASE, heading, content) == text


def test_a_section_makes_a_text():
    assert with_section("", "New", "body") == "## New\n\nbody\n"


@pytest.mark.parametrize(
    ("text", "heading", "content", "reason"),
    [
        (BASE, "Three", None, "there is no section 'Three'"),
        ("# A\n# a\n", "A", "x", "2 sections have the heading 'A'"),
    ],
)
def test_a_section_that_is_not_there_once_is_refused(text, heading, content, reason):
    with pytest.raises(LookupError, match=reason):
        with_section(text, heading, content)


def test_a_section_is_found_by_its_heading():
    assert section_text(BASE, "one") == "# One\n\none"
    assert section_text(BASE, "Three") is None


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        pytest.param(
            BASE.replace("one\n", "one\nmore\n"),
            BASE.replace("## Two", "## Two\n\nbefore"),
            "intro\n\n# One\n\none\nmore\n\n## Two\n\nbefore\n\ntwo\n",
            id="neighbouring sections",
        ),
        pytest.param(
            f"{BASE}\n## B\n\nb\n",
            f"{BASE}\n## A\n\na\n",
            f"{BASE}\n## A\n\na\n\n## B\n\nb\n",
            id="new sections at one place",
        ),
        pytest.param(
            f"{BASE}\n## A\n\na\n", f"{BASE}\n## A\n\nother\n", None, id="one new heading"
        ),
        pytest.param(
            f"{BASE}\n## A\n\na\n", f"{BASE}\n## A\n\na\n", f"{BASE}\n## A\n\na\n", id="the same"
        ),
        pytest.param(
            with_section(BASE, "One", None),
            with_section(BASE, "Two", "2"),
            "intro\n\n## Two\n\n2\n",
            id="deleted and changed elsewhere",
        ),
        pytest.param(
            with_section(BASE, "Two", None), with_section(BASE, "Two", "2"), None, id="clash"
        ),
        pytest.param(
            with_section(BASE, "Two", "2"), with_section(BASE, "Two", "zwei"), None, id="same line"
        ),
        pytest.param(
            "intro\n\n## Two\n\ntwo\n\n# One\n\none\n", f"{BASE}\n## A\n", None, id="moved"
        ),
        pytest.param(f"{BASE}\n## A\n\n## A\n", BASE.replace("two", "2"), None, id="doubled"),
        pytest.param(
            f"# A\n\na\n\n{BASE}", f"{BASE}\n# A\n\na\n", None, id="one heading at two places"
        ),
    ],
)
def test_changes_of_different_sections_are_joined(ours, theirs, merged):
    assert merge_sections(BASE, ours, theirs) == merged
    assert merge_sections(BASE, theirs, ours) == merged


def test_any_number_of_sides_is_joined():
    sides = [with_section(BASE, heading, "x") for heading in ("One", "Two", "Six", "Five")]

    assert merge_sections(BASE, *sides) == (
        "intro\n\n# One\n\nx\n\n## Two\n\nx\n\n## Five\n\nx\n\n## Six\n\nx\n"
    )


@given(texts, texts, texts)
def test_it_does_not_matter_who_is_ours(base, ours, theirs):
    assert merge_sections(base, ours, theirs) == merge_sections(base, theirs, ours)
