import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.errors import ContractError
from agentdescent.ledger import codec

text = st.text(st.characters(codec="utf-8"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
any_key = st.text(max_size=8) | st.sampled_from(["a", "a/b", "x" * 300, "", "/"])
states = st.dictionaries(any_key, text | json_values, max_size=8)


@settings(deadline=None)
@given(states)
def test_a_state_comes_back_from_its_files_with_sorted_keys(state):
    decoded = codec.decode(codec.encode("skill", state))

    assert decoded == state
    assert list(decoded) == sorted(state)


@settings(deadline=None)
@given(states, st.randoms())
def test_equal_states_have_equal_files(state, random):
    items = list(state.items())
    random.shuffle(items)
    assert codec.encode("skill", dict(items)) == codec.encode("skill", state)


def test_text_is_stored_as_it_is_and_other_values_as_json():
    state = {
        "SKILL.md": "# Skill\r\nno newline at the end",
        "src/limits": {"b": [1, 2.5], "a": None},
    }

    assert codec.encode("skill", state) == {
        "state/SKILL.md": "# Skill\r\nno newline at the end",
        "state-json/src/limits": '{\n  "a": null,\n  "b": [\n    1,\n    2.5\n  ]\n}\n',
    }


def test_text_that_utf8_cannot_carry_is_stored_as_json():
    assert codec.encode("skill", {"k": "a\ud800"}) == {"state-json/k": '"a\\ud800"\n'}
    assert codec.decode({"state-json/k": '"a\\ud800"\n'}) == {"k": "a\ud800"}


def test_readable_unicode_stays_readable_in_json():
    assert codec.encode("skill", {"k": ["é"]}) == {"state-json/k": '[\n  "é"\n]\n'}


def test_a_long_key_is_written_beside_its_value():
    key = "x" * 300
    files = codec.encode("skill", {key: "text"})

    assert sorted(path.rpartition("/")[2] for path in files) == ["key", "value"]
    assert sorted(files.values()) == sorted([key, "text"])
    assert codec.decode(files) == {key: "text"}


LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        (1, 2),
        {1: "a"},
        [object()],
        math.nan,
        [-math.inf],
        {"a": {"b": {2, 3}}},
        LOOP,
        10 ** (sys.get_int_max_str_digits() + 1),
        "\ud83d\ude00",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_json_is_refused_by_the_name_of_its_key(value):
    with pytest.raises(ContractError, match=r"'skill'.*key 'broken'"):
        codec.encode("skill", {"fine": "text", "broken": value})


def test_a_key_that_is_not_text_is_refused():
    with pytest.raises(ContractError, match="'skill' has the key 7, which is a int"):
        codec.encode("skill", {7: "text"})


def test_an_id_that_utf8_cannot_carry_is_refused():
    with pytest.raises(ContractError, match=r"artifact id 'a\\ud800'"):
        codec.encode("a\ud800", {})


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"state/a:b": "x"}, "no key is stored at 'a:b'"),
        ({"state-json/a": "{"}, "'state-json/a' is not JSON"),
        ({f"state/%~{'0' * 64}/value": "x"}, "not the one of its hash"),
    ],
)
def test_files_of_somebody_else_are_refused(files, reason):
    with pytest.raises(ValueError, match=reason):
        codec.decode(files)
