"""What a run tells a sampler beside rewards: commits, and picks that came to nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import DifficultyWeighted


def learned(**rewards):
    """A sampler that has seen these rewards, task by task."""
    sampler = DifficultyWeighted()
    for name, earned in rewards.items():
        for reward in earned:
            sampler.record(name, reward)
    return sampler


def test_every_commit_lets_what_was_seen_count_less():
    sampler = learned(a=[1.0, 0.0])

    sampler.note_commit()
    sampler.record("a", 1.0)

    assert sampler.stats() == {"a": (pytest.approx(1.9), pytest.approx(2.8))}


def test_a_task_that_is_solved_now_is_soon_left_alone():
    sampler = learned(late=[0.0] * 9, other=[1.0, 0.0])
    picks = []
    for turn in range(30):
        sampler.note_commit()
        picks.append(sampler.pick(["late", "other"], turn))
        sampler.record(picks[-1], 1.0 if picks[-1] == "late" else turn % 2)

    assert picks[15:].count("late") < picks[15:].count("other")


def test_what_is_discounted_by_one_is_never_forgotten():
    sampler = DifficultyWeighted(discount=1)
    sampler.record("a", 1.0)

    sampler.note_commit()

    assert sampler.stats() == {"a": (1.0, 1.0)}


def test_workers_that_pick_at_once_spread_out():
    sampler = learned(a=[1.0, 0.0], b=[1.0, 0.0])

    assert [sampler.pick(["a", "b", "new"], 0) for _ in range(4)] == ["new", "a", "b", "new"]


def test_a_reward_frees_the_task_for_others():
    sampler = learned(a=[1.0, 0.0] * 4, b=[1.0, 0.0] * 4)
    assert [sampler.pick(["a", "b"], 0) for _ in range(2)] == ["a", "b"]

    sampler.record("b", 1.0)

    assert sampler.pick(["a", "b"], 0) == "b"


def test_of_several_picks_of_one_task_a_reward_ends_one():
    sampler = learned(a=[1.0, 0.0], b=[1.0, 0.0, 1.0, 1.0, 1.0])
    for _ in range(3):
        assert sampler.pick(["a"], 0) == "a"

    sampler.record("a", 0.0)
    assert sampler.pick(["a", "b"], 0) == "b"
    sampler.record("b", 1.0)

    sampler.record("a", 1.0)
    sampler.record("a", 0.0)
    assert sampler.pick(["a", "b"], 0) == "a"


def test_a_task_that_always_fails_does_not_hold_the_sampler():
    sampler = DifficultyWeighted()
    picks = []
    for turn in range(60):
        picks.append(sampler.pick(["broken", "well"], turn))
        if picks[-1] == "broken":
            sampler.note_lost("broken")
        else:
            sampler.record("well", turn % 2)

    assert 1 < picks.count("broken") < 12


def test_a_reward_makes_up_for_failures():
    sampler = learned(a=[1.0, 0.0], b=[1.0, 0.0])
    sampler.note_lost("a")
    assert sampler.pick(["a", "b"], 0) == "b"
    sampler.record("b", 1.0)

    sampler.record("a", 1.0)
    sampler.record("a", 0.0)
    sampler.record("b", 0.0)

    assert sampler.pick(["a", "b"], 0) == "a"


def test_failures_are_written_down_and_picks_under_way_are_not():
    sampler, again = learned(a=[1.0, 0.0], b=[0.0]), DifficultyWeighted()
    sampler.note_lost("a")
    saved = json.loads(json.dumps(sampler.dump()))

    again.pick(["a"], 0)
    again.restore(saved)

    assert json.loads(json.dumps(again.dump())) == saved
    assert again.pick(["a", "b"], 0) == sampler.pick(["a", "b"], 0)


def test_what_an_older_version_wrote_down_can_be_read():
    again = DifficultyWeighted()
    again.restore({"picks": 3, "stats": {"a": [1.0, 2.0]}})

    assert again.stats() == {"a": (1.0, 2.0)}


@pytest.mark.parametrize("discount", [0.0, 1.1, float("nan")])
def test_a_senseless_discount_is_refused(discount):
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\]"):
        DifficultyWeighted(discount=discount)


@given(st.lists(st.sampled_from(["reward", "failure", "commit"]), min_size=60, max_size=60))
def test_no_task_is_starved_whatever_happens(endings):
    sampler, seen = DifficultyWeighted(c=2.0), set()
    for turn, ending in enumerate(endings):
        name = sampler.pick("abcd", turn)
        seen.add(name)
        if ending == "failure":
            sampler.note_lost(name)
        else:
            sampler.record(name, turn % 2)
        if ending == "commit":
            sampler.note_commit()

    assert seen == {*"abcd"}
