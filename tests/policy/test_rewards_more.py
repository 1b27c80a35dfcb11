"""Scorers of JSON, patterns and distances, and where the expected answer may stand."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.contracts import check_reward
from agentdescent.core.task import Task
from agentdescent.errors import RewardContractError
from agentdescent.policy.rewards_json import objects_in
from agentdescent.rewards import (
    edit_similarity,
    exact_match,
    explained,
    json_field,
    json_fields,
    last_number,
    matches,
    number_closeness,
    preflight,
)

FENCED = 'Here it is:\n```json\n{"a": {"b": 5}}\n```\nDone.'


def task(gold, **meta):
    return Task("t1", "question", {"gold": gold, **meta})


@pytest.mark.parametrize(
    ("field", "gold", "output", "reward"),
    [
        ("a", "Paris", '{"a": "paris."}', 1.0),
        ("a", "Rome", '{"a": "paris."}', 0.0),
        ("a.b", 5, FENCED, 1.0),
        ("a.b", "5", FENCED, 1.0),
        ("a.b", 5.0, FENCED, 1.0),
        ("a.c", 5, FENCED, 0.0),
        ("a.b.c", 5, FENCED, 0.0),
        ("a.b", [4, 5], FENCED, 1.0),
        ("a.1", 2, '{"a": [1, 2]}', 1.0),
        ("a.2", 2, '{"a": [1, 2]}', 0.0),
        ("a", [[1, 2]], '{"a": [1, 2]}', 1.0),
        ("a", [[1, 2]], '{"a": [1, 2, 3]}', 0.0),
        ("a", {"x": [1, None]}, '{"a": {"x": [1, null]}}', 1.0),
        ("a", {"x": 1}, '{"a": {"x": 1, "y": 2}}', 0.0),
        ("a", {"x": 1}, '{"a": 1}', 0.0),
        ("a", True, '{"a": true}', 1.0),
        ("a", True, '{"a": 1}', 0.0),
        ("a", False, '{"a": false}', 1.0),
        ("a", 0, '{"a": 0}', 1.0),
        ("a", "x", '{"a": ""}', 0.0),
        ("a", 1, '{"a": 1} or rather {"a": 2}', 0.0),
        ("a", 2, '{"a": 1} or rather {"a": 2}', 1.0),
        ("a", 2, '{"a": 2} {not json}', 1.0),
        ("a", 1, '{"a": NaN}', 0.0),
        ("a", 1, '{"a": "' + "9" * 400 + '"}', 0.0),
        ("a", 10**400, '{"a": 1}', 0.0),
        ("a", 1, {"a": 1}, 1.0),
        ("a", 1, None, 0.0),
        ("a", 1, "no object", 0.0),
        ("a", 1, 7, 0.0),
    ],
)
def test_json_field(field, gold, output, reward):
    assert json_field(field)(task(gold), output) == reward


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ({"a": 1, "b.c": "x"}, '{"a": 1, "b": {"c": "X"}, "more": 0}', 1.0),
        ({"a": 1, "b.c": "x"}, '{"a": 1, "b": "x"}', 0.5),
        ('{"a": 1, "b": 2}', '{"b": 2}', 0.5),
        ([{"a": 1}, {"a": 2}], '{"a": 2}', 1.0),
        ({"a": 1}, "[]", 0.0),
        ({"a": 1}, None, 0.0),
    ],
)
def test_json_fields(gold, output, reward):
    assert json_fields()(task(gold), output) == reward


@pytest.mark.parametrize(
    ("scorer", "gold", "problem"),
    [
        (json_fields(), {}, "is '{}', which maps no fields"),
        (json_fields(), "a=1", "is 'a=1', which maps no fields"),
        (json_field("a"), "", "is empty"),
        (matches(), "(", "is '\\(', which is no regular expression"),
        (number_closeness(), "many", "which holds no number"),
    ],
)
def test_golds_that_cannot_be_judged_are_found_before_a_run(scorer, gold, problem):
    with pytest.raises(RewardContractError, match=problem):
        preflight(scorer, [task(gold)])


@pytest.mark.parametrize("text", ['{"a":' * 5000, "{" * 5000, '{"a": "' + "{" * 5000])
def test_broken_json_is_no_json(text):
    assert list(objects_in(text)) == []


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3))
def test_json_stands_anywhere_in_a_text(value):
    assert list(objects_in(f"so }} {json.dumps(value)} it is")) == [value]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("loop", ["{", '{"a":', "\\boxed{"])
def test_a_model_that_repeats_a_brace_for_ever_is_read_in_no_time(loop):
    assert list(objects_in('{"a": 1}' + 100_000 * loop)) == [{"a": 1}]


@pytest.mark.parametrize(
    ("scorer", "gold", "output", "reward"),
    [
        (matches(r"\d{4}-\d\d"), None, "in 2024-05.", 1.0),
        (matches(r"\d{4}-\d\d"), None, "in May", 0.0),
        (matches(r"\d{4}-\d\d", whole=True), None, "in 2024-05.", 0.0),
        (matches(r"(?i)YES", whole=True), None, "yes", 1.0),
        (matches(), r"^a+$", "aaa", 1.0),
        (matches(), ["x", "a+"], "aaa", 1.0),
        (matches(), "x", "aaa", 0.0),
        (matches("^$"), None, "", 0.0),
    ],
)
def test_matches(scorer, gold, output, reward):
    assert scorer(task(gold), output) == reward


def test_a_pattern_for_all_tasks_needs_no_gold():
    preflight(matches("x"), [Task("t1", "question")])


def test_a_broken_pattern_is_refused():
    with pytest.raises(ValueError, match=r"pattern='\(' is no regular expression; re.escape"):
        matches("(")


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("Paris", "paris!", 1.0),
        ("kitten", "sitting", 1 - 3 / 7),
        ("abcd", "abcx", 0.75),
        ("abcd", "wxyz", 0.0),
        ("abcd", "", 0.0),
        (["wxyz", "abcd"], "abcx", 0.75),
    ],
)
def test_edit_similarity(gold, output, reward):
    assert edit_similarity()(task(gold), output) == pytest.approx(reward)


def test_edit_similarity_as_it_is():
    assert edit_similarity(normalise=False)(task("ab"), "Ab") == 0.5


def levenshtein(left, right):
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (one != other))
    return row[-1]


@given(st.text("abc", min_size=1, max_size=12), st.text("abc", min_size=1, max_size=12))
def test_edit_similarity_is_what_the_textbook_says(gold, output):
    distance = levenshtein(gold, output)

    similarity = edit_similarity(normalise=False)(task(gold), output)

    assert similarity == pytest.approx(1 - distance / max(len(gold), len(output)))


def test_long_texts_are_compared_in_no_time():
    assert edit_similarity()(task("ab" * 20_000), "ba" * 20_000) > 0.99


@pytest.mark.parametrize(
    ("gold", "output", "zero_at", "reward"),
    [
        (100, "100", 1.0, 1.0),
        (100, "about 75", 1.0, 0.75),
        (100, "75", 0.5, 0.5),
        (100, "250", 1.0, 0.0),
        (-4, "-5", 1.0, 0.75),
        ("50%", "0.4", 1.0, 0.8),
        (0, "0", 1.0, 1.0),
        (0, "0.001", 1.0, 0.0),
        (100, "none", 1.0, 0.0),
    ],
)
def test_number_closeness(gold, output, zero_at, reward):
    assert number_closeness(zero_at=zero_at)(task(gold), output) == pytest.approx(reward)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_senseless_distance_is_refused(value):
    with pytest.raises(ValueError, match="zero_at must be above 0"):
        number_closeness(zero_at=value)


def test_a_gold_may_stand_deeper_in_the_metadata():
    nested = Task("t1", "question", {"answer": {"text": "Paris", "all": ["x", {"n": 5}]}})

    assert exact_match("answer.text")(nested, "Paris") == 1.0
    assert last_number("answer.all.1.n")(nested, "5") == 1.0


def test_a_key_with_a_dot_in_it_comes_before_a_path():
    assert exact_match("a.b")(Task("t", "", {"a.b": "x", "a": {"b": "y"}}), "x") == 1.0


@pytest.mark.parametrize("meta", [{}, {"a": {}}, {"a": "b"}, {"a": {"b": None}}])
def test_a_path_that_leads_nowhere_is_a_contract_error(meta):
    with pytest.raises(RewardContractError, match=r"meta\['a.b'\] is missing or None"):
        exact_match("a.b").check(Task("t1", "question", meta))


@pytest.mark.parametrize(
    ("scorer", "gold", "output", "said"),
    [
        (json_field("a"), 1, "{}", "no value at the field was found in the output; expected was 1"),
        (json_field("a"), "x", '{"a": 2}', "the value at the field of the output is 2; expected"),
        (json_fields(), {"a": 1}, "-", "no JSON object was found in the output; expected"),
        (json_fields(), {"a": 1}, '{"b": 1}', 'the JSON object of the output is {"b": 1}; '),
        (number_closeness(), 10, "1,234", "the number of the output is 1234; expected was 10"),
        (matches("x"), None, "y", "the text of the output is 'y'; expected was 'x'"),
    ],
)
def test_explanations(scorer, gold, output, said):
    assert explained(scorer)(task(gold), output).feedback.startswith(said)


SCORERS = [
    json_field("a"),
    json_fields(),
    matches(),
    matches("x", whole=True),
    edit_similarity(),
    number_closeness(),
]


@pytest.mark.parametrize("scorer", SCORERS, ids=repr)
def test_scorers_are_pure_values(scorer):
    assert scorer.is_pure
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert len({one.identity for one in SCORERS}) == len(SCORERS)


@given(
    st.sampled_from(SCORERS),
    st.text() | st.integers() | st.dictionaries(st.text(), st.integers(), max_size=2),
    st.text() | st.none() | st.integers(),
)
def test_every_reward_is_a_number_from_0_to_1(scorer, gold, output):
    try:
        reward = scorer(task(gold), output)
    except RewardContractError:
        return
    assert check_reward(task(gold), reward) == reward
