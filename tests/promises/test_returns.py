"""What `evolve` returns, and what it tells while it goes on."""

import logging

import pytest

from agentdescent import (
    Aggregator,
    AggregatorConfig,
    AppendRules,
    Diff,
    EvolutionResult,
    MergeReport,
    SingleSlot,
    async_evolve,
    evolve,
    get_policy,
)
from agentdescent.errors import CASConflict
from agentdescent.ledger import MemoryLedger
from support import pens
from support.pens import Plain, agent, reward, tasks


def test_everything_a_run_came_to(caplog):
    caplog.set_level(logging.INFO, "agentdescent")

    result = evolve(tasks, reward, agent=agent, rounds=6, verbose=True)

    assert result.rendered == f"# Playbook\n- {pens.RULE}"
    assert list(result.state.values()) == [pens.RULE]
    assert result.final_reward == 1.0
    assert [info.held_out_reward for info in result.history] == [1.0] * 6
    assert result.outcomes() == {"committed": 1}
    assert [line.split(" ", 2)[1] for line in result.ledger_log] == ["merge", "register", "genesis"]
    assert result.error is None
    assert sum(record.message.startswith("round ") for record in caplog.records) == 6


def unhelpful(rendered, task, out, score):
    return f"a rule for {task.id} that helps nobody"


class TestOutcomes:
    """Why did nothing commit? One test a category, brought about by its cause."""

    def learn(self, *, propose=unhelpful, **options):
        options = {"rounds": 2, "n_workers": 2, "self_verify": False, **options}
        return evolve(
            tasks,
            reward,
            run=lambda rendered, task: pens.answer(rendered, task.prompt),
            propose=propose,
            **options,
        ).outcomes()

    def test_committed(self):
        assert self.learn(propose=lambda *_: "Count in cents.", rounds=1) == {"committed": 1}

    def test_below_threshold_when_proposals_do_not_help(self):
        assert self.learn() == {"below-threshold": 2}

    def test_all_stale_when_the_world_moved_on_first(self):
        numbers = iter(range(99))

        outcomes = evolve(
            tasks,
            lambda task, output: min(1.0, output.count("rule") / 50),
            run=lambda rendered, task: rendered,
            propose=lambda rendered, task, out, score: f"rule {next(numbers)}",
            agg_config=AggregatorConfig(alpha_tail=0, lag="version"),
            staleness_policy=get_policy("guarded"),
            refresh_interval=3,
            n_workers=1,
            rounds=3,
        ).outcomes()

        assert outcomes == {"committed": 1, "all-stale": 2}

    @pytest.mark.parametrize("limits", [{"trust_region_chars": 10}, {"trust_region_ops": 1}])
    def test_oversized_when_whole_documents_are_proposed(self, limits):
        class Pages(AppendRules):
            def to_diff(self, state, proposal, author, base_version, target):
                return Diff(author, target, {"page 1": proposal, "page 2": proposal})

        assert self.learn(strategy=Pages(), agg_config=AggregatorConfig(**limits)) == {
            "oversized": 2
        }

    def test_cas_conflict_when_a_race_was_lost_and_the_evidence_is_filed_again(self):
        class Contended(MemoryLedger):
            losses = 3

            async def commit(self, entry, base, note):
                if self.losses:
                    self.losses -= 1
                    raise CASConflict("another writer was first")
                return await super().commit(entry, base, note)

        result = evolve(
            tasks,
            reward,
            agent=agent,
            ledger=Contended(),
            agg_config=AggregatorConfig(cas_attempts=3, cas_backoff=0.0),
            n_workers=1,
            rounds=2,
        )

        assert [info.reasons for info in result.history] == [{"cas-conflict": 1}, {"committed": 1}]
        assert result.cas_conflicts == 1
        assert result.final_reward == 1.0

    def test_oracle_rejected_when_the_audit_vetoes(self):
        assert self.learn(blast_radius=0.6) == {"oracle-rejected": 2}

    def test_unknown_artifact_when_a_diff_targets_another(self):
        class Lost(AppendRules):
            def to_diff(self, state, proposal, author, base_version, target):
                return super().to_diff(state, proposal, author, base_version, "elsewhere")

        assert self.learn(strategy=Lost()) == {"unknown-artifact": 2}

    def test_proposals_that_never_became_candidates_have_categories_of_their_own(self):
        answers = iter([None, "", "  ", pens.RULE.lower(), "worthless"] * 9)

        outcomes = evolve(
            tasks,
            lambda task, output: 0.0,
            run=lambda rendered, task: rendered,
            propose=lambda *_: next(answers),
            initial_state={"rule": "x"},
            strategy=SingleSlot(key="rule", min_chars=2),
            n_workers=1,
            rounds=5,
        ).outcomes()

        assert outcomes == {"no-proposal": 3, "no-gain": 2}

    def test_each_round_has_the_same_tally(self):
        plain = Plain()

        result = evolve(tasks, plain.reward, agent=plain, n_workers=2, rounds=5)

        total = {}
        for info in result.history:
            for category, count in info.reasons.items():
                total[category] = total.get(category, 0) + count
        assert result.outcomes() == total


