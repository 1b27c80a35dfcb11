"""The verifier: gates, rankings, budgets."""

from collections import Counter
from random import Random

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.core.artifact import EvolvingArtifact
from agentdescent.core.merging import Verdict
from agentdescent.core.spend import Exhausted, StopReason
from agentdescent.errors import (
    EvaluationFailed,
    GovernanceError,
    PluginError,
    RewardContractError,
)
from agentdescent.evaluate.verifier import Verifier, VerifierBudget
from agentdescent.policy.stats import commit_bar, probability_of_gain
from agentdescent.threads import invoke
from support.lab import Lab, tasks_named

BAR = commit_bar(1, base_delta=0.5, half_life=64)


class Text:
    """The artifact is one text; counts how often it is rendered."""

    def __init__(self):
        self.rendered = Counter()

    def initial(self):
        return {"text": ""}

    def render(self, state):
        self.rendered[state["text"]] += 1
        return state["text"]

    def to_diff(self, state, proposal, author, base_version, target):
        return None


def artifact(text, strategy=None):
    return EvolvingArtifact("skill", {"text": text}, strategy=strategy or Text())


HEAD, CANDIDATE = artifact("head"), artifact("candidate")


class Case(Lab):
    """Held-out tasks named by letters, with the rewards of head and candidate."""

    def __init__(self, head, candidate, **options):
        super().__init__(**options)
        names = "abcdefghijklmnopqrstuvwxyz"[: len(head)]
        self.tasks = tasks_named(names)
        for name, old, new in zip(names, head, candidate, strict=True):
            self.rewards["head", name] = old
            self.rewards["candidate", name] = new

    async def gate(self, bar=BAR, *, curtail=True, along=(), width=4, **options):
        """The verdict; afterwards `calls` holds what scoring the candidate has cost."""
        async with self.pool(width=width).open() as pool:
            await pool.values("head", self.tasks)
            self.calls.clear()
            self.ended.clear()
            return await Verifier(pool, self.tasks, **options).gate(
                HEAD, CANDIDATE, bar, curtail=curtail, along=along
            )

    def named(self, names):
        return tuple(task for task in self.tasks if task.id in names)


@pytest.mark.asyncio
async def test_accepted_candidate_is_scored_on_every_task():
    case = Case([0.0, 0.5, 1.0, 0.5], [1.0, 0.25, 1.0, 1.0])
    verdict = await case.gate()
    assert verdict == Verdict(
        accepted=True,
        probability=probability_of_gain([0.0, 0.5, 0.5], [1.0, 0.25, 1.0]),
        bar=BAR,
        before=0.5,
        after=0.8125,
        finished=4,
        total=4,
        won=case.named("ad"),
        lost=case.named("b"),
    )
    assert sorted(case.calls) == list("abcd")


@pytest.mark.asyncio
@pytest.mark.parametrize("width", [1, 4, 20])
async def test_candidate_that_helps_nothing_costs_the_failed_tasks_alone(width):
    case = Case([0.0] * 5 + [1.0] * 11, [0.0] * 5 + [1.0] * 11)
    verdict = await case.gate(width=width)
    assert sorted(case.calls) == list("abcde")
    assert (verdict.accepted, verdict.finished, verdict.total) == (False, 5, 16)
    assert (verdict.before, verdict.after, verdict.probability) == (0.0, 0.0, 0.5)
    assert verdict.reason == "P(delta>0) <= 0.50 <= 0.51 after 5 of 16 tasks"


@pytest.mark.asyncio
async def test_head_that_solves_everything_costs_nothing_to_defend():
    case = Case([1.0] * 4, [0.0] * 4)
    verdict = await case.gate()
    assert case.calls == []
    assert (verdict.accepted, verdict.finished, verdict.total) == (False, 0, 4)


