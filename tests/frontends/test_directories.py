"""Directories that evolve in one call, and are written back if the test part says so."""

import json
import sys

import pytest

from agentdescent import (
    BeforeAfter,
    Dataset,
    Evolved,
    async_evolve_agent_code,
    async_evolve_agent_dir,
    async_evolve_skill_dir,
    cli_agent,
    evolve_agent_code,
    evolve_agent_dir,
    evolve_skill_dir,
)
from agentdescent.errors import TreeError
from agentdescent.frontends import PYTEST, Origin
from agentdescent.trees import TreeSpec, canonical, load_tree, publishing

from .conftest import CENTS, MAIN, Looking, in_cents, tasks

PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CHECK = [sys.executable, "-S", "tests/check.py"]
RUN = [sys.executable, "-S", "main.py"]
FIXED = MAIN.replace("* 10)", "* 100)")
FIX = f'<EDITS>{{"edits": [{{"path": "main.py", "content": {json.dumps(FIXED)}}}]}}</EDITS>'


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def the_skill(path, agent, **options):
    return evolve_skill_dir(path, in_cents(20), agent=agent, score="exact", **options)


class TestSkill:
    def test_learns_and_leaves_the_directory_alone(self, skill, agent):
        before = contents(skill)

        result = the_skill(skill, agent)

        assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
        assert (result.test.before, result.test.after) == (0.0, 1.0)
        assert dict(result.state) == {"SKILL.md": "Use cents."}
        assert result.written is None
        assert contents(skill) == before

    def test_is_written_back_with_a_backup_and_a_note(self, skill, agent, tmp_path):
        result = the_skill(skill, agent, write_back=True, repo_path=tmp_path / "ledger")

        backup = tmp_path / "price list.bak-1"
        assert result.written["written"] == ["SKILL.md"]
        assert result.written["backup"] == str(backup)
        assert contents(skill) == {"SKILL.md": b"Use cents.", "logo.png": b"\0"}
        assert contents(backup) == {"SKILL.md": b"Use dollars.", "logo.png": b"\0"}
        assert json.loads((tmp_path / "price list.bak-1.json").read_text()) == {
            "version": 2,
            "held_out": {"before": 0.0, "after": 1.0},
            "test": {"before": 0.0, "after": 1.0, "tasks": 4},
            "ledger": str(tmp_path / "ledger"),
        }

    def test_what_makes_the_test_part_worse_is_not_written_back(self, skill, agent):
        before = contents(skill)
        ids = {str(n) for n in range(1, 17)}

        def only_there(task, output):
            return float((output == task.meta["gold"]) == (task.id in ids))

        parts = tasks(20)
        data = Dataset(parts[:10], parts[10:16], parts[16:])
        with pytest.warns(RuntimeWarning, match="nothing was written back: test reward 1.000 -> 0"):
            result = evolve_skill_dir(skill, data, agent=agent, score=only_there, write_back=True)

        assert result.final_reward == 1.0
        assert result.test.is_worse
        assert not result.is_supported
        assert result.written is None
        assert contents(skill) == before

    def test_a_directory_that_changed_meanwhile_is_not_touched(self, skill, agent):
        def changing(rendered, task, output, reward):
            (skill / "SKILL.md").write_text("Use euros.")
            return CENTS

        with pytest.warns(RuntimeWarning, match="has changed since the run began"):
            result = the_skill(skill, agent, write_back=True, propose=changing)

        assert result.written is None
        assert contents(skill)["SKILL.md"] == b"Use euros."
        assert result.test.after == 1.0

    def test_the_agent_finds_the_skill_under_its_name(self, skill, agent):
        looking = Looking()

        evolve_skill_dir(skill, in_cents(20), agent=looking, propose=lambda *_: None, rounds=1)

        assert looking.seen[0] == [".claude/skills/price-list/SKILL.md"]

    def test_by_default_the_agent_reflects_far_from_the_skill(self, skill, tmp_path):
        program = tmp_path / "other.py"
        program.write_text(
            "import pathlib, sys\nprompt = sys.stdin.read()\n"
            "print(CENTS if 'EDITS' in prompt and not any(pathlib.Path('.').iterdir())"
            " else prompt.split()[0])".replace("CENTS", repr(CENTS))
        )
        agent = cli_agent([sys.executable, "-S", program], via_stdin=True)

        for reflect_with in (None, agent):
            result = the_skill(skill, agent, reflect_with=reflect_with, rounds=1)
            assert result.outcomes() == {"below-threshold": 1}  # so it was tried

    @pytest.mark.asyncio
    @pytest.mark.parametrize("door", [async_evolve_skill_dir, async_evolve_agent_dir])
    async def test_the_asynchronous_doors(self, skill, agent, door):
        result = await door(skill, in_cents(20), agent=agent, score="exact")

        assert result.test.after == 1.0

    def test_agent_definitions_lie_where_agents_look_for_them(self, skill, agent):
        looking = Looking()

        evolve_agent_dir(skill, in_cents(20), agent=looking, propose=lambda *_: None, rounds=1)

        assert looking.seen[0] == [".claude/agents/SKILL.md"]


