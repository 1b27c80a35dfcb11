"""Optimizers of one's own, from scratch: the ledger and the verifier as they see them."""

from dataclasses import replace

import anyio
import pytest

from agentdescent import ContractError, MergeReport, async_evolve
from agentdescent.core.artifact import Contract
from agentdescent.errors import CASConflict, ContractRejected, LedgerBusy
from agentdescent.ledger import MemoryLedger
from support.toy import HiddenRules, final_rules


class FromScratch:
    """Keeps its cards and what it was built with."""

    def __init__(self, ledger, verifier, audit, config, policy):
        self.ledger, self.verifier, self.cards = ledger, verifier, []

    def ingest(self, card):
        self.cards.append(card)


def report(version, **facts):
    return MergeReport("artifact", committed_version=version, category="committed", **facts)


class Descent(FromScratch):
    """Applies every diff unseen; validates every second step and goes back if nothing was won.

    Plain methods: the ledger and the verifier block and return values.
    """

    checkpoint = None
    steps = 0

    def step(self):
        head = self.ledger.snapshot("dev").get("artifact")
        if self.checkpoint is None:
            self.checkpoint = (head, self.verifier.cheap_eval(head))
        self.steps += 1
        cards, self.cards = self.cards, []
        for card in cards:
            head = head.apply(card.diff)
        reports = []
        if cards:
            base = self.ledger.snapshot("dev").version
            _, version = self.ledger.commit(head, base, message="step")
            reports.append(report(version))
        if self.steps % 2 == 0:
            reports += self.validate()
        return reports

    def validate(self):
        snapshot = self.ledger.snapshot("dev")
        head = snapshot.get("artifact")
        solved, _ = self.verifier.eval_counts(head)
        kept, best = self.checkpoint
        if solved / len(self.verifier.held_out) > best:
            self.checkpoint = (head, solved / len(self.verifier.held_out))
            return []
        _, version = self.ledger.commit(kept, snapshot.version, message="back to the checkpoint")
        return [report(version)]


async def evolve_with(evolve, world, factory, **options):
    return await evolve(
        **world.parts,
        aggregator_factory=factory,
        **options,
    )


@pytest.mark.asyncio
async def test_a_synchronous_descent_applies_validates_and_goes_back(evolve_under):
    class Harmful(HiddenRules):
        """Its last proposals do nothing, so that validation takes them back."""

        async def propose(self, rendered, task, output, reward):
            wanted = await super().propose(rendered, task, output, reward)
            return wanted if self.count("propose") < 9 else f"noise {self.count('propose')}"

    world = Harmful(rules=3, per_rule=8, run_s=0.001)

    result = await evolve_with(evolve_under, world, Descent, self_verify=False, rounds=10)

    assert result.error is None
    assert result.final_reward == 1.0
    assert result.version > 2
    assert result.history[-1].held_out_reward == result.final_reward


