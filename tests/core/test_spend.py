import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.outcomes import StopReason
from agentdescent.core.spend import Exhausted, Spend, Unit


def tokens(limit):
    return Spend({Unit.TOKEN: (limit, StopReason.MAX_TOKENS)})


def test_what_is_unlimited_is_counted_all_the_same():
    spend = Spend({})
    spend.reserve(Unit.CALL)
    spend.settle(Unit.TOKEN, 0, 70)

    assert (spend.count(Unit.CALL), spend.spent(Unit.TOKEN)) == (1, 70)
    assert spend.left(Unit.TOKEN) is None
    assert not spend.is_limited(Unit.TOKEN)


def test_the_last_unit_is_followed_by_the_order_to_end():
    spend = Spend({Unit.CALL: (2, StopReason.MAX_CALLS)})
    spend.reserve(Unit.CALL)
    spend.reserve(Unit.CALL)

    with pytest.raises(Exhausted, match="max_calls"):
        spend.reserve(Unit.CALL)
    assert (spend.exhausted, spend.count(Unit.CALL)) == (StopReason.MAX_CALLS, 2)


def test_what_is_released_can_be_reserved_again():
    spend = Spend({Unit.ROLLOUT: (1, StopReason.MAX_ROLLOUTS)})
    spend.reserve(Unit.ROLLOUT)
    spend.release(Unit.ROLLOUT)
    spend.reserve(Unit.ROLLOUT)

    assert spend.left(Unit.ROLLOUT) == 0


def test_the_last_hold_may_exceed_the_limit():
    spend = tokens(100)

    assert spend.hold({Unit.TOKEN: 5000})
    assert spend.left(Unit.TOKEN) == -4900


def test_what_others_hold_is_waited_for():
    spend = tokens(100)
    spend.hold({Unit.TOKEN: 100})

    assert not spend.hold({Unit.TOKEN: 1})
    assert spend.exhausted is None
    spend.settle(Unit.TOKEN, 100, 30)
    assert spend.hold({Unit.TOKEN: 1})
    assert spend.used(Unit.TOKEN) == 31


def test_what_is_spent_is_not_waited_for():
    spend = tokens(100)
    spend.settle(Unit.TOKEN, 0, 100)

    with pytest.raises(Exhausted) as order:
        spend.hold({Unit.TOKEN: 1})
    assert order.value.reason == spend.exhausted == StopReason.MAX_TOKENS


def test_all_is_held_or_nothing():
    limits = {
        Unit.TOKEN: (100, StopReason.MAX_TOKENS),
        Unit.USD: (1.0, StopReason.MAX_COST),
    }
    spend = Spend(limits)
    spend.hold({Unit.USD: 1.0})

    assert not spend.hold({Unit.TOKEN: 10, Unit.USD: 0.5})
    assert spend.used(Unit.TOKEN) == 0


steps = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60), st.booleans()), max_size=60)


@given(st.integers(1, 200), steps)
def test_a_budget_is_exceeded_by_no_more_than_what_was_under_way(limit, attempts):
    """Each attempt holds an estimate, takes something else and settles at once or at the end."""
    spend, under_way, total = tokens(limit), [], 0
    for estimate, taken, at_once in attempts:
        try:
            granted = spend.hold({Unit.TOKEN: estimate})
        except Exhausted:
            assert spend.spent(Unit.TOKEN) >= limit
            break
        if granted:
            assert total < limit
            under_way.append((estimate, taken))
        if (at_once or not granted) and under_way:
            first = under_way.pop(0)
            spend.settle(Unit.TOKEN, *first)
            total += first[1]

    assert spend.spent(Unit.TOKEN) == total
    for estimate, taken in under_way:
        spend.settle(Unit.TOKEN, estimate, taken)
    assert spend.used(Unit.TOKEN) == spend.spent(Unit.TOKEN) == total + sum(t for _, t in under_way)


@given(st.lists(st.floats(0.001, 9.0), max_size=40))
def test_what_was_held_is_gone_once_all_is_settled(amounts):
    spend = Spend({})
    for amount in amounts:
        spend.hold({Unit.USD: amount})
    for amount in reversed(amounts):
        spend.settle(Unit.USD, amount, 0.0)

    assert spend.used(Unit.USD) == pytest.approx(0.0, abs=1e-9)