@pytest.mark.asyncio
async def test_loss_that_decides_ends_the_second_wave():
    case = Case([0.0] * 3 + [1.0] * 10, [1.0] * 3 + [1.0, 1.0, 0.0] + [1.0] * 7)
    verdict = await case.gate(0.9, width=1)
    assert case.calls == list("abcdef")
    assert verdict.probability == probability_of_gain([0, 0, 0, 1], [1, 1, 1, 0])
    assert (verdict.won, verdict.lost) == (case.named("abc"), case.named("f"))


@pytest.mark.asyncio
async def test_tasks_with_most_to_win_come_first_and_ties_by_id():
    case = Case([1.0, 0.5, 0.0, 0.5, 1.0, 0.0], [1.0] * 6)
    await case.gate(width=1)
    assert case.calls == list("cfbdae")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
@pytest.mark.parametrize(("waves", "seconds"), [(2, 3.0), (1, 2.0)])
async def test_accepted_candidate_takes_one_latency_a_wave(looptime, waves, seconds):
    case = Case([0.0] * 2 + [1.0] * 2, [1.0] * 4, latency=1.0)
    assert (await case.gate(eval_waves=waves)).accepted
    assert looptime == seconds  # the head's values included


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_rejection_within_a_wave_cancels_what_runs():
    case = Case([0.5] * 4, [0.0] * 4, latency=5.0)
    case.seconds = {"a": 1.0, "b": 2.0}
    async with case.pool().open() as pool:
        await pool.values("head", case.tasks)
        case.ended.clear()
        verdict = await Verifier(pool, case.tasks).gate(HEAD, CANDIDATE, 0.6)
        await anyio.lowlevel.checkpoint()
    assert (verdict.finished, verdict.lost) == (2, case.named("ab"))
    assert case.ended == [("a", 6.0), ("b", 7.0), ("c", 7.0), ("d", 7.0)]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_uncurtailed_gate_scores_all_at_once(looptime):
    case = Case([0.0, 0.0, 1.0, 1.0], [0.0] * 4, latency=1.0)
    verdict = await case.gate(curtail=False)
    assert looptime == 2
    assert sorted(case.calls) == list("abcd")
    assert (verdict.finished, verdict.lost) == (4, case.named("cd"))
    assert verdict.probability == probability_of_gain([1, 1], [0, 0])
    assert verdict.reason == "P(delta>0) = 0.12, bar 0.51, gain -0.500"


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_what_is_measured_along_costs_no_time_of_its_own(looptime):
    case, along = Case([0.0] * 2 + [1.0] * 2, [1.0] * 4, latency=1.0), tasks_named("yz")
    async with case.pool(width=6).open() as pool:
        verifier = Verifier(pool, case.tasks)
        await pool.values("head", case.tasks)
        case.seconds = {"y": 0.5, "z": 0.5, "c": 0.5, "d": 0.5}
        pairs = [(artifact, task) for artifact in (HEAD, CANDIDATE) for task in along]
        assert (await verifier.gate(HEAD, CANDIDATE, BAR, along=pairs)).accepted
        assert await verifier.evaluate(HEAD, along) == [1.0, 1.0]
        assert await verifier.evaluate(CANDIDATE, along) == [1.0, 1.0]
    assert looptime == 2.5
    assert sorted(case.calls) == sorted("abcd" * 2 + "yz" * 2)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("candidate", "calls"),
    [([0.0, 0.0, 1.0, 1.0], "ab"), ([1.0, 1.0, 0.0, 1.0], "abcd"), ([1.0, 0.25, 1.0, 1.0], "abcd")],
    ids=["useless", "loses in the second wave", "loses in the first wave"],
)
async def test_what_is_measured_along_is_not_paid_for_once_it_is_in_doubt(candidate, calls):
    case = Case([0.0, 0.5, 1.0, 1.0], candidate)
    await case.gate(0.4, width=1, along=[(CANDIDATE, task) for task in tasks_named("yz")])
    assert case.calls == list(calls)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_what_cannot_be_measured_along_leaves_the_verdict():
    case = Case([0.0, 1.0], [1.0, 1.0])
    case.errors["y"] = [ValueError("no")] * 9
    verdict = await case.gate(along=[(CANDIDATE, task) for task in tasks_named("y")])
    assert (verdict.accepted, verdict.undecided) == (True, "")


