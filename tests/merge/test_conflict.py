import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.merge.candidates import signature
from agentdescent.merge.conflict import resolve_conflicts, settle
from support.merging import make_bench, worth

edits = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=1)


def cards_of(states):
    return [EvidenceCard(Diff(f"d{i}", "skill", ops), {}) for i, ops in enumerate(states)]


@st.composite
def contests(draw):
    cards = cards_of(draw(st.lists(edits, max_size=8)))
    names = dict.fromkeys(signature(card.diff) for card in cards)
    return cards, {name: draw(st.integers(0, 3)) for name in names}


async def resolved(at, *cards):
    merge = at.merge(*cards)
    kept, dropped = await resolve_conflicts(merge, cards)
    return [dict(card.diff.ops) for card in kept], dropped, merge.rivals


@pytest.mark.asyncio
async def test_edits_that_do_not_contradict_all_stay_unmeasured():
    at = make_bench()
    same = {"a": "1"}

    assert await resolved(at, at.card(same), at.card(b="1"), at.card(same)) == (
        [same, {"b": "1"}, same],
        0,
        0,
    )
    assert at.verifier.scored == []


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [("good", "bad", "good"), ("bad", "good", "good"), ("good", "twin", "good")],
    ids=["worse", "better", "tie"],
)
@pytest.mark.asyncio
async def test_of_two_rivals_the_better_stays_and_a_tie_keeps_the_earlier(first, second, kept):
    at = make_bench(worth(good=1.0, twin=1.0, bad=0.1))

    found = await resolved(at, at.card(k=first), at.card(k=second))

    assert found == ([{"k": kept}], 1, 2)


@pytest.mark.asyncio
async def test_one_edit_may_take_the_place_of_two():
    at = make_bench(worth(x=0.4, y=0.5, z=0.9))

    found = await resolved(at, at.card(k1="x"), at.card(k2="y"), at.card(k1="z", k2="w"))

    assert found == ([{"k1": "z", "k2": "w"}], 2, 3)


@pytest.mark.asyncio
async def test_an_edit_that_does_not_beat_all_it_contradicts_evicts_none():
    at = make_bench(worth(x=0.4, y=0.9, z=0.5))

    found = await resolved(at, at.card(k1="x"), at.card(k2="y"), at.card(k1="z", k2="w"))

    assert found == ([{"k1": "x"}, {"k2": "y"}], 1, 3)


@pytest.mark.asyncio
async def test_identical_edits_are_one_rival():
    at = make_bench(worth(x=0.4, y=0.9))

    found = await resolved(at, at.card(k="x"), at.card(k="x"), at.card(k="y"), at.card(k="y"))

    assert found == ([{"k": "y"}, {"k": "y"}], 2, 2)


@pytest.mark.asyncio
async def test_rivals_are_compared_over_the_ranking_subset():
    at = make_bench(worth(x=0.4, y=0.9), n_tasks=8, ranking=3)

    await resolved(at, at.card(k="x"), at.card(k="y"))

    assert len(at.verifier.scored) == 2 * 3


@pytest.mark.asyncio
async def test_up_to_four_rivals_are_scored_in_full():
    at = make_bench(worth(v1=0.1, v2=0.2, v3=0.3), n_tasks=8)

    found = await resolved(at, *(at.card(k=f"v{i}") for i in range(4)))

    assert found == ([{"k": "v3"}], 3, 4)
    assert len(at.verifier.scored) == 4 * 8


@pytest.mark.asyncio
async def test_more_rivals_are_halved_on_half_the_subset_first():
    at = make_bench(worth(**{f"v{i}": i / 10 for i in range(5)}), n_tasks=8)

    found = await resolved(at, *(at.card(k=f"v{i}") for i in range(5)), at.card(other="v0"))

    assert found == ([{"k": "v4"}, {"other": "v0"}], 4, 5)
    assert len(at.verifier.scored) == 5 * 4 + 3 * 4


@pytest.mark.asyncio
async def test_halving_keeps_the_earlier_of_equals():
    at = make_bench(worth(), n_tasks=8)

    found = await resolved(at, *(at.card(k=f"v{i}") for i in range(6)))

    assert found == ([{"k": "v0"}], 5, 6)
    assert {state for state, _ in at.verifier.scored[6 * 4 :]} == {
        repr([("k", f"v{i}")]) for i in range(3)
    }


@pytest.mark.asyncio
async def test_edits_that_agree_on_a_crowded_key_stand_and_fall_together():
    at = make_bench(worth(**{f"v{i}": i / 10 for i in range(5)}), n_tasks=8)
    ally = at.card(k="v4", more="x")

    kept, dropped, _ = await resolved(at, *(at.card(k=f"v{i}") for i in range(5)), ally)

    assert (kept, dropped) == ([{"k": "v4"}, {"k": "v4", "more": "x"}], 4)


@given(contests())
def test_no_two_kept_contradict_and_nobody_leaves_without_a_better_rival(contest):
    cards, scores = contest

    kept = settle(cards, scores)

    assert not any(a.diff.contradicts(b.diff) for a in kept for b in kept)
    for card in cards:
        if card not in kept:
            rivals = [c for c in cards if c.diff.contradicts(card.diff)]
            assert any(
                scores[signature(rival.diff)] >= scores[signature(card.diff)] for rival in rivals
            )


@given(contests())
def test_what_is_settled_stays_settled(contest):
    cards, scores = contest
    kept = settle(cards, scores)

    assert settle(kept, scores) == kept


@given(contests())
def test_the_best_of_all_stays(contest):
    cards, scores = contest
    if cards:
        best = max(cards, key=lambda card: scores[signature(card.diff)])
        assert signature(best.diff) in {signature(card.diff) for card in settle(cards, scores)}
