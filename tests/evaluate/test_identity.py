"""What makes two evaluations the same."""

import functools
import subprocess
import sys

import pytest

from agentdescent.core.task import Task
from agentdescent.evaluate.identity import (
    EvaluationIdentity,
    Identity,
    canonical_json,
    identity_of,
    task_key,
)


class Model:
    """A callable object."""

    def __call__(self, rendered, task):
        return rendered


class Named(Model):
    identity = "openai/model-1 t=0"


def plain(rendered, task):
    return rendered


def other(rendered, task):
    return task


def test_object_names_itself():
    assert identity_of(Named()) == Identity("openai/model-1 t=0", explicit=True)


def test_function_is_named_by_place_and_source():
    place, source = identity_of(plain).name.split(" ")
    assert place == f"{__name__}.plain"
    assert len(source) == 64
    assert not identity_of(plain).explicit


def test_change_of_the_source_changes_the_name(tmp_path, monkeypatch):
    names = []
    for body in ("return 1", "return 2"):
        path = tmp_path / f"actor_{len(names)}.py"
        path.write_text(f"def act(rendered, task):\n    {body}\n")
        scope = {"__name__": "actor"}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        names.append(identity_of(scope["act"]).name)
    assert names[0].split()[0] == names[1].split()[0] == "actor.act"
    assert names[0] != names[1]


def test_callable_without_source_is_named_by_place_alone():
    assert identity_of(len) == Identity("builtins.len", explicit=False)


def test_object_is_named_by_its_class():
    assert identity_of(Model()).name == identity_of(Model).name
    assert identity_of(Model()).name.startswith(f"{__name__}.Model ")


def test_bound_method_is_named_by_its_function():
    assert identity_of(Model().__call__) == identity_of(Model.__call__)


def test_partial_is_named_by_function_and_arguments():
    one, two = (functools.partial(plain, model=name) for name in ("a", "b"))
    assert identity_of(one) == identity_of(functools.partial(plain, model="a"))
    assert identity_of(one) != identity_of(two)
    assert identity_of(functools.partial(Named(), 1)).explicit


class Unspeakable:
    def __repr__(self):
        raise OSError("not now")


def test_what_cannot_be_written_down_is_itself_and_no_other():
    circle, digits = {}, 10**10_000
    circle["self"] = circle
    for value in (circle, [Unspeakable()], [digits]):
        text, is_lasting = canonical_json(value)
        assert text == object.__repr__(value)
        assert not is_lasting


def test_canonical_json_ignores_the_order_of_keys_and_members():
    one = {"b": {3, 1, 2}, "a": [1, (2.5, None)], 1: True}
    two = {1: True, "a": (1, [2.5, None]), "b": frozenset({2, 3, 1})}
    assert canonical_json(one) == canonical_json(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"1": 0}, {1: 0}),
        ([1, 2], {1, 2}),
        ({"a": None}, {}),
        ([["a", 1]], {"a": 1}),
        ("1", 1),
        (b"x", "b'x'"),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_canonical_json_tells_values_apart(one, two):
    assert canonical_json(one)[0] != canonical_json(two)[0]


def test_what_json_cannot_write_becomes_type_and_repr():
    assert canonical_json(range(3)) == ('{"builtins.range":"range(0, 3)"}', True)


def test_object_address_makes_a_task_passing():
    meta = {"fixture": object()}
    assert canonical_json(meta)[1] is False
    assert task_key(Task("a", "p", {})).is_lasting
    assert not task_key(Task("a", "p", meta)).is_lasting


def test_tasks_with_other_meta_have_other_keys():
    keys = {
        task_key(task).digest
        for task in (
            Task("a", "p", {"gold": 1}),
            Task("a", "p", {"gold": 2}),
            Task("a", "q", {"gold": 1}),
            Task("ap", "", {"gold": 1}),
        )
    }
    assert len(keys) == 4


def test_text_that_is_no_unicode_has_a_key():
    assert task_key(Task("a", "\udc80")) != task_key(Task("a", "\udc81"))


def run_identity(**changes):
    fields = {
        "actor": Identity("actor", explicit=False),
        "reward": Identity("reward", explicit=False),
        "evaluation_key": "",
        "rendered": "rules",
        "task": Task("a", "p"),
        "repeat": 0,
    } | changes
    rendered, task, repeat = (fields.pop(name) for name in ("rendered", "task", "repeat"))
    return EvaluationIdentity(**fields).key(rendered, task_key(task), repeat)


def test_key_depends_on_everything_that_a_measurement_depends_on():
    changes = [
        {},
        {"actor": Identity("other", explicit=False)},
        {"reward": Identity("other", explicit=False)},
        {"evaluation_key": "v2"},
        {"rendered": "other"},
        {"task": Task("b", "p")},
        {"repeat": 1},
    ]
    assert len({run_identity(**change) for change in changes}) == len(changes)


def test_key_is_the_same_in_every_process():
    script = (
        "from agentdescent.evaluate.identity import *; from agentdescent.core.task import Task\n"
        "who = EvaluationIdentity(Identity('a', True), Identity('r', True), 'k')\n"
        "print(who.key('rules', task_key(Task('a', 'p', {'s': {'x', 'y', 'z'}})), 0))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64


@pytest.mark.parametrize(
    ("actor", "reward", "key", "lasting"),
    [
        (True, True, "", True),
        (True, False, "", False),
        (False, True, "", False),
        (False, False, "v1", True),
    ],
)
def test_measurements_last_when_the_user_vouches_for_them(actor, reward, key, lasting):
    who = EvaluationIdentity(Identity("a", explicit=actor), Identity("r", explicit=reward), key)
    assert who.is_lasting is lasting
