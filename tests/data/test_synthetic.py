"""Tasks that a model makes up, however badly it replies."""

import json

import pytest

from agentdescent.dataloader import asynthesize, split_dataset, synthesize
from agentdescent.errors import BackendError

SUBJECTS = ["ants", "boats", "clouds", "drums", "eels", "flutes", "goats", "hills", "inks", "jars"]


def numbered(start, n):
    return [
        {"prompt": f"How many {SUBJECTS[k % 10]} fit on {k} islands?", "gold": k}
        for k in range(start, start + n)
    ]


class Model:
    """Replies with each of its replies in turn, the last one for ever."""

    def __init__(self, *replies):
        self.replies, self.prompts = list(replies), []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply if isinstance(reply, str | None) else json.dumps(reply)


def counts(tasks):
    return tasks.n_replies, tasks.n_malformed, tasks.n_duplicates


def test_tasks_are_asked_for_in_batches_and_shown_to_the_model():
    model = Model(numbered(0, 10), numbered(10, 10), numbered(20, 5))

    tasks = synthesize(model, "counting things", 25)

    assert [task.prompt for task in tasks] == [row["prompt"] for row in numbered(0, 25)]
    assert [task.meta["gold"] for task in tasks] == list(range(25))
    assert all(task.meta["synthetic"] is True for task in tasks)
    assert len({task.id for task in tasks}) == 25
    assert counts(tasks) == (3, 0, 0)
    assert "counting things" in model.prompts[0]
    assert "There are these already" not in model.prompts[0]
    assert "- How many jars fit on 9 islands?" in model.prompts[1]
    assert "Write 5 tasks" in model.prompts[2]


def test_more_than_were_asked_for_are_left_out():
    tasks = synthesize(Model(numbered(0, 10)), "x", 4)

    assert [task.meta["gold"] for task in tasks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("reply", "n_malformed"),
    [
        ("Here you are:\n```json\n{}\n```\nEnjoy!", 0),
        ('{{"tasks": {}}}', 0),
        ('<think>maybe {{"prompt": "no", "gold": 1}}</think>{}', 0),
        ('{}, {{"prompt": "cut sho', 1),
        ('[{{"prompt": "", "gold": 1}}, {{"prompt": "no gold"}}, {{"prompt": 7, "gold": 1}}]{}', 3),
        ('{{"tasks": ["text", 7]}}{}', 2),
        ('{{"prompt": "x", "gold": []}}{{"a": 1}}{}', 2),
        ("{{{{{}", 2),
    ],
)
def test_tasks_are_found_whatever_is_around_them(reply, n_malformed):
    tasks = synthesize(Model(reply.format(json.dumps(numbered(0, 2)))), "x", 2)

    assert [(task.prompt, task.meta["gold"]) for task in tasks] == [
        ("How many ants fit on 0 islands?", 0),
        ("How many boats fit on 1 islands?", 1),
    ]
    assert counts(tasks) == (1, n_malformed, 0)


def test_objects_may_stand_one_a_line():
    lines = "\n".join(map(json.dumps, numbered(0, 3)))

    assert len(synthesize(Model(lines), "x", 3)) == 3


def test_malformed_replies_are_counted_and_asked_for_anew():
    model = Model("I cannot do that.", None, '{"a": ' * 100_000, numbered(0, 2))

    tasks = synthesize(model, "x", 2, batch_size=1)

    assert len(tasks) == 2
    assert tasks.n_replies == 4
    assert tasks.n_malformed == 3


def test_tasks_in_the_same_words_are_left_out():
    rows = numbered(0, 1)
    same = [{"prompt": "how many ANTS, fit on 0  islands", "gold": 5}]
    signs = [{"prompt": f"2 {sign} 2", "gold": 1} for sign in "+-*"]

    tasks = synthesize(Model(rows + same + signs), "x", 4)

    assert [task.prompt for task in tasks] == [rows[0]["prompt"], "2 + 2", "2 - 2", "2 * 2"]
    assert counts(tasks) == (1, 0, 1)


def test_it_stops_when_nothing_new_comes_and_says_what_is_missing():
    model = Model(numbered(0, 2), numbered(0, 2), "nothing")

    with pytest.warns(RuntimeWarning, match=r"2 of 4 tasks .* in 6 replies: 4 pieces .* 2 w"):
        tasks = synthesize(model, "x", 4, batch_size=2)

    assert counts(tasks) == (6, 4, 2)
    assert len(model.prompts) == 6


def test_no_task_at_all_is_an_error():
    with pytest.raises(BackendError, match=r"no task in 3 replies; the last one begins 'Sorry.'"):
        synthesize(Model("Sorry."), "x", 4)


def test_near_duplicates_share_a_group_and_therefore_a_part():
    long = "A shop sells {} red apples for three dollars a bag; what do {} bags cost in all?"
    rows = [
        {"prompt": long.format(first, first + 50), "gold": first}
        if first < 10
        else numbered(first, 1)[0]
        for first in range(20)
    ]

    tasks = synthesize(Model(rows), "x", 20, batch_size=20)
    groups = [task.meta["group"] for task in tasks]
    dataset = split_dataset(tasks, group_key=lambda task: task.meta["group"])

    assert groups[:10] == [tasks[0].id] * 10
    assert groups[10:] == [task.id for task in tasks[10:]]
    assert dataset.sizes() == {"train": 12, "val": 4, "test": 4}
    parts = [{task.meta["group"] for task in part} for part in (dataset.train, dataset.val)]
    assert not parts[0] & parts[1]


def test_a_chain_of_near_duplicates_is_one_group():
    words = [f"w{number}" for number in range(24)]
    prompts = [" ".join(words[start : start + 20]) for start in (0, 4, 2)]

    tasks = synthesize(Model([{"prompt": p, "gold": 1} for p in prompts]), "x", 3)

    assert {task.meta["group"] for task in tasks} == {tasks[0].id}


@pytest.mark.asyncio
async def test_an_asynchronous_model_is_awaited():
    async def model(prompt):
        return json.dumps(numbered(0, 2))

    assert len(await asynthesize(model, "x", 2)) == 2
    assert len(await asynthesize(lambda _: model("from a plain function"), "x", 2)) == 2


def test_what_the_model_raises_comes_out_as_it_is():
    def model(prompt):
        raise OSError("down")

    with pytest.raises(OSError, match="down"):
        synthesize(model, "x", 2)


@pytest.mark.parametrize("options", [{"n": 0}, {"n": 1, "batch_size": 0}])
def test_counts_must_be_positive(options):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        synthesize(Model(""), "x", **options)
