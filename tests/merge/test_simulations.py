"""What the rules of merging come to on average: calls, harm, and false commits.

Small hidden worlds with known answers, the real verifier and its pool, fixed seeds.
"""

from ast import literal_eval
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from statistics import fmean

import pytest

from agentdescent.core.task import Task
from agentdescent.evaluate.memo import Memo
from agentdescent.evaluate.pool import EvaluationPool
from agentdescent.evaluate.verifier import Verifier
from support.merging import make_bench

RULES, PER_RULE, KNOWN = 20, 2, 8
N_TASKS = RULES * PER_RULE


@asynccontextmanager
async def verifying(reward, n_tasks):
    """The real verifier over `reward(rendered, task index)`; the list of calls grows."""
    calls = []

    async def run(rendered, task, *, leash=None):
        calls.append(task.id)
        return rendered

    async def score(task, output, *, leash=None):
        return reward(output, int(task.id))

    tasks = [Task(str(i), f"task {i}") for i in range(n_tasks)]
    pool = EvaluationPool(run, score, Memo(run, score), width=1, jitter=Random(0))
    async with pool.open():
        yield Verifier(pool, tasks), calls


# --- one batch of good, harmful and useless edits


@cache
def parsed(rendered):
    """(rules, broken tasks) of a rendered state."""
    keys = [key for key, _ in literal_eval(rendered)]
    rules = {int(key[4:]) for key in keys if key.startswith("rule")}
    broken = {int(i) for key in keys if key.startswith("harm") for i in key.split("-")[2:]}
    return rules, broken


def follows_rules(rendered, task):
    rules, broken = parsed(rendered)
    return float(task % RULES in rules and task not in broken)


@dataclass
class Tally:
    calls: list = field(default_factory=list)
    harmful: int = 0  # batches that let any in
    present: int = 0
    committed: int = 0


def edits(random, n, good, harmful):
    """Keys to set: rules that are missing, edits that break solved tasks, and idle ones."""
    solved = [task for task in range(N_TASKS) if task % RULES < KNOWN]
    for i in range(n):
        kind = random.random()
        if kind < good:
            yield f"rule{random.randrange(KNOWN, RULES)}"
        elif kind < good + harmful:
            broken = random.sample(solved, random.choice([2, 3]))
            yield f"harm-{i}-{'-'.join(map(str, broken))}"
        else:
            yield f"idle{i}"


async def merge_batches(n, *, batches, good, harmful):
    random, tally = Random(7), Tally()
    for _ in range(batches):
        at = make_bench(state={f"rule{rule}": "on" for rule in range(KNOWN)})
        async with verifying(follows_rules, N_TASKS) as (at.verifier, calls):
            await at.verifier.evaluate(at.head, at.verifier.held_out)
            calls.clear()
            keys = list(edits(random, n, good, harmful))
            await at.run(at.aggregator(), *(at.card({key: "on"}) for key in keys))
        tally.calls.append(len(calls))
        rules = {key for key in keys if key.startswith("rule")}
        tally.harmful += any(key.startswith("harm") for key in at.head.state)
        tally.present += len(rules)
        tally.committed += len(rules & at.head.state.keys())
    return tally


@pytest.mark.parametrize(
    ("n", "calls", "batches"), [(4, 62, 200), (8, 83, 120), (16, 114, 80), (64, 278, 40)]
)
@pytest.mark.asyncio
async def test_a_batch_costs_few_calls_lets_no_harm_in_and_no_good_rule_out(n, calls, batches):
    tally = await merge_batches(n, batches=batches, good=0.70, harmful=0.15)

    assert fmean(tally.calls) == pytest.approx(calls, rel=0.15)
    assert tally.harmful == 0
    assert tally.committed >= 0.99 * tally.present


@pytest.mark.parametrize(("n", "calls", "batches"), [(4, 46, 200), (16, 95, 80)])
@pytest.mark.asyncio
async def test_a_batch_of_mostly_useless_edits_costs_few_calls_too(n, calls, batches):
    tally = await merge_batches(n, batches=batches, good=0.30, harmful=0.10)

    assert fmean(tally.calls) == pytest.approx(calls, rel=0.15)
    assert tally.harmful == 0
    assert tally.committed >= 0.99 * tally.present


# --- rewards that are nothing but noise


def noise(seed, sd):
    """A reward around one half that depends on nothing; equal texts draw equal values."""

    def reward(rendered, task):
        return min(1.0, max(0.0, Random(f"{seed}{rendered}{task}").gauss(0.5, sd)))

    return reward


async def false_commits(*, rivals, version, trials, n_tasks=20, **knobs):
    """The share of merges that commit one of `rivals` contradicting edits of no worth."""
    committed = 0
    for seed in range(trials):
        at = make_bench(version=version)
        async with verifying(noise(seed, sd=0.1), n_tasks) as (at.verifier, _):
            cards = [at.card(k=f"value {i}", base=version) for i in range(rivals)]
            report = await at.run(at.aggregator(**knobs), *cards)
        committed += report.category == "committed"
    return committed / trials


@pytest.mark.parametrize(("version", "delta"), [(1, 0.495), (64, 0.25), (128, 0.125)])
@pytest.mark.parametrize(("rivals", "trials"), [(1, 300), (4, 150), (8, 80)])
@pytest.mark.asyncio
async def test_noise_is_committed_no_more_often_than_is_accepted(rivals, trials, version, delta):
    rate = await false_commits(rivals=rivals, version=version, trials=trials)

    two_errors = 2 * (delta * (1 - delta) / trials) ** 0.5
    assert rate <= (delta + two_errors if rivals == 1 else delta)


@pytest.mark.asyncio
async def test_without_the_correction_the_best_of_several_looks_better_than_it_is():
    rate = await false_commits(rivals=4, version=128, trials=80, multiplicity="none")

    assert rate > 1.5 * 0.125


# --- edits that change nothing


@pytest.mark.asyncio
async def test_of_500_idle_edits_alone_none_is_committed():
    at = make_bench(state={f"rule{rule}": "on" for rule in range(KNOWN)})
    async with verifying(follows_rules, N_TASKS) as (at.verifier, _):
        aggregator = at.aggregator()
        for i in range(500):
            report = await at.run(aggregator, at.card({f"idle{i}": "on"}))
            assert report.category == "below-threshold"

    assert at.head.version == 1


@pytest.mark.asyncio
async def test_of_500_idle_edits_beside_good_ones_none_is_committed_once_verified():
    at = make_bench(state={f"rule{rule}": "on" for rule in range(KNOWN)})
    async with verifying(follows_rules, N_TASKS) as (at.verifier, _):
        aggregator = at.aggregator()
        for rule in range(KNOWN, RULES):
            idle = [at.card({f"idle{rule}-{i}": "on"}, gain=0.0) for i in range(42)]
            good = at.card({f"rule{rule}": "on"}, gain=1.0, base=at.head.version)
            report = await at.run(aggregator, *idle[:21], good, *idle[21:])
            assert report.accepted.ops == {f"rule{rule}": "on"}

    assert aggregator.screened == 42 * (RULES - KNOWN) > 500
    assert at.head.state.keys() == {f"rule{rule}" for rule in range(RULES)}
