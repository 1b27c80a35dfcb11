import pytest

from agentdescent.aggregator import AggregatorConfig
from agentdescent.core.protocols import StaleAction
from agentdescent.core.task import Task
from agentdescent.errors import PluginError
from agentdescent.merge.staleness import StalenessFilter
from agentdescent.policy.staleness import get_policy
from support.merging import make_bench

OWN = Task("h0", "its own")


class Recorder:
    """A policy that notes what it is asked, and always answers the same."""

    name = "recorder"

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def decide(self, eta, alpha, contract_breaking, /):
        self.asked.append((eta, alpha, contract_breaking))
        return self.answer


async def sift(at, policy, *cards, **knobs):
    stage = StalenessFilter(at.ledger, at.verifier, policy, AggregatorConfig(**knobs))
    snapshot = await at.ledger.snapshot()
    return await stage.sift(at.head, snapshot.version, cards)


@pytest.mark.asyncio
async def test_up_to_date_evidence_goes_on_unmeasured():
    at = make_bench()
    card = at.card(k0="good")

    assert await sift(at, get_policy("guarded"), card) == ([card], 0)
    assert at.verifier.scored == []


@pytest.mark.parametrize(
    ("lag", "eta"), [("key", 1), ("version", 3)], ids=["commits on its keys", "all commits"]
)
@pytest.mark.asyncio
async def test_lag_is_counted_as_configured(lag, eta):
    at = make_bench()
    at.ledger.publish(k1="x")
    at.ledger.publish(k0="x")
    at.ledger.publish(k2="x")
    policy = Recorder(StaleAction.DISCARD)

    assert await sift(at, policy, at.card(k0="good"), lag=lag) == ([], 1)
    assert policy.asked == [(eta, 1, False)]


@pytest.mark.asyncio
async def test_what_breaks_the_contract_lags_by_every_commit_and_is_tolerated_none():
    at = make_bench()
    at.ledger.publish(k1="x")
    at.ledger.publish(k2="x")
    policy = Recorder(StaleAction.DISCARD)

    await sift(at, policy, at.card(k0="good", breaking=True))

    assert policy.asked == [(2, 0, True)]


@pytest.mark.parametrize(("blast_radius", "alpha"), [(0.30, 2), (0.31, 7)])
@pytest.mark.asyncio
async def test_tolerance_depends_on_the_blast_radius(blast_radius, alpha):
    at = make_bench(blast_radius=blast_radius)
    policy = Recorder(StaleAction.ACCEPT)

    await sift(at, policy, at.card(k0="good"), alpha_tail=2, alpha_head=7)

    assert policy.asked == [(0, alpha, False)]


@pytest.mark.asyncio
async def test_accepted_evidence_is_based_on_the_head_from_now_on():
    at = make_bench()
    at.ledger.publish(k0="x")

    [card], discarded = await sift(at, get_policy("full"), at.card(k0="good"))

    assert (card.base_version, discarded) == ({"skill": 2}, 0)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param("good", 1, id="helps"),
        pytest.param("same", 1, id="ties"),
        pytest.param("bad", 0, id="harms"),
    ],
)
@pytest.mark.asyncio
async def test_rebased_evidence_must_do_no_worse_on_its_own_tasks(value, kept):
    worth = {"good": 1.0, "same": 0.5, "x": 0.5, "bad": 0.4}
    at = make_bench(lambda state, _: worth.get(state.get("k0"), 0.0))
    at.ledger.publish(k0="x")
    card = at.card(k0=value, tasks=[OWN, "no task"])

    survivors, discarded = await sift(at, get_policy("guarded"), card)

    assert [c.base_version for c in survivors] == [{"skill": 2}] * kept
    assert discarded == 1 - kept
    assert {task for _, task in at.verifier.scored} == {OWN.id}


@pytest.mark.asyncio
async def test_what_the_head_already_has_is_kept_unmeasured():
    at = make_bench()
    at.ledger.publish(k0="good")

    survivors, _ = await sift(at, get_policy("guarded"), at.card(k0="good", tasks=[OWN]))

    assert len(survivors) == 1
    assert at.verifier.scored == []


@pytest.mark.asyncio
async def test_each_rebase_is_judged_by_its_own_outcome():
    at = make_bench(lambda state, _: float(state.get("k0") != "bad"))
    at.ledger.publish(k0="x")
    cards = [at.card(k0=value, tasks=[OWN]) for value in ("a", "bad", "b")]
    fresh = at.card(k1="x")

    survivors, discarded = await sift(at, get_policy("guarded"), *cards[:2], fresh, cards[2])

    assert [dict(c.diff.ops) for c in survivors] == [{"k0": "a"}, {"k1": "x"}, {"k0": "b"}]
    assert discarded == 1


@pytest.mark.asyncio
async def test_evidence_without_tasks_is_kept_with_one_warning():
    at = make_bench()
    at.ledger.publish(k0="x", k1="x")
    stage = StalenessFilter(at.ledger, at.verifier, get_policy("guarded"), AggregatorConfig())

    with pytest.warns(RuntimeWarning, match="nothing to score"):
        survivors, _ = await stage.sift(at.head, {"skill": 2}, [at.card(k0="good")])
    more, _ = await stage.sift(at.head, {"skill": 2}, [at.card(k1="good")])

    assert (len(survivors), len(more)) == (1, 1)


@pytest.mark.asyncio
async def test_a_policy_may_wait_and_may_answer_in_plain_words():
    class Waits:
        name = "waits"

        async def decide(self, eta, alpha, contract_breaking, /):
            return "discard"

    at = make_bench()

    assert await sift(at, Waits(), at.card(k0="good")) == ([], 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", ["keep", None, True])
async def test_a_policy_that_answers_with_something_else_is_a_fault(answer):
    at = make_bench()

    with pytest.raises(PluginError, match=r"decide returned .*\['accept', 'rebase', 'discard'\]"):
        await sift(at, Recorder(answer), at.card(k0="good"))