@pytest.mark.asyncio
async def test_tie_is_rejected():
    verdict = await Case([0.0, 1.0], [1.0, 0.0]).gate(0.1, curtail=False)
    assert (verdict.accepted, verdict.probability, verdict.gain) == (False, 0.5, 0.0)


@pytest.mark.asyncio
async def test_second_gate_of_a_candidate_is_answered_from_memory():
    case = Case([0.0, 1.0], [1.0, 1.0])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)
        first = await verifier.gate(HEAD, CANDIDATE, BAR)
        assert await verifier.gate(artifact("head"), artifact("candidate"), BAR) == first
    assert sorted(case.calls) == ["a", "a", "b", "b"]


tables = st.sampled_from(["binary", "quarters", "graded"])
values = {
    "binary": st.sampled_from([0.0, 1.0]),
    "quarters": st.integers(0, 4).map(lambda quarter: quarter / 4),
    "graded": st.floats(0.0, 1.0),
}


@settings(max_examples=120, deadline=None)
@given(tables, st.integers(1, 26), st.integers(1, 500), st.integers(1, 8), st.data())
def test_curtailed_gate_decides_as_the_full_one(kind, n, version, k, data):
    head, candidate = (
        data.draw(st.lists(values[kind], min_size=n, max_size=n), label=side)
        for side in ("head", "candidate")
    )
    bar = commit_bar(version, base_delta=0.5, half_life=64, k=k)
    width = data.draw(st.sampled_from([1, 3, 32]), label="width")

    async def main():
        case = Case(head, candidate)
        curtailed = await case.gate(bar, width=width)
        calls = len(case.calls)
        full = await case.gate(bar, curtail=False, width=width)
        return curtailed, full, calls

    curtailed, full, calls = anyio.run(main)
    assert curtailed.accepted == full.accepted
    assert full.finished == n
    assert calls == curtailed.finished
    if curtailed.finished == n:
        assert curtailed == full
    else:
        assert full.probability <= curtailed.probability + 0.005


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_candidate_that_cannot_be_scored_is_undecided():
    case = Case([0.0] * 3, [1.0] * 3)
    async with case.pool().open() as pool:
        await pool.values("head", case.tasks)
        case.errors["b"] = [OSError("reset")] * 3
        verdict = await Verifier(pool, case.tasks).gate(HEAD, CANDIDATE, BAR)
    assert verdict.undecided == "task 'b' could not be scored: OSError: reset"
    assert (verdict.accepted, verdict.finished, verdict.total) == (False, 2, 3)
    assert verdict.won == case.named("ac")


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_head_that_cannot_be_scored_leaves_the_candidate_undecided():
    case = Case([0.0] * 3, [1.0] * 3)
    case.errors["b"] = [OSError("reset")] * 3
    async with case.pool().open() as pool:
        verdict = await Verifier(pool, case.tasks).gate(HEAD, CANDIDATE, BAR)
    assert verdict.undecided == "task 'b' could not be scored: OSError: reset"
    assert (verdict.accepted, verdict.finished, verdict.total) == (False, 0, 3)


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [RewardContractError("no"), Exhausted(StopReason.MAX_CALLS)])
async def test_broken_contracts_and_spent_budgets_pass_through_the_gate(error):
    case = Case([0.0] * 3, [1.0] * 3)

    async def run(rendered, task, leash=None):
        if rendered == "candidate":
            raise error
        return rendered

    async with case.pool(run=run).open() as pool:
        with pytest.raises(type(error)) as caught:
            await Verifier(pool, case.tasks).gate(HEAD, CANDIDATE, BAR)
    assert caught.value is error


