import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.agents.templates import Template, expected_block

FIELDS = frozenset({"artifact", "reward"})


def fill(text, **values):
    return Template(text, FIELDS).fill(**values)


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("Use {artifact}.", "Use A{b}."),
        ("{artifact} scored {reward:.2f}", "A{b} scored 0.50"),
        ("{artifact!r:>8}", "  'A{b}'"),
        ('Reply {{"rule": "{artifact}"}}', 'Reply {"rule": "A{b}"}'),
        ("no field at all", "no field at all"),
    ],
)
def test_a_format_string_is_filled_by_the_rules_of_format(text, prompt):
    assert fill(text, artifact="A{b}", reward=0.5) == prompt


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ('{"rule": "{artifact}"}', '{"rule": "A{b}"}'),
        ('{"a": {"b": {}}} {reward:.1f}', '{"a": {"b": {}}} 0.5'),
        ("{artifact} {unknown} {0} {artifact.tag}", "A{b} {unknown} {0} {artifact.tag}"),
        ("a lone } and {artifact}", "a lone } and A{b}"),
        ("{artifact:{reward}} {artifact}", "{artifact:0.5} A{b}"),
        ("{reward: high, or low} {artifact}", "{reward: high, or low} A{b}"),
    ],
)
def test_other_braces_stay_as_they_are(text, prompt):
    assert fill(text, artifact="A{b}", reward=0.5) == prompt


@pytest.mark.parametrize("text", ["{reward:high}", '{"r": {reward:high}}', "{artifact:.2f}"])
def test_a_field_that_cannot_be_formatted_is_refused_at_once(text):
    with pytest.raises(ValueError, match="cannot be filled in"):
        Template(text, FIELDS)


@given(st.text())
def test_any_template_without_a_field_is_its_own_prompt_or_unescaped(text):
    text = text.replace("{artifact", "").replace("{reward", "")

    assert fill(text, artifact="A", reward=0.5) in (
        text,
        text.replace("{{", "{").replace("}}", "}"),
    )


def test_a_value_as_data_stands_between_tags():
    assert fill("Look:\n{artifact:data}\nSo?", artifact="be brief") == (
        "Look:\n<artifact>\nbe brief\n</artifact>\nSo?"
    )


@given(st.text("</>_artifc", max_size=40))
def test_a_value_cannot_close_its_own_tags(value):
    opening, *lines, closing = fill("{artifact:data}", artifact=value).split("\n")

    assert closing == opening.replace("<", "</", 1)
    assert closing not in value
    assert "\n".join(lines) == value


def test_metadata_is_listed_with_its_keys():
    block = expected_block({"gold": "2800", "unit": "cents"}, 600)

    assert "expected" in block
    assert "<metadata>\ngold='2800', unit='cents'\n</metadata>" in block


def test_metadata_is_cut_after_its_limit():
    assert "<metadata>\ngold='0 ...\n</metadata>" in expected_block({"gold": "0123456789"}, 7)


def test_metadata_of_exactly_the_limit_is_not_cut():
    assert "\ngold='0'\n" in expected_block({"gold": "0"}, 8)


def test_without_metadata_there_is_no_block():
    assert expected_block({}, 600) == ""