class TestRefusals:
    def test_writing_back_needs_a_test_part(self, skill, agent):
        with pytest.raises(ValueError, match="needs a test split"):
            the_skill(skill, agent, write_back=True, split=(0.6, 0.4, 0.0))

    def test_the_current_directory_cannot_be_replaced(self, skill, agent, monkeypatch):
        monkeypatch.chdir(skill)

        with pytest.raises(ValueError, match="it is the current directory"):
            the_skill(".", agent, write_back=True)

    def test_a_directory_that_cannot_be_loaded(self, skill, agent):
        with pytest.raises(TreeError, match="no file that is selected"):
            the_skill(skill, agent, spec=TreeSpec(include=("*.txt",)))

    def test_a_ledger_that_went_on_from_other_files(self, skill, agent, tmp_path):
        the_skill(skill, agent, repo_path=tmp_path / "ledger")
        (skill / "SKILL.md").write_text("Use euros.")

        with pytest.raises(TreeError, match="has never held what"):
            the_skill(skill, agent, repo_path=tmp_path / "ledger")

    def test_a_ledger_goes_on_from_what_it_has_held(self, skill, agent, tmp_path):
        first = the_skill(skill, agent, write_back=True, repo_path=tmp_path / "ledger")
        again = the_skill(skill, agent, repo_path=tmp_path / "ledger")

        assert (first.version, again.version) == (2, 2)
        assert (again.initial_reward, again.test.before) == (1.0, 1.0)

    def test_a_program_needs_somebody_who_reflects(self, program):
        with pytest.raises(ValueError, match="nobody reflects on failures"):
            evolve_agent_code(program, in_cents(), entrypoint=RUN, test_cmd=CHECK)

    def test_pytest_cannot_judge_where_it_is_missing(self, program, monkeypatch):
        monkeypatch.setattr("agentdescent.frontends.code.find_spec", lambda name: None)

        with pytest.raises(ValueError, match="pytest is to judge candidates"):
            evolve_agent_code(program, in_cents(), entrypoint=RUN, propose=lambda *_: None)


class TestCode:
    def learn(self, program, proposal=FIX, **options):
        given = {"entrypoint": RUN, "test_cmd": CHECK, "score": "exact", **options}
        return evolve_agent_code(program, in_cents(20), propose=lambda *_: proposal, **given)

    def test_a_program_is_repaired(self, program):
        result = self.learn(program, write_back=True)

        assert (result.initial_reward, result.final_reward, result.test.after) == (0.0, 1.0, 1.0)
        assert (program / "main.py").read_text() == FIXED

    @pytest.mark.asyncio
    async def test_the_asynchronous_door(self, program):
        given = {"entrypoint": RUN, "test_cmd": CHECK, "score": "exact"}

        async def propose(rendered, task, output, reward):
            return FIX

        result = await async_evolve_agent_code(program, in_cents(20), propose=propose, **given)

        assert result.test.after == 1.0

    def test_a_candidate_that_fails_its_tests_scores_nothing(self, program):
        (program / "tests" / "check.py").write_text("import main, sys; sys.exit(1)")

        result = self.learn(program, rounds=1)

        assert result.final_reward == 0.0

    @pytest.mark.parametrize(
        "path", ["tests/check.py", "conftest.py", "a/conftest.py", "pytest.py", "pyproject.toml"]
    )
    def test_nobody_may_touch_what_judges(self, program, path):
        edit = {"path": path, "content": "print('all is well')"}

        result = self.learn(program, f"<EDITS>{json.dumps({'edits': [edit]})}</EDITS>", rounds=1)

        assert set(result.outcomes()) == {"constraint"}

    def test_by_default_pytest_judges(self, program):
        (program / "tests" / "test_main.py").write_text("def test_fine():\n    assert True\n")

        result = self.learn(program, test_cmd=PYTEST, rounds=2, env=PLAIN)

        assert result.test.after == 1.0

    def test_a_model_reads_the_files_and_edits_them(self, program):
        prompts = []

        def model(prompt):
            prompts.append(prompt)
            return FIX

        result = evolve_agent_code(
            program, in_cents(20), entrypoint=RUN, test_cmd=CHECK, reflect_with=model, score="exact"
        )

        assert result.test.after == 1.0
        assert "print(int(sys.argv[1]) * 10)" in prompts[0]