@pytest.mark.asyncio
async def test_strategy_that_cannot_render_is_a_bug_of_the_plug_in():
    class Broken(Text):
        def render(self, state):
            raise KeyError("missing")

    case = Case([0.0], [1.0])
    async with case.pool().open() as pool:
        with pytest.raises(PluginError, match="render: KeyError") as caught:
            await Verifier(pool, case.tasks).gate(HEAD, artifact("x", Broken()), BAR)
    assert isinstance(caught.value.__cause__, KeyError)
    assert case.calls == []


@pytest.mark.asyncio
async def test_contract_error_of_a_strategy_stays_what_it_is():
    class Frozen(Text):
        def render(self, state):
            raise GovernanceError("frozen")

    case = Case([0.0], [1.0])
    async with case.pool().open() as pool:
        with pytest.raises(GovernanceError):
            await Verifier(pool, case.tasks).evaluate(artifact("x", Frozen()), case.tasks)


@pytest.mark.asyncio
async def test_artifact_is_rendered_once():
    case, strategy = Case([0.0, 0.0], [1.0, 1.0]), Text()
    head, candidate = artifact("head", strategy), artifact("candidate", strategy)
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)
        await verifier.cheap_total(candidate)
        await verifier.gate(head, candidate, BAR)
        await verifier.gate(head, candidate, BAR)
    assert strategy.rendered == {"head": 1, "candidate": 1}


@pytest.mark.asyncio
async def test_only_so_many_texts_are_kept():
    case, strategy = Case([0.0], [1.0]), Text()
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)
        first = artifact("first", strategy)
        await verifier.cheap_eval(first)
        for number in range(64):
            await verifier.cheap_eval(artifact(f"{number}", strategy))
        await verifier.cheap_eval(first)
    assert strategy.rendered["first"] == 2


# -- confirmation ---------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_accepted_candidate_is_measured_again_where_it_differs():
    case = Case([], [])
    case.tasks = tasks_named("abc")
    case.rewards = {
        ("head", "a"): [0.0, 0.0, 1.0],
        ("head", "b"): [0.0, 0.0, 0.0],
        ("candidate", "a"): [1.0, 1.0, 1.0],
        ("candidate", "b"): [1.0, 0.0, 1.0],
    }
    async with case.pool().open() as pool:
        verdict = await Verifier(pool, case.tasks, confirm=2).gate(HEAD, CANDIDATE, 0.8)
        assert pool.known("head", case.tasks) == (1 / 3, 0.0, 1.0)
        assert pool.known("candidate", case.tasks) == (1.0, 2 / 3, 1.0)
    assert verdict.accepted
    assert verdict.probability == probability_of_gain([0.5, 0.0], [1.0, 0.5])
    assert (verdict.before, verdict.after) == pytest.approx((4 / 9, 8 / 9))
    assert (verdict.finished, verdict.won) == (3, case.named("ab"))
    assert [case.count(name) for name in "abc"] == [6, 6, 2]


@pytest.mark.asyncio
async def test_candidate_whose_win_was_luck_is_not_confirmed():
    case = Case([0.0, 1.0], [0.0, 1.0])
    case.rewards["candidate", "a"] = [1.0, 0.0]
    verdict = await case.gate(confirm=1)
    assert (verdict.accepted, verdict.probability) == (False, 0.5)
    assert (verdict.before, verdict.after) == (0.5, 0.75)
    assert case.calls.count("a") == 3


@pytest.mark.asyncio
async def test_rejected_candidate_is_not_measured_again():
    case = Case([0.0, 1.0], [0.0, 1.0])
    verdict = await case.gate(confirm=3)
    assert not verdict.accepted
    assert case.calls == ["a"]


