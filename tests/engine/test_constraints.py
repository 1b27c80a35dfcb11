"""`constraints=`: what an edit must not do is told before anything is paid for."""

import pytest

from agentdescent import AppendRules, PluginError, SingleSlot, Task, evolve
from agentdescent.constraints import max_chars, no_copies, protected
from agentdescent.events import ProposalMade

TASKS = [Task(str(i), f"task {i}") for i in range(10)]
PROMPT = "Answer.\nDO NOT guess."


def search(proposals, constraints, *, strategy=None, n_workers=1, rounds=1, **options):
    """A run whose workers propose what is given, in turn; and what was run."""
    waiting, ran = [*proposals], []

    def run(rendered, task):
        ran.append(rendered)
        return rendered

    result = evolve(
        TASKS,
        lambda task, output: min(0.9, len(output) / 1000),
        run=run,
        propose=lambda rendered, task, output, score: waiting.pop(0) if waiting else None,
        strategy=strategy or SingleSlot(PROMPT),
        constraints=constraints,
        n_workers=n_workers,
        rounds=rounds,
        **options,
    )
    return result, ran


def test_a_diff_that_breaks_one_is_never_run():
    told = []

    result, ran = search(["Answer, always."], [protected()], on_event=told.append)

    assert result.outcomes() == {"constraint": 1}
    assert set(ran) == {PROMPT}
    [made] = [event for event in told if isinstance(event, ProposalMade)]
    assert made.dropped == "constraint"
    assert made.reason == "the protected line 'DO NOT guess.' of 'value' would be gone"


def test_one_that_keeps_to_it_goes_on():
    result, _ = search([f"{PROMPT}\nBe brief."], [protected(), max_chars(each=100)])

    assert result.outcomes() == {"committed": 1}
    assert result.rendered == f"{PROMPT}\nBe brief."


def test_a_single_one_needs_no_list():
    result, _ = search(["x" * 101], max_chars(each=100))

    assert result.outcomes() == {"constraint": 1}


def test_the_text_of_held_out_tasks_cannot_be_smuggled_in():
    long = [Task(str(i), f"the prompt of task number {i} is quite long") for i in range(10)]

    result, _ = search(
        [f"{PROMPT} The prompt of task number 7 is quite long"], [no_copies(long, words=6)]
    )

    assert result.outcomes() == {"constraint": 1}


def test_a_union_keeps_to_the_limits_and_the_rest_waits_for_the_next_merge():
    """Each rule fits alone, two of them do not; the second is tried again, and fits no more."""
    result, ran = search(
        ["a" * 30, "b" * 30],
        [max_chars(total=50)],
        strategy=AppendRules(),
        n_workers=2,
        rounds=2,
    )

    assert [info.reasons for info in result.history] == [
        {"committed": 1},
        {"no-proposal": 2, "constraint": 1},
    ]
    assert len(result.state) == 1
    assert not [text for text in ran if "aaa" in text and "bbb" in text]


def test_the_engine_asks_with_copies():
    seen = []

    def check(before, after):
        seen.append((dict(before), dict(after)))
        before.clear()
        after["value"] = "spoilt"

    result, _ = search(["longer text than before"], [check])

    assert seen[0] == ({"value": PROMPT}, {"value": "longer text than before"})
    assert result.rendered == "longer text than before"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda before, after: 1 / 0, "constraint .*<lambda> failed: ZeroDivisionError"),
        (lambda before, after: False, "must return a reason or None, got bool False"),
    ],
)
def test_one_that_is_broken_ends_the_run(check, message):
    with pytest.raises(PluginError, match=message):
        search(["x"], [check])


def test_a_contract_error_of_a_constraint_is_raised_as_it_is():
    def check(before, after):
        raise PluginError("mine")

    with pytest.raises(PluginError, match=r"^mine$"):
        search(["x"], [check])


async def waits(before, after):
    return None


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([lambda state: None], "constraints must be callable as constraints\\(before, after\\)"),
        (["no"], "constraints must be a function of the form"),
        ([waits], "constraints must be plain functions, and .* is a coroutine function"),
    ],
)
def test_what_is_no_constraint_is_refused_at_once(constraints, message):
    with pytest.raises(TypeError, match=message):
        search([], constraints)
