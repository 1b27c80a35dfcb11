import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.diff import Diff, Dropped, apply_ops
from agentdescent.core.task import Task
from agentdescent.policy.strategies_few_shot import FewShot, chat_turns, worked_example

texts = st.text(min_size=1).filter(str.strip)
pairs = st.lists(st.tuples(texts, texts), max_size=5)


def proposal(question, answer):
    return json.dumps({"input": question, "output": answer})


def diff(bank, text, state=None):
    return bank.to_diff(state or {}, text, "w1", 3, "artifact")


def grown(bank, *examples):
    state = {}
    for question, answer in examples:
        edit = diff(bank, proposal(question, answer), state)
        if isinstance(edit, Diff):
            state = apply_ops(state, edit.ops)
    return state


def contents(state):
    return {tuple(json.loads(value).values()) for value in state.values()}


def test_an_empty_bank_renders_as_such():
    assert FewShot().render(FewShot().initial()) == "# Worked examples\n(empty)"
    assert FewShot(render="chat").render({}) == "[]"


def test_text_rendering_indents_what_has_several_lines():
    bank = FewShot(title="Examples")
    state = grown(bank, ("7 pens at 4", "2800"), ("a\n\nOutput: b", "c\nd"))

    first, second = (
        "Input: 7 pens at 4\nOutput: 2800",
        "Input:\n    a\n    \n    Output: b\nOutput:\n    c\n    d",
    )
    assert bank.render(state) in {
        f"Examples\n{first}\n\n{second}",
        f"Examples\n{second}\n\n{first}",
    }


def test_chat_rendering_is_a_list_of_turns():
    bank = FewShot(render="chat")
    state = grown(bank, ("caf\u00e9?", "oui\nnon"))

    assert chat_turns(bank.render(state)) == [
        {"role": "user", "content": "caf\u00e9?"},
        {"role": "assistant", "content": "oui\nnon"},
    ]
    assert "caf\u00e9" in bank.render(state)


@pytest.mark.parametrize(
    "rendered",
    [
        "# Worked examples",
        "{}",
        "[1]",
        '[{"role": "user"}]',
        '[{"role": "system", "content": "x"}]',
        '[{"role": "user", "content": 1}]',
    ],
)
def test_other_text_is_no_chat(rendered):
    with pytest.raises(ValueError, match=r'no list of chat turns.*FewShot\(render="chat"\)'):
        chat_turns(rendered)


def test_what_stands_around_the_object_does_not_matter():
    edit = diff(FewShot(), 'Here it is:\n```json\n{"input": "a\nb", "output": "c"}\n```\nDone.')

    assert contents(edit.ops) == {("a\nb", "c")}


def test_values_that_are_no_text_are_written_as_json():
    assert contents(diff(FewShot(), '{"input": "a", "output": 2800}').ops) == {("a", "2800")}
    assert contents(diff(FewShot(), '{"input": ["a"], "output": true}').ops) == {('["a"]', "true")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no JSON object"),
        ("Be brief.", "it is no JSON object"),
        ('{"input": "a"', "it is no JSON object"),
        ('{"a":' * 100_000 + "}", "it is no JSON object"),
        ('{"input": "a"}', "its 'output' is missing or empty"),
        ('{"input": " ", "output": "b"}', "its 'input' is missing or empty"),
        ('{"input": "a", "output": null}', "its 'output' is missing or empty"),
    ],
)
def test_what_is_no_example_is_dropped_with_the_reason(text, reason):
    dropped = diff(FewShot(), text)

    assert isinstance(dropped, Dropped)
    assert dropped.category == "unparsable"
    assert reason in dropped.reason


def test_an_example_again_is_no_diff():
    bank = FewShot(1)

    assert diff(bank, proposal("a", "b"), grown(bank, ("a", "b"))) is None


def test_two_answers_to_one_question_contradict_each_other():
    bank = FewShot(1)
    first, second = (diff(bank, proposal("a", answer)) for answer in "bc")

    assert first.contradicts(second)
    assert first.diff_id != second.diff_id
    assert contents(grown(bank, ("a", "b"), ("a", "c"))) == {("a", "c")}