@pytest.mark.asyncio
async def test_each_confirmation_draws_the_head_anew():
    case = Case([0.0, 1.0], [1.0, 1.0])
    case.rewards["head", "a"] = [0.0, 0.5, 0.1]
    case.rewards["other", "a"] = 1.0
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks, confirm=1)
        await verifier.gate(HEAD, CANDIDATE, 0.6)
        await verifier.gate(HEAD, artifact("other"), 0.6)
        assert pool.known("head", case.tasks[:1]) == pytest.approx([0.2])


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_confirmation_that_cannot_be_measured_leaves_the_candidate_undecided():
    case = Case([0.0, 1.0], [1.0, 1.0])

    async def run(rendered, task, leash=None):
        output = await case.run(rendered, task)
        if rendered == "candidate":
            case.errors["a"] = [OSError("reset")] * 6
        return output

    async with case.pool(run=run).open() as pool:
        verdict = await Verifier(pool, case.tasks, confirm=1).gate(HEAD, CANDIDATE, BAR)
    assert verdict.undecided == "task 'a' could not be scored: OSError: reset"
    assert not verdict.accepted


@pytest.mark.asyncio
@pytest.mark.parametrize(("version", "risk"), [(1, 0.4946), (64, 0.25), (128, 0.125)])
async def test_best_of_eight_by_luck_is_confirmed_no_oftener_than_the_accepted_risk(version, risk):
    rng, trials, accepted = Random(version), 150, 0
    bar = commit_bar(version, base_delta=0.5, half_life=64)
    lab, tasks = Lab(), tasks_named("abcdefghijklmnopqrst")

    async def toss(rendered, task, leash=None):
        return float(rng.random() < 0.5)

    async def as_it_fell(task, output, leash=None):
        return output

    lab.run, lab.reward = toss, as_it_fell
    async with lab.pool().open() as pool:
        verifier = Verifier(pool, tasks, confirm=1)
        for trial in range(trials):
            rivals = [artifact(f"{trial} {rival}") for rival in range(8)]
            totals = [await verifier.cheap_total(rival) for rival in rivals]
            best = rivals[totals.index(max(totals))]
            accepted += (await verifier.gate(artifact(f"{trial} head"), best, bar)).accepted
    assert accepted / trials <= risk


# -- rankings and budgets -------------------------------------------------------------------------


class Published:
    rendered = "head"


@pytest.mark.asyncio
async def test_ranking_is_where_the_first_known_head_leaves_most_to_win_and_stays():
    case = Case([1.0, 0.5, 0.0, 0.5], [1.0] * 4)
    case.rewards["later", "a"] = 0.0
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks, cheap_tasks=2)

        async def compared_on(head):
            Published.rendered = head
            pool.follow_head(Published())
            await verifier.cheap_total(CANDIDATE)
            return "".join(task.id for task in verifier.ranking)

        assert await verifier.cheap_total(CANDIDATE) == 2.0
        assert verifier.ranking == case.named("ab")
        assert await compared_on("head") == "ab"
        await pool.values("head", case.tasks)
        assert await compared_on("head") == "cb"
        await pool.values("later", case.tasks)
        assert await compared_on("later") == "cb"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fraction", "total", "calls"),
    [(1.0, 1.75, "abc"), (0.5, 1.25, "ab"), (0.01, 0.75, "a")],
)
async def test_cheap_total_sums_over_the_first_part_of_the_ranking(fraction, total, calls):
    case = Case([0.0] * 4, [0.75, 0.5, 0.5, 1.0])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks, cheap_tasks=3)
        assert await verifier.cheap_total(CANDIDATE, fraction) == total
    assert case.calls == list(calls)


@pytest.mark.asyncio
@pytest.mark.parametrize("cheap_tasks", [None, 99])
async def test_ranking_is_the_whole_set_unless_it_is_to_be_smaller(cheap_tasks):
    case = Case([0.0] * 4, [0.75, 0.5, 0.5, 0.25])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks, cheap_tasks=cheap_tasks)
        assert await verifier.cheap_eval(CANDIDATE) == 0.5


