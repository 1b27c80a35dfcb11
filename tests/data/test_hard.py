"""Which items are hard."""

import anyio
import pytest

from agentdescent.dataloader import aselect_hard, select_hard


class Scores:
    """Scores an item by the next of its draws, the last one for ever."""

    def __init__(self, draws):
        self.draws = {item: list(scores) for item, scores in draws.items()}
        self.asked = []

    def __call__(self, item):
        self.asked.append(item)
        draws = self.draws.get(item, [1.0])
        return draws.pop(0) if len(draws) > 1 else draws[0]


def test_items_that_fail_each_time_are_kept_in_their_order():
    score = Scores({2: [0.0], 5: [0.5], 7: [0.0, 1.0]})

    assert select_hard(range(10), score, min_items=1) == [2, 5]
    assert sorted(score.asked) == [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 7, 8, 9]


def test_a_single_sample_is_enough_if_it_is_asked_for():
    score = Scores({2: [0.0], 7: [0.0, 1.0]})

    assert select_hard(range(10), score, min_items=1, samples=1) == [2, 7]


def test_too_few_are_filled_up_failures_first_then_those_that_failed_once():
    score = Scores({30: [0.0], 31: [0.0], 32: [0.0], 39: [0.2, 1.0], 38: [0.0, 1.0]})

    with pytest.warns(RuntimeWarning, match="only 3 of 40 items are hard; 9 others were added"):
        chosen = select_hard(range(40), score)

    assert chosen == [30, 31, 32, 38, 39, 0, 1, 2, 3, 4, 5, 6]


def test_when_none_is_hard_all_are_returned():
    assert select_hard("abc", lambda item: 1.0) == ["a", "b", "c"]
    assert select_hard("abc", lambda item: 1.0, keep=2) == ["a", "b"]
    assert select_hard([], lambda item: 1.0) == []


def test_keep_is_the_most_there_will_be():
    assert select_hard(range(20), lambda item: 0.0, keep=3) == [0, 1, 2]
    with pytest.warns(RuntimeWarning, match="only 1 of 20 items are hard; 2 others were added"):
        assert select_hard(range(20), lambda item: float(item != 9), keep=3) == [9, 0, 1]


def test_the_threshold_is_what_counts_as_a_success():
    assert select_hard([0.2, 0.5, 0.8], float, threshold=0.5, min_items=1) == [0.2]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_items_are_scored_a_few_at_a_time(looptime):
    async def score(item):
        await anyio.sleep(1)
        return 0.0

    assert await aselect_hard(range(8), score, concurrency=4, min_items=1) == list(range(8))
    assert looptime == 4


@pytest.mark.asyncio
async def test_a_plain_function_may_return_an_awaitable():
    async def later(item):
        return 0.0

    assert await aselect_hard("ab", lambda _: later("c"), min_items=1) == ["a", "b"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"score returned (nan|inf) for 'a'"):
        select_hard(["a"], lambda item: value)


def test_what_the_scorer_raises_comes_out_as_it_is():
    def score(item):
        raise KeyError(item)

    with pytest.raises(KeyError, match="a"):
        select_hard(["a"], score)


@pytest.mark.parametrize("name", ["samples", "concurrency", "keep"])
def test_counts_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        select_hard(["a"], lambda item: 0.0, **{name: 0})