class TestHistory:
    def test_how_each_round_ended_the_way_it_did(self, capsys):
        plain = Plain()

        result = evolve(tasks, plain.reward, agent=plain, n_workers=3, rounds=2)

        for h in result.history:
            print(h.round, h.considered, h.discarded_stale, h.conflicts_dropped, h.fused)

        assert capsys.readouterr().out == "0 3 0 0 1\n1 0 0 0 0\n"

    def test_two_values_for_one_key_are_a_conflict(self):
        plain, told = Plain(), []

        evolve(
            tasks,
            plain.reward,
            agent=plain,
            strategy=SingleSlot(),
            n_workers=3,
            rounds=1,
            on_round=told.append,
        )

        (info,) = told
        assert (info.considered, info.conflicts_dropped, info.fused) == (3, 2, 0)

    def test_a_fusion_that_did_not_commit_does_not_count(self):
        class Undecided(Aggregator):
            async def step(self):
                return [MergeReport("artifact", fused=True, considered=3, category="too-soon")]

            async def flush(self):
                return []

        result = evolve(tasks, reward, agent=agent, aggregator_factory=Undecided, rounds=1)

        assert (result.history[0].considered, result.history[0].fused) == (3, 0)
        assert result.history[0].reasons["too-soon"] == 1

    def test_five_rounds_are_exactly_five_entries(self):
        result = evolve(tasks, reward, agent=agent, rounds=5)

        assert [info.round for info in result.history] == [0, 1, 2, 3, 4]

    @pytest.mark.asyncio
    async def test_without_barriers_there_is_one_entry_a_sweep(self):
        plain, told = Plain(), []

        result = await async_evolve(
            tasks, plain.reward, agent=plain, max_iters=60, on_round=told.append
        )

        assert [info.round for info in result.history] == list(range(len(told)))
        assert 1 <= len(told) < 60
        assert result.history[-1].held_out_reward == result.final_reward == 1.0

    def test_its_counters_only_ever_grow(self):
        plain = Plain()

        result = evolve(tasks, plain.reward, agent=plain, rounds=6)

        for counter in ("elapsed_s", "rollouts", "calls"):
            values = [getattr(info, counter) for info in result.history]
            assert values == sorted(values)
            assert values[-1] > 0
        assert result.rollouts == result.history[-1].rollouts == 24
        assert result.actor_calls == plain.calls


class TestOnRound:
    def test_watch_a_long_run_as_it_happens(self, capsys):
        evolve(tasks, reward, agent=agent, rounds=20,
               on_round=lambda info: print(info.round, info.held_out_reward))  # fmt: skip

        assert capsys.readouterr().out == "".join(f"{number} 1.0\n" for number in range(20))

    def test_it_may_wait(self):
        told = []

        async def tell(info):
            told.append(info.round)

        evolve(tasks, reward, agent=agent, rounds=3, on_round=tell)

        assert told == [0, 1, 2]

    @pytest.mark.parametrize("last", [False, True])
    def test_an_exception_in_it_is_a_warning_and_never_ends_the_run(self, last):
        def tell(info):
            if info.round == (2 if last else 0):
                raise OSError("the disk with the log is full")

        with pytest.warns(RuntimeWarning, match=r"on_round raised OSError: the disk.*in round"):
            result = evolve(tasks, reward, agent=agent, rounds=3, on_round=tell)

        assert len(result.history) == 3
        assert result.error is None
        assert result.final_reward == 1.0


def test_the_artifact_of_a_run_can_be_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = evolve(tasks, reward, agent=agent, rounds=2)

    result.save("playbook.json")  # state + rendered + history + error # fmt: skip
    restored = EvolutionResult.load("playbook.json")

    assert restored == result
    assert (restored.state, restored.rendered) == (result.state, result.rendered)
    assert (restored.history, restored.error) == (result.history, None)