class Asks(FromScratch):
    """Commits once, then tries everything the ledger must refuse, and notes the answers."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.answers = []

    async def step(self):
        if self.answers or not self.cards:
            return []
        snapshot = await self.ledger.snapshot()
        head = snapshot.get("artifact")
        candidate = head.apply(self.cards[0].diff)
        name, version = await self.ledger.commit(candidate, snapshot.version, message="by hand")
        for error, artifact, base, branch in [
            (CASConflict, candidate, snapshot.version, "dev"),
            (CASConflict, candidate, {}, "dev"),
            (ContractError, candidate, {"artifact": version}, "stable"),
            (ContractError, replace(candidate, id="other"), {"other": 1}, "dev"),
            (
                ContractRejected,
                replace(candidate, contract=Contract(major=2)),
                {"artifact": 2},
                "dev",
            ),
        ]:
            with pytest.raises(error):
                await self.ledger.commit(artifact, base, branch)
        promoted = await self.ledger.promote_to_stable("artifact")
        stable = (await self.ledger.snapshot("stable")).get("artifact")
        self.answers = [
            len(name) >= 7,
            version,
            await self.ledger.head_version(),
            await self.ledger.promote_to_stable("unknown"),
            promoted,
            dict(stable.state) == dict(candidate.state),
            (await self.ledger.log(limit=2))[0].split(" ", 1)[1],
            self.ledger.lag(self.cards[0]),
            await stable.score(self.verifier.held_out),
        ]
        return [report(version)]


@pytest.mark.asyncio
async def test_the_ledger_refuses_what_would_part_it_from_the_head(evolve_under):
    world = HiddenRules(rules=2, run_s=0.001)
    made = []

    def factory(*parts):
        made.append(Asks(*parts))
        return made[0]

    result = await evolve_with(evolve_under, world, factory, n_workers=1)

    assert made[0].answers == [
        True,
        2,
        {"artifact": 2},
        None,
        2,
        True,
        "by hand into artifact (v1 -> v2)",
        1,
        0.4,
    ]
    assert result.final_reward == 0.4


class Busy(MemoryLedger):
    """Somebody else holds it for the first few commits."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    async def commit(self, entry, base, note):
        if self.times:
            self.times -= 1
            raise LedgerBusy("locked by another process", operation="commit")
        return await super().commit(entry, base, note)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_busy_ledger_is_waited_for(evolve_under):
    world = HiddenRules(run_s=0.1)

    result = await evolve_under(**world.parts, ledger=Busy(2))

    assert (result.error, result.final_reward) == (None, 1.0)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_ledger_that_stays_busy_ends_the_run(evolve_under):
    world = HiddenRules(run_s=0.1)

    with pytest.warns(RuntimeWarning, match="stopped early.*LedgerBusy"):
        result = await evolve_under(
            **world.parts,
            rounds=50,
            ledger=Busy(99),
        )

    assert result.error.startswith("LedgerBusy: ")
    assert "git" in result.error


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_failed_last_promotion_is_told_and_costs_nothing_else(evolve_under):
    class NoPromotion(MemoryLedger):
        async def promote(self, artifact_id):
            raise LedgerBusy("locked", operation="promote")

    world = HiddenRules(run_s=0.1)
    with pytest.warns(RuntimeWarning, match="last promotion failed with LedgerBusy"):
        result = await evolve_under(
            **world.parts,
            target_reward=1.0,
            ledger=NoPromotion(),
        )

    assert (result.stop_reason, result.error, result.final_reward) == ("target_reward", None, 1.0)


@pytest.mark.asyncio
async def test_two_runs_on_one_ledger_keep_the_rules_of_both(evolve_under, tmp_path):
    worlds = [HiddenRules(rules=2, per_rule=8, run_s=0.002) for _ in range(2)]
    for index, world in enumerate(worlds):
        world.prefix = f"w{index}"
    results = []

    async def evolve(world):
        async def propose(rendered, task, output, reward):
            return f"{task.meta['rule']} of {world.prefix}"

        async def reward(task, output):
            return float(f"{task.meta['rule']} of {world.prefix}" in output)

        results.append(
            await evolve_under(
                world.tasks, reward, run=world.run, propose=propose, repo_path=tmp_path, rounds=12
            )
        )

    async with anyio.create_task_group() as group:
        for world in worlds:
            group.start_soon(evolve, world)

    newest = max(results, key=lambda result: result.version)
    assert final_rules(newest.rendered) == [
        f"rule{rule} of w{index}" for rule in range(2) for index in range(2)
    ]
    assert [result.error for result in results] == [None, None]


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_a_run_that_cannot_measure_its_final_version_says_so():
    class Blind(FromScratch):
        """Commits the only diff it gets and never measures anything."""

        async def step(self):
            if not self.cards:
                return []
            card = self.cards.pop()
            snapshot = await self.ledger.snapshot()
            head = snapshot.get("artifact").apply(card.diff)
            _, version = await self.ledger.commit(head, snapshot.version)
            return [report(version)]

    world = HiddenRules(rules=1, per_rule=10)
    seed_calls, round_calls = 4, 2

    with pytest.warns(RuntimeWarning, match="could not be measured"):
        result = await async_evolve(
            **world.parts,
            self_verify=False,
            asynchronous=False,
            n_workers=1,
            max_calls=seed_calls + round_calls,
            aggregator_factory=Blind,
            ledger=MemoryLedger(),
        )

    assert (result.stop_reason, result.version, result.final_reward) == ("max_calls", 2, 0.0)