@pytest.mark.asyncio
async def test_rewards_of_an_artifact_are_listed_counted_and_averaged():
    case = Case([0.0] * 4, [0.75, 0.5, 0.5, 1.0])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)
        assert await verifier.evaluate(CANDIDATE, case.tasks[:2]) == [0.75, 0.5]
        assert await verifier.eval_counts(CANDIDATE) == (2.75, 1.25)
        assert await verifier.score(CANDIDATE, case.tasks[:2]) == 0.625


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_task_that_cannot_be_scored_is_an_error_outside_a_gate():
    case = Case([0.0], [1.0])
    case.errors["a"] = [OSError("reset")] * 3
    async with case.pool().open() as pool:
        with pytest.raises(EvaluationFailed):
            await Verifier(pool, case.tasks).evaluate(CANDIDATE, case.tasks)


@pytest.mark.asyncio
async def test_oracle_looks_at_every_task_while_its_budget_lasts():
    case = Case([0.0] * 4, [1.0, 0.0, 0.0, 0.0])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks, cheap_tasks=1, oracle_budget=2)
        assert [await verifier.oracle_eval(CANDIDATE) for _ in range(4)] == [0.25, 0.25, 1.0, 1.0]
    assert verifier.budget == VerifierBudget(0, 2)


def test_spent_budget_stays_spent():
    budget = VerifierBudget(1)
    assert budget.can_spend()
    assert [budget.spend() for _ in range(3)] == [True, False, False]
    assert not budget.can_spend()
    assert (budget.oracle_calls_remaining, budget.oracle_calls_used) == (0, 1)


@pytest.mark.asyncio
async def test_methods_block_in_a_synchronous_aggregator():
    case = Case([0.0, 0.0], [1.0, 0.5])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)

        def step():
            verdict = verifier.gate(HEAD, CANDIDATE, BAR)
            return (
                verdict.accepted,
                verifier.cheap_total(CANDIDATE),
                verifier.score(HEAD, case.tasks),
            )

        assert await invoke(step) == (True, 1.5, 0.0)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_cancelled_gate_withdraws_its_requests():
    case = Case([0.0] * 3, [1.0] * 3)
    async with case.pool(width=1).open() as pool:
        await pool.values("head", case.tasks)
        case.latency = 1.0
        case.calls.clear()
        with anyio.move_on_after(1.5):
            await Verifier(pool, case.tasks).gate(HEAD, CANDIDATE, BAR)
        await anyio.sleep(5)
    assert case.calls == ["a", "b"]


@pytest.mark.asyncio
async def test_a_second_reward_is_measured_once_and_counts_in_the_value():
    case = Case([0.0, 0.0], [1.0, 1.0])
    async with case.pool().open() as pool:
        verifier = Verifier(pool, case.tasks)
        assert await verifier.evaluate(HEAD, case.tasks) == [0.0, 0.0]
        case.rewards["head", "a"] = 1.0
        assert await verifier.second(HEAD, case.tasks) == [1.0, 0.0]
        assert await verifier.second(HEAD, case.tasks) == [1.0, 0.0]
        assert await verifier.evaluate(HEAD, case.tasks) == [0.5, 0.0]
    assert sorted(case.calls) == ["a", "a", "b", "b"]


@pytest.mark.asyncio
async def test_a_second_reward_is_the_mean_of_as_many_runs_as_the_first():
    case = Case([1.0], [1.0])
    async with case.pool(repeats=2).open() as pool:
        verifier = Verifier(pool, case.tasks)
        await verifier.evaluate(HEAD, case.tasks)
        case.rewards["head", "a"] = 0.0
        assert await verifier.second(HEAD, case.tasks) == [0.0]
        assert await verifier.evaluate(HEAD, case.tasks) == [0.5]
    assert case.calls == ["a"] * 4
