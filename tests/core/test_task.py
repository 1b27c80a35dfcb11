"""Tasks and how they are made and split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Task, tasks_from
from agentdescent.core.task import refuse_duplicate_ids, split_held_out


def test_tasks_are_equal_by_id_and_prompt_whatever_their_meta():
    assert Task("1", "p", {"gold": "a"}) == Task("1", "p", {"gold": "b"})
    assert Task("1", "p") != Task("1", "q")
    assert len({Task("1", "p", {"gold": []}), Task("1", "p")}) == 1


def test_rows_become_tasks_with_their_gold_kept_as_it_is():
    rows = [{"prompt": "What?", "gold": 7}, {"prompt": 3, "level": "hard"}]

    tasks = tasks_from(rows, difficulty="level")

    assert [(task.id, task.prompt, dict(task.meta)) for task in tasks] == [
        ("0", "What?", {"gold": 7}),
        ("1", "3", {"difficulty": "hard"}),
    ]


def test_a_prompt_may_be_a_template_over_several_columns():
    rows = [{"context": "Sky.", "question": "Colour?", "gold": "blue", "key": "k7"}]

    [task] = tasks_from(rows, prompt="{context} Q: {question}", id="key")

    assert (task.id, task.prompt) == ("k7", "Sky. Q: Colour?")


@pytest.mark.parametrize("options", [{"prompt": "text"}, {"prompt": "{text}"}, {"id": "name"}])
def test_a_missing_column_is_reported_with_its_row_and_the_columns_there_are(options):
    with pytest.raises(KeyError, match=r"row 0 has no column '(text|name)'.*'gold', 'prompt'"):
        tasks_from([{"prompt": "p", "gold": 1}], **options)


def test_a_gold_column_that_is_named_must_be_in_every_row():
    rows = [{"prompt": "p", "answer": 1}, {"prompt": "q"}]

    with pytest.raises(KeyError, match=r"row 1 has no column 'answer'; it has \['prompt'\]"):
        tasks_from(rows, gold="answer")


def test_rows_with_one_id_are_both_named():
    rows = [{"prompt": "p", "key": key} for key in (1, 2, "1")]

    with pytest.raises(ValueError, match="ids must be unique; row 2 has the id '1' of row 0"):
        tasks_from(rows, id="key")


@pytest.mark.parametrize("template", ["{q} in {braces", "{}", "{q.colour}", '{q} {"a": 1} }'])
def test_a_template_that_cannot_be_filled_in_is_shown(template):
    with pytest.raises(
        ValueError, match=r"template '\{.*' cannot be filled in from row 0: .* twice"
    ):
        tasks_from([{"q": "?", '"a"': 1.5}], prompt=template)


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="rows is empty"):
        tasks_from([])


def test_repeated_ids_are_named_five_at_most():
    tasks = [Task(str(index % 7), "p") for index in range(14)]

    with pytest.raises(ValueError, match=r"\['0', '1', '2', '3', '4'\]"):
        refuse_duplicate_ids(tasks)


@pytest.mark.parametrize(
    ("n", "fraction", "sizes"),
    [
        (4, 0.4, (2, 2)),
        (5, 0.4, (3, 2)),
        (5, 0.5, (2, 3)),
        (10, 0.4, (6, 4)),
        (12, 0.4, (7, 5)),
        (20, 0.4, (12, 8)),
        (4, 0.1, (3, 1)),
        (4, 0.99, (1, 3)),
        (10, 0.05, (9, 1)),
    ],
)
def test_split_sizes(n, fraction, sizes):
    train, held_out = split_held_out([Task(str(i), "p") for i in range(n)], fraction)

    assert (len(train), len(held_out)) == sizes


@given(st.integers(4, 60), st.floats(0.01, 0.99), st.booleans(), st.integers())
def test_a_split_loses_no_task_and_leaves_neither_side_empty(n, fraction, shuffle, seed):
    tasks = [Task(str(i), "p") for i in range(n)]

    train, held_out = split_held_out(tasks, fraction, shuffle=shuffle, seed=seed)

    assert train
    assert held_out
    assert sorted([*train, *held_out], key=lambda task: int(task.id)) == tasks
    assert (train, held_out) == split_held_out(tasks, fraction, shuffle=shuffle, seed=seed)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 2])
def test_a_fraction_must_leave_something_on_both_sides(fraction):
    with pytest.raises(ValueError, match="held_out_frac must be strictly between 0 and 1"):
        split_held_out([Task("1", "p")], fraction)
