import pytest

from support.merging import make_bench, worth


@pytest.mark.asyncio
async def test_losers_of_a_conflict_are_verified_again_on_what_won():
    at = make_bench(worth(best=1.0, good=0.6, fair=0.5))
    aggregator = at.aggregator()
    cards = [at.card(k=v, tasks=at.verifier.held_out[:1]) for v in ("fair", "best", "good")]

    report = await at.run(aggregator, *cards)

    assert (report.conflicts_dropped, report.category) == (2, "committed")
    assert at.waiting(aggregator) == [({"k": "fair"}, 1), ({"k": "good"}, 1)]
    [report] = await aggregator.step()
    assert (report.category, report.discarded_stale) == ("all-stale", 2)
    assert aggregator.pending() == 0


@pytest.mark.asyncio
async def test_a_card_that_is_left_out_twice_is_out():
    at = make_bench()
    aggregator = at.aggregator()

    await at.run(aggregator, *(at.card(k=v) for v in ("a", "b", "c")))

    assert at.waiting(aggregator) == [({"k": "b"}, 1), ({"k": "c"}, 1)]
    await aggregator.step()
    assert aggregator.pending() == 0


@pytest.mark.asyncio
async def test_the_bar_rises_with_the_number_of_rivals():
    at = make_bench()

    await at.run(at.aggregator(), *(at.card(k0=v) for v in ("good", "b", "c", "d")))

    [(state, bar, _)] = at.verifier.gated
    assert (state, bar) == ({"k0": "good"}, round((1 - 0.5 * 0.5 ** (1 / 64)) ** 0.25, 6))


@pytest.mark.asyncio
async def test_what_no_longer_fits_into_a_commit_waits():
    at = make_bench()
    aggregator = at.aggregator(max_commit_ops=2)

    report = await at.run(aggregator, *(at.card({f"k{i}": "good"}) for i in range(3)))

    assert report.accepted.ops == {"k0": "good", "k1": "good"}
    assert at.waiting(aggregator) == [({"k2": "good"}, 1)]
    [report] = await aggregator.step()
    assert report.accepted.ops == {"k2": "good"}


@pytest.mark.asyncio
async def test_a_blamed_edit_that_only_lost_is_out_at_once():
    at = make_bench(state={"k6": "good"})
    aggregator = at.aggregator()

    report = await at.run(aggregator, at.card(k0="good"), at.card(bad6="x"), at.card(k1="good"))

    assert (report.blamed, report.accepted.ops) == (1, {"k0": "good", "k1": "good"})
    assert aggregator.pending() == 0
    assert "Held responsible for lost tasks: 1." in at.ledger.notes[0].body


@pytest.mark.asyncio
async def test_a_blamed_edit_that_nobody_had_time_to_judge_waits():
    at = make_bench(state={f"k{i}": "good" for i in (4, 5, 6, 7)})
    aggregator = at.aggregator()

    report = await at.run(
        aggregator, *(at.card({f"k{i}": "good", f"bad{i + 4}": "x"}) for i in range(4))
    )

    assert (report.category, report.blamed) == ("below-threshold", 4)
    assert at.waiting(aggregator) == [
        ({"k2": "good", "bad6": "x"}, 1),
        ({"k3": "good", "bad7": "x"}, 1),
    ]
