import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.sampling import DifficultyWeighted, RoundRobin

keys = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, unique=True)


def picks(sampler, ids, rewards, n):
    """Pick `n` times, recording the next reward of each picked task's endless script."""
    chosen = []
    for number in range(n):
        task_id = sampler.pick(ids, number)
        sampler.record(task_id, next(rewards[task_id]))
        chosen.append(task_id)
    return "".join(chosen)


def cycle(*rewards):
    while True:
        yield from rewards


def test_round_robin_cycles_through_the_share():
    sampler = RoundRobin()

    assert [sampler.pick(["a", "b", "c"], number) for number in range(5)] == list("abcab")
    assert sampler.name == "round-robin"


def test_round_robin_is_not_moved_by_rewards():
    sampler = RoundRobin()
    sampler.record("a", 1.0)

    assert sampler.pick(["a", "b"], 0) == "a"


@pytest.mark.parametrize("sampler", [RoundRobin(), DifficultyWeighted()])
def test_an_empty_share_is_refused(sampler):
    with pytest.raises(ValueError, match="keys is empty"):
        sampler.pick([], 0)


def test_difficulty_weighted_settles_on_the_task_that_is_sometimes_solved():
    sampler = DifficultyWeighted()
    rewards = {"a": cycle(1.0), "b": cycle(0.0), "c": cycle(1.0, 0.0)}

    assert picks(sampler, ["a", "b", "c"], rewards, 24) == "abcabc" + "c" * 18
    assert sampler.stats() == {"a": (2.0, 2.0), "b": (0.0, 2.0), "c": (10.0, 20.0)}
    assert sampler.name == "difficulty-weighted"


def test_c_decides_how_often_a_task_without_signal_is_tried_again():
    def tail(c):
        sampler = DifficultyWeighted(c=c)
        rewards = {"a": cycle(1.0), "b": cycle(1.0, 0.0)}
        for task_id in "aabb":
            sampler.record(task_id, next(rewards[task_id]))
        return picks(sampler, ["a", "b"], rewards, 8)

    assert tail(0.0) == "bbbbbbbb"
    assert tail(5.0) == "bbabbabb"


def test_untried_tasks_come_first_even_without_exploration():
    sampler = DifficultyWeighted(c=0.0)
    sampler.record("a", 1.0)
    sampler.record("a", 0.0)

    assert sampler.pick(["a", "b"], 0) == "b"


def test_of_equals_the_earlier_key_wins():
    sampler = DifficultyWeighted()
    for task_id in ("a", "b"):
        sampler.record(task_id, 1.0)

    assert sampler.pick(["b", "a"], 0) == "b"


def test_a_reward_passes_from_the_inherited_threshold_on():
    sampler = DifficultyWeighted()
    sampler.record("a", 0.9985)
    sampler.inherit_threshold(0.8)
    sampler.record("a", 0.8)
    sampler.record("a", 0.79)

    assert sampler.stats() == {"a": (1.0, 3.0)}


def test_without_a_run_the_threshold_is_that_of_solved():
    sampler = DifficultyWeighted()
    sampler.record("a", 0.999)

    assert sampler.stats() == {"a": (1.0, 1.0)}


def test_an_explicit_threshold_is_not_overridden():
    sampler = DifficultyWeighted(pass_threshold=0.5)
    sampler.inherit_threshold(0.9)
    sampler.record("a", 0.5)

    assert sampler.stats() == {"a": (1.0, 1.0)}


def test_stats_are_a_copy():
    sampler = DifficultyWeighted()
    sampler.stats()["a"] = (9.0, 9.0)

    assert sampler.stats() == {}


def test_private_counters_stay_out_of_the_repr():
    assert repr(DifficultyWeighted()) == (
        "DifficultyWeighted(c=0.4, pass_threshold=None, prior=0.5, discount=0.9)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"c": -0.1}, "c must be at least 0, got -0.1"),
        ({"c": float("nan")}, "c must be at least 0"),
        ({"pass_threshold": 0.0}, r"pass_threshold must be in \(0, 1\], got 0.0"),
        ({"pass_threshold": 1.1}, r"pass_threshold must be in \(0, 1\], got 1.1"),
        ({"prior": 1.5}, r"prior is a pass rate in \[0, 1\], got 1.5"),
    ],
)
def test_senseless_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DifficultyWeighted(**arguments)


@given(keys)
def test_every_task_is_tried_before_any_is_tried_twice(ids):
    sampler = DifficultyWeighted()
    chosen = []
    for number in range(len(ids)):
        chosen.append(sampler.pick(ids, number))
        sampler.record(chosen[-1], number % 2)

    assert chosen == ids


@given(keys, st.lists(st.floats(0, 1), max_size=40))
def test_equal_histories_give_equal_picks(ids, rewards):
    left, right = DifficultyWeighted(), DifficultyWeighted()
    for number, reward in enumerate(rewards):
        assert left.pick(ids, number) == right.pick(ids, number)
        task_id = ids[number % len(ids)]
        left.record(task_id, reward)
        right.record(task_id, reward)


@given(keys)
def test_exploration_starves_no_task(ids):
    sampler = DifficultyWeighted(c=2.0)
    for number in range(60 * len(ids)):
        task_id = sampler.pick(ids, number)
        sampler.record(task_id, number % 2)

    assert min(trials for _, trials in sampler.stats().values()) >= 2