def test_an_example_for_a_full_bank_displaces_another():
    bank = FewShot(2)
    state = grown(bank, ("a", "1"), ("b", "2"))

    edit = diff(bank, proposal("c", "3"), state)

    assert sorted(value is None for value in edit.ops.values()) == [False, True]
    assert edit.ops == diff(bank, proposal("c", "3"), dict(reversed(state.items()))).ops


def test_every_example_of_a_full_bank_can_be_displaced():
    bank = FewShot(4)
    state = grown(bank, *((letter, letter) for letter in "abcd"))

    displaced = set()
    for number in range(50):
        ops = diff(bank, proposal(str(number), "x"), state).ops
        displaced |= {key for key, value in ops.items() if value is None}

    assert displaced == state.keys()


def test_an_overfull_bank_shrinks_back_with_the_next_example():
    state = grown(FewShot(5), *((letter, letter) for letter in "abcde"))

    after = apply_ops(state, diff(FewShot(3), proposal("f", "f"), state).ops)

    assert len(after) == 3
    assert ("f", "f") in contents(after)


def test_reflectors_are_asked_for_an_example_as_json():
    bank = FewShot()

    assert '{"input": "<a complete task>"' in bank.proposal_instructions({})
    assert "do not." not in bank.proposal_instructions({})
    assert "teaches what the examples there are do not." in bank.proposal_instructions({"x": ""})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_examples": 0}, "max_examples must be at least 1, got 0"),
        ({"render": "html"}, 'render must be "text" or "chat", got \'html\''),
    ],
)
def test_senseless_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FewShot(**arguments)


def test_a_bank_shows_its_settings():
    assert repr(FewShot(3, "chat")) == "FewShot(3, 'chat', title='# Worked examples')"


def test_a_failed_task_becomes_an_example():
    task = Task("7", "What do 7 pens cost?", {"gold": 2800})
    propose = worked_example()

    assert propose("", task, "28 dollars", 0.0) == proposal("What do 7 pens cost?", "2800")
    assert propose.is_pure


def test_of_several_golds_the_first_is_shown():
    propose = worked_example("answers")

    assert propose("", Task("1", "q", {"answers": ["a", "b"]}), "", 0.0) == proposal("q", "a")


@pytest.mark.parametrize("meta", [{}, {"gold": None}, {"gold": " "}, {"gold": []}])
def test_a_task_without_a_gold_proposes_nothing(meta):
    assert worked_example()("", Task("1", "q", meta), "", 0.0) is None


def test_a_task_without_a_prompt_proposes_nothing():
    assert worked_example()("", Task("1", " ", {"gold": "a"}), "", 0.0) is None


@given(st.integers(1, 4), pairs)
def test_a_bank_never_outgrows_its_size_and_holds_the_newest(size, examples):
    state = grown(FewShot(size), *examples)

    assert len(state) <= size
    if examples:
        assert examples[-1] in contents(state)


@given(pairs, texts, texts)
def test_an_example_changes_a_bank_once(examples, question, answer):
    bank = FewShot(3)
    state = grown(bank, *examples)
    edit = diff(bank, proposal(question, answer), state)
    if edit is not None:
        assert diff(bank, proposal(question, answer), apply_ops(state, edit.ops)) is None


@given(pairs, pairs, st.sampled_from(["text", "chat"]))
def test_different_banks_render_differently(left, right, style):
    bank = FewShot(8, style)
    first, second = grown(bank, *left), grown(bank, *right)

    assert (bank.render(first) == bank.render(second)) == (first == second)


@given(pairs)
def test_chat_turns_show_the_bank(examples):
    bank = FewShot(8, "chat")
    state = grown(bank, *examples)
    said = [turn["content"] for turn in chat_turns(bank.render(state))]

    assert set(zip(said[::2], said[1::2], strict=True)) == contents(state)
