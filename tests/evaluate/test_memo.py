"""The memory of measurements."""

from agentdescent.core.task import Task
from agentdescent.evaluate.identity import identity_of, task_key
from agentdescent.evaluate.memo import Memo, mean

A, B = b"task a", b"task b"


def run(rendered, task):
    return rendered


def reward(task, output):
    return 1.0


def stored(memo: Memo, rendered: str, *values: float, task: bytes = A) -> None:
    digest = memo.page(rendered).digest
    for repeat, value in enumerate(values):
        memo.store(digest, task, repeat, value)


def test_value_is_kept_per_artifact_and_task():
    memo = Memo(run, reward)
    stored(memo, "one", 0.25)
    stored(memo, "one", 0.5, task=B)
    stored(memo, "two", 0.75)
    assert [memo.page("one").value(A, 1), memo.page("one").value(B, 1)] == [0.25, 0.5]
    assert [memo.page("two").value(A, 1), memo.page("two").value(B, 1)] == [0.75, None]
    assert len(memo) == 3


def test_every_artifact_may_be_measured_on_other_tasks_in_another_order():
    memo = Memo(run, reward)
    tasks = [f"task {number}".encode() for number in range(8)]
    measured = {"up": tasks[:5], "down": tasks[:2:-1], "one": [tasks[6]], "none": []}
    for rendered, chosen in measured.items():
        for value, task in enumerate(chosen):
            stored(memo, rendered, float(value), task=task)

    for rendered, chosen in measured.items():
        known = {task: memo.page(rendered).value(task, 1) for task in tasks}
        assert known == {**dict.fromkeys(tasks), **{task: i for i, task in enumerate(chosen)}}


def test_a_measurement_that_is_taken_again_replaces_the_first():
    memo = Memo(run, reward)
    stored(memo, "one", 0.25)
    stored(memo, "one", 0.5)
    assert (memo.page("one").value(A, 1), len(memo)) == (0.5, 1)


def test_value_is_the_mean_once_all_repeats_are_there():
    memo = Memo(run, reward)
    digest = memo.page("one").digest
    memo.store(digest, A, 2, 0.5)
    memo.store(digest, A, 0, 0.0)
    assert memo.page("one").value(A, 3) is None
    assert memo.page("one").drawn(A, range(3)) == {0: 0.0, 2: 0.5}
    memo.store(digest, A, 1, 1.0)
    assert memo.page("one").value(A, 3) == 0.5


def test_reserved_repeats_are_nobody_elses_and_count_once_drawn():
    memo = Memo(run, reward)
    stored(memo, "one", 0.0)
    page = memo.page("one")
    assert page.reserve(A, 1, 2) == range(1, 3)
    assert page.reserve(A, 1, 1) == range(3, 4)
    assert page.value(A, 1) == 0.0
    memo.store(page.digest, A, 3, 1.0)
    assert page.value(A, 1) == 0.5
    assert len(memo) == 2


def test_reserved_repeats_leave_room_for_the_value():
    page = Memo(run, reward).page("one")
    assert page.reserve(A, 2, 1) == range(2, 3)
    assert page.value(A, 2) is None


def test_artifact_not_asked_about_for_longest_goes():
    memo = Memo(run, reward, capacity=4)
    for rendered in ("one", "two"):
        stored(memo, rendered, 0.5)
        stored(memo, rendered, 0.5, task=B)
    memo.page("one")
    stored(memo, "three", 0.5)
    assert memo.page("two").value(A, 1) is None
    assert memo.page("one").value(B, 1) == 0.5
    assert len(memo) == 3


def test_bound_holds_over_many_artifacts():
    memo = Memo(run, reward, capacity=10)
    for number in range(100):
        stored(memo, f"artifact {number}", 0.5, 0.5, 0.5)
        assert len(memo) <= 10
    assert memo.page("artifact 97").value(A, 3) == 0.5
    assert memo.page("artifact 96").value(A, 3) is None


def test_pinned_artifact_stays():
    memo = Memo(run, reward, capacity=4)
    stored(memo, "head", 0.25)
    memo.pin("head")
    for number in range(20):
        stored(memo, f"candidate {number}", 0.5)
    assert memo.page("head").value(A, 1) == 0.25
    memo.pin("candidate 19")
    for number in range(20, 40):
        stored(memo, f"candidate {number}", 0.5)
    assert memo.page("head").value(A, 1) is None
    assert memo.page("candidate 19").value(A, 1) == 0.5


def test_artifact_under_measurement_is_not_evicted_by_itself():
    memo = Memo(run, reward, capacity=2)
    memo.pin("head")
    stored(memo, "one", 0.1, 0.2, 0.3, 0.4)
    assert memo.page("one").value(A, 4) == 0.25


def test_value_of_an_evicted_artifact_is_kept_when_it_arrives():
    memo = Memo(run, reward, capacity=1)
    page = memo.page("slow")
    stored(memo, "quick", 0.5)
    stored(memo, "quicker", 0.5)
    memo.store(page.digest, A, 0, 0.75)
    assert memo.page("slow").value(A, 1) == 0.75


def test_tasks_are_told_apart_by_their_meta():
    memo = Memo(run, reward)
    one, two = Task("a", "p", {"gold": 1}), Task("a", "p", {"gold": 2})
    assert memo.task_key(one) == memo.task_key(one) == task_key(one).digest
    assert memo.task_key(two) == task_key(two).digest
    assert memo.task_key(one) != memo.task_key(two)


def test_memo_knows_what_its_measurements_depend_on():
    identity = Memo(run, reward, "v1").identity
    assert (identity.actor, identity.reward) == (identity_of(run), identity_of(reward))
    assert identity.evaluation_key == "v1"


def test_mean_does_not_depend_on_order():
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.1, 0.2])
    assert mean([]) == 0.0


def test_parts_are_averaged_by_task_and_then_over_those_that_have_them():
    memo = Memo(print, print)
    a, b, c = (Task(name, "") for name in "abc")
    digest = memo.page("x").digest
    for task, draws in ((a, [{"p": 1.0, "q": 0.5}, {"p": 0.0}]), (b, [{"p": 1.0}])):
        for repeat, parts in enumerate(draws):
            memo.note_parts((digest, memo.task_key(task), repeat), parts)

    assert memo.parts("x", [a, b, c]) == {"p": 0.75, "q": 0.5}
    assert memo.parts("y", [a, b, c]) == {}
