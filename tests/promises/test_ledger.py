"""Where a run lives: resuming, the scratch ledger, and the split of the tasks."""

import math

import pytest

from agentdescent import RewardContractError, SingleSlot, Task, evolve
from support import pens
from support.pens import Plain, agent, reward, tasks


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Mortal(Plain):
    """Breaks down after so many rewards."""

    def __init__(self, lifetime):
        super().__init__()
        self.lifetime = lifetime

    async def reward(self, task, output):
        self.lifetime -= 1
        return 47 if self.lifetime < 0 else await super().reward(task, output)


class TestResuming:
    def test_the_second_call_picks_up_what_the_first_one_committed(self):
        mortal, plain = Mortal(lifetime=20), Mortal(lifetime=math.inf)

        with pytest.raises(RewardContractError) as died:
            evolve(
                tasks, mortal.reward, agent=mortal, rounds=10, n_workers=1, repo_path="runs/finer"
            )  # dies
        result = evolve(
            tasks, plain.reward, agent=plain, rounds=10, repo_path="runs/finer"
        )  # picks up the artifact

        saved = died.value.partial_result
        assert saved.state
        assert saved.state.items() < result.state.items()
        assert result.initial_reward == saved.final_reward > 0
        assert result.final_reward == 1.0

    def test_its_rounds_come_on_top(self):
        first = evolve(tasks, reward, agent=agent, rounds=2, repo_path="runs/finer")
        second = evolve(tasks, reward, agent=agent, rounds=3, repo_path="runs/finer")

        assert (len(first.history), len(second.history)) == (2, 3)
        assert [info.round for info in second.history] == [0, 1, 2]
        assert (first.version, second.version) == (2, 2)
        assert second.rollouts == 12
        assert [line for line in second.ledger_log if " merge " in line] == [
            line for line in first.ledger_log if " merge " in line
        ]

    def test_what_the_strategy_would_begin_with_no_longer_matters(self):
        evolve(tasks, reward, agent=agent, strategy=SingleSlot("Answer."), repo_path="runs/finer")

        result = evolve(
            tasks,
            reward,
            agent=agent,
            strategy=SingleSlot("You are a helpful assistant."),
            rounds=1,
            repo_path="runs/finer",
        )

        assert result.initial_reward == 1.0
        assert result.rendered == pens.RULE

    def test_a_first_state_is_ignored_with_a_warning(self):
        evolve(tasks, reward, agent=agent, rounds=2, repo_path="runs/finer")

        with pytest.warns(RuntimeWarning, match=r"initial_state is ignored: runs.finer holds"):
            result = evolve(
                tasks,
                reward,
                agent=agent,
                initial_state={"rule": "begin anew"},
                rounds=1,
                repo_path="runs/finer",
            )

        assert "begin anew" not in result.rendered
        assert result.initial_reward == 1.0

    @pytest.mark.parametrize(("first", "second"), [(0.2, 0.6), (0.6, 0.2)])
    def test_governance_is_never_loosened_by_it(self, first, second):
        useless = {
            "run": lambda rendered, task: rendered,
            "propose": lambda rendered, task, out, score: f"a rule for {task.id} that helps nobody",
            "self_verify": False,
            "rounds": 1,
            "repo_path": "runs/finer",
        }
        evolve(tasks, reward, **useless, blast_radius=first)

        with pytest.warns(RuntimeWarning, match=f"blast_radius={second} differs.*stricter"):
            result = evolve(tasks, reward, **useless, blast_radius=second)

        assert set(result.outcomes()) == {"oracle-rejected"}

    def test_a_fresh_path_starts_over(self):
        evolve(tasks, reward, agent=agent, rounds=2, repo_path="runs/finer")

        result = evolve(
            tasks,
            reward,
            agent=agent,
            initial_state={"rule": "begin anew"},
            rounds=1,
            repo_path="runs/anew",
        )

        assert result.initial_reward == 0.0

    @pytest.mark.filterwarnings("ignore:max_seconds=None becomes 20")
    def test_either_schedule_goes_on_where_the_other_stopped(self):
        plain = Plain()
        learn = {"agent": plain, "repo_path": "runs/finer", "strategy": None}

        first = evolve(tasks, plain.reward, **learn, n_workers=1, rounds=1)
        second = evolve(tasks, plain.reward, **learn, asynchronous=True)

        assert 0 < first.final_reward < 1
        assert second.initial_reward == first.final_reward
        assert second.final_reward == 1.0


class TestScratch:
    def test_without_a_path_the_ledger_is_gone_when_the_run_returns(self, private_scratch):
        during = []

        evolve(
            tasks,
            reward,
            agent=agent,
            rounds=1,
            on_round=lambda info: during.extend(private_scratch.glob("agentdescent-*")),
        )

        assert len(during) == 1
        assert list(private_scratch.glob("agentdescent-*")) == []

    def test_it_is_gone_as_well_when_the_run_raises(self, private_scratch):
        mortal = Mortal(lifetime=20)

        with pytest.raises(RewardContractError):
            evolve(tasks, mortal.reward, agent=mortal)

        assert list(private_scratch.glob("agentdescent-*")) == []

    def test_git_settings_of_the_user_do_not_reach_the_ledger(self, tmp_path, monkeypatch):
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        for name in ("pre-commit", "commit-msg", "reference-transaction"):
            hook = hooks / name
            hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
            hook.chmod(0o755)
        settings = tmp_path / ".gitconfig"
        settings.write_text(
            f"[commit]\n\tgpgsign = true\n[core]\n\thooksPath = {hooks}\n", encoding="utf-8"
        )
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))

        result = evolve(tasks, reward, agent=agent, rounds=1)

        assert result.error is None
        assert result.version == 2


GROUPED = [Task(str(number), "", {"class": "a" if number < 12 else "b"}) for number in range(20)]


class TestSplit:
    def held_out(self, **options):
        """How many tasks of each class are held out; those alone are run here."""
        seen = []

        def run(rendered, task):
            seen.append(task.meta["class"])

        evolve(
            GROUPED,
            lambda task, output: 1.0,
            run=run,
            propose=lambda *_: None,
            target_reward=1.0,
            **options,
        )
        return f"{seen.count('a')}/{seen.count('b')}"

    def test_the_last_tasks_are_held_out_in_the_order_given(self):
        assert self.held_out() == "0/8"
        assert self.held_out(seed=1) == "0/8"

    def test_shuffled_tasks_hold_out_some_of_every_class(self):
        assert self.held_out(shuffle=True, seed=1) == "5/3"

    def test_a_seeded_shuffle_is_reproducible(self):
        assert self.held_out(shuffle=True, seed=4) == self.held_out(shuffle=True, seed=4)

    @pytest.mark.parametrize(("frac", "split"), [(0.2, "0/4"), (0.5, "2/8"), (0.9, "10/8")])
    def test_the_share_is_yours_to_choose(self, frac, split):
        assert self.held_out(held_out_frac=frac) == split

    def test_fewer_than_four_held_out_tasks_are_worth_a_warning(self):
        with pytest.warns(RuntimeWarning, match=r"rests on 1 held-out task"):
            assert self.held_out(held_out_frac=0.05) == "0/1"