class TestWritingLater:
    @pytest.fixture
    def result(self, skill, tmp_path):
        """What was saved of a run that taught the skill to use cents."""
        tree = {"SKILL.md": "Use cents."}
        result = Evolved(
            state=tree,
            rendered=canonical(tree),
            final_reward=1.0,
            test=BeforeAfter(["a", "b"], [0.0, 0.5], [1.0, 0.5]),
            origin=Origin.of(skill, load_tree(skill), TreeSpec()),
        )
        result.save(tmp_path / "result.json")
        return Evolved.load(tmp_path / "result.json")

    def test_a_saved_result_knows_where_it_belongs(self, result, skill):
        assert (result.test.before, result.test.after, result.is_supported) == (0.25, 0.75, True)
        assert result.write_to()["written"] == ["SKILL.md"]
        assert contents(skill)["SKILL.md"] == b"Use cents."

    def test_a_dry_run_changes_nothing_and_shows_what_would(self, result, skill):
        before = contents(skill.parent)

        plan = result.write_to(dry_run=True)

        assert "-Use dollars." in plan["diff"]
        assert contents(skill.parent) == before

    def test_once_is_enough(self, result, skill):
        result.write_to()

        assert result.write_to()["written"] == []
        assert not (skill.parent / "price list.bak-2").exists()

    def test_a_change_while_it_is_written_is_taken_back(self, result, skill, monkeypatch):
        exchange = publishing._exchange

        def changed_in_time(fresh, target):
            (target / "SKILL.md").write_text("Use euros.")
            monkeypatch.setattr(publishing, "_exchange", exchange)
            exchange(fresh, target)

        monkeypatch.setattr(publishing, "_exchange", changed_in_time)

        with pytest.raises(TreeError, match="has changed since the run began"):
            result.write_to()

        assert contents(skill)["SKILL.md"] == b"Use euros."
        assert [path.name for path in skill.parent.iterdir() if "price" in path.name] == [
            "price list"
        ]

    def test_another_file_in_the_tree_is_a_change(self, result, skill):
        (skill / "more.md").write_text("and more")

        with pytest.raises(TreeError, match="has changed since the run began"):
            result.write_to()

    def test_a_file_outside_of_the_tree_is_none(self, result, skill):
        (skill / "logo.png").write_bytes(b"\1")

        result.write_to()

        assert contents(skill)["logo.png"] == b"\1"

    def test_without_a_backup_there_is_no_note(self, result, skill):
        result.write_to(backup=False)

        assert not list(skill.parent.glob("*.bak-*"))
        assert not list(skill.parent.glob(".price*"))

    def test_a_new_directory_can_always_be_written(self, result, skill, tmp_path):
        (skill / "SKILL.md").write_text("Use euros.")

        plan = result.write_to(tmp_path / "new")

        assert plan["backup"] is None
        assert contents(tmp_path / "new") == {"SKILL.md": b"Use cents."}

    def test_a_text_has_no_directory(self, result):
        result.origin = None

        with pytest.raises(TreeError, match="did not begin with a directory"):
            result.write_to()

    def test_a_result_without_origin_writes_as_any_other(self, result, tmp_path):
        result.origin = None

        assert result.write_to(tmp_path / "there")["written"] == ["SKILL.md"]
