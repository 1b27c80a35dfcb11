"""Versions of an artifact, what changed between them, and the way back to an old one."""

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent import Ledger, Task, evolve
from agentdescent.core.store import CommitNote
from agentdescent.errors import CASConflict, LedgerBusy, LedgerDamaged, RunningLoopError
from agentdescent.errors import NotInLedger as Missing
from agentdescent.ledger import Change, Changes, GitLedger
from agentdescent.ledger.codec import encode
from agentdescent.ledger.history import Message
from support.ledgers import commit, state_of, stored

FIRST = {"SKILL.md": "line one\nline two\n", "gone": "x", "limits": {"n": 1}}
SECOND = {"SKILL.md": "line one\nline 2\n", "gone/not": "y", "limits": {"n": 1}, "k" * 300: "long"}
NOTE = CommitNote("merge w0:1", "It helps.\n\nA lot.", "committed", 3, (0.5, 0.75))


def make(path, *states, artifact_id="skill"):
    """Leave a ledger at `path` with these states of one artifact."""
    anyio.run(amake, path, states, artifact_id)


async def amake(path, states, artifact_id):
    ledger = GitLedger(path, lock_timeout=5)
    await ledger.open()
    await ledger.register(stored(states[0], artifact_id))
    for base, state in enumerate(states[1:], start=1):
        await commit(ledger, state, base, artifact_id, NOTE)
    await ledger.close()


@pytest.fixture
def path(tmp_path):
    make(tmp_path / "ledger", FIRST, SECOND)
    return tmp_path / "ledger"


class TestHistory:
    def test_a_version_says_what_its_commit_says(self, path, git):
        first, second = Ledger(path).history("skill")

        assert (first.number, first.subject, first.body) == (1, "register skill", "")
        assert (first.changed, first.added, first.removed) == ((), tuple(sorted(FIRST)), ())
        assert (first.category, first.round, first.reward_before) == ("", None, None)
        assert (second.number, second.round, second.category) == (2, 3, "committed")
        assert (second.reward_before, second.reward_after) == (0.5, 0.75)
        assert second.subject == "merge w0:1 into skill (v1 -> v2): 0.500 -> 0.750"
        assert second.body.startswith(
            "It helps.\n\nA lot.\nchanged  SKILL.md    added  gone/not, kkk"
        )
        assert (second.changed, second.removed) == (("SKILL.md",), ("gone",))
        assert second.added == ("gone/not", "k" * 300)
        assert (second.restores, second.source) == (None, "")
        assert second.commit == git(path, "rev-parse", "dev").strip()
        shown = git(path, "log", "-1", "--format=%ct", "dev")
        assert second.time == datetime.fromtimestamp(int(shown), UTC)

    def test_a_version_in_a_line(self, path):
        second = Ledger(path).version(artifact="skill")
        time = second.time.strftime("%Y-%m-%d %H:%M")
        assert str(second) == f"v2  {second.commit[:7]}  {time}  {second.subject}"

    def test_stable_counts_its_own_versions_and_names_the_commit_on_dev(self, path):
        ledger = Ledger(path)
        promoted = ledger.promote("skill")

        assert promoted == ledger.history("skill", "stable")[-1]
        assert (promoted.number, promoted.subject) == (2, "promote skill to stable v2")
        assert promoted.source == ledger.version(2, "skill").commit
        assert ledger.at(artifact="skill", branch="stable") == SECOND
        assert ledger.promote("skill") == promoted

    def test_artifacts_have_histories_of_their_own(self, path):
        make(path, {"a": "1"}, {"a": "2"}, {"a": "3"}, artifact_id="other")
        make(path, {}, artifact_id="sk\nill")
        ledger = Ledger(path)

        assert ledger.artifacts() == {"other": 3, "sk\nill": 1, "skill": 2}
        assert ledger.artifacts("stable") == {"other": 1, "sk\nill": 1, "skill": 1}
        assert [version.number for version in ledger.history("skill")] == [1, 2]
        assert [version.number for version in ledger.history("other")] == [1, 2, 3]
        assert [ledger.at(number, "other")["a"] for number in (1, 2, 3)] == ["1", "2", "3"]
        assert [line[8:] for line in ledger.log(limit=3)] == [
            "register sk ill",
            "merge w0:1 into other (v2 -> v3): 0.500 -> 0.750",
            "merge w0:1 into other (v1 -> v2): 0.500 -> 0.750",
        ]
        assert len(ledger.log()) == 7

    def test_artifacts_whose_names_look_alike_in_a_message_are_told_apart(self, path):
        make(path, {"a": "1"}, {"a": "2"}, artifact_id="two\twords")
        make(path, {"b": "1"}, artifact_id="two words")

        assert [version.added for version in Ledger(path).history("two words")] == [("b",)]
        assert len(Ledger(path).history("two\twords")) == 2

    def test_a_name_may_be_longer_than_one_of_a_file(self, tmp_path):
        make(tmp_path, FIRST, SECOND, artifact_id="long" * 100)
        assert Ledger(tmp_path).rollback(1, "long" * 100).number == 3
        assert Ledger(tmp_path).at(3, "long" * 100) == FIRST

    def test_what_a_person_commits_by_hand_is_no_version(self, path, git, tmp_path):
        git(path, "worktree", "add", "-q", tmp_path / "tree", "dev")
        (tmp_path / "tree" / "notes.md").write_text("by hand")
        git(tmp_path / "tree", "add", ".")
        git(tmp_path / "tree", "commit", "-q", "-m", "By hand\n\nAgentDescent-Round: x")
        ledger = Ledger(path)

        assert [version.number for version in ledger.history("skill")] == [1, 2]
        assert [line[8:] for line in ledger.log(limit=1)] == ["By hand"]


class TestState:
    def test_every_version_is_there_to_be_read(self, path):
        ledger = Ledger(path)

        assert ledger.at(1, "skill") == FIRST
        assert ledger.at(2, "skill") == ledger.at(artifact="skill") == SECOND
        assert list(ledger.at(2, "skill")) == sorted(SECOND)
        with pytest.raises(TypeError):
            ledger.at(2, "skill")["SKILL.md"] = "other"

    @pytest.mark.parametrize(
        ("ask", "message"),
        [
            (lambda ledger: ledger.at(3, "skill"), "'skill' has no version 3; it has 1 to 2"),
            (lambda ledger: ledger.at(0, "skill"), "'skill' has no version 0; it has 1 to 2"),
            (lambda ledger: ledger.diff(1, -1, "skill"), "has no version -1; it has 1 to 2"),
            (lambda ledger: ledger.history(), "no artifact 'artifact'; there are: 'skill'"),
            (
                lambda ledger: ledger.log(branch="main"),
                "no branch 'main'; there are dev and stable",
            ),
            (lambda ledger: ledger.promote("other"), "no artifact 'other'; there are: 'skill'"),
            (lambda ledger: ledger.rollback(7, "skill"), "has no version 7; it has 1 to 2"),
            (lambda ledger: ledger.rollback(1, "other"), "no artifact 'other'; there are: 'skill'"),
        ],
    )
    def test_what_is_not_there_is_named_with_what_is(self, path, ask, message):
        with pytest.raises(KeyError) as missing:
            ask(Ledger(path))
        assert type(missing.value) is Missing
        assert str(missing.value).endswith(message)
        assert len(Ledger(path).log()) == 3


class TestChanges:
    def test_every_key_is_a_unified_diff(self, path):
        changes = Ledger(path).diff(1, 2, "skill")

        assert [(change.key[:8], change.kind) for change in changes] == [
            ("SKILL.md", "changed"),
            ("gone", "removed"),
            ("gone/not", "added"),
            ("k" * 8, "added"),
        ]
        assert str(changes).splitlines()[:14] == [
            "skill v1 -> v2: 1 changed, 1 removed, 2 added",
            "--- SKILL.md",
            "+++ SKILL.md",
            "@@ -1,3 +1,3 @@",
            " line one",
            "-line two",
            "+line 2",
            " ",
            "--- gone",
            "+++ /dev/null",
            "@@ -1 +0,0 @@",
            "-x",
            "--- /dev/null",
            "+++ gone/not",
        ]

    def test_values_that_are_no_text_are_compared_as_json(self):
        change = Change("n", "changed", {"a": 1}, {"a": 2})
        assert str(change).splitlines() == [
            "--- n (JSON)",
            "+++ n (JSON)",
            "@@ -1,3 +1,3 @@",
            " {",
            '-  "a": 1',
            '+  "a": 2',
            " }",
        ]

    def test_a_text_that_becomes_a_number_is_a_change(self):
        assert str(Change("n", "changed", "1", 1)) == "--- n\n+++ n (JSON)"

    def test_equal_versions_have_no_changes(self, path):
        same = Ledger(path).diff(2, 2, "skill")
        assert (len(same), bool(same)) == (0, False)
        assert str(same) == "skill v2 -> v2: the same"
        assert same.apply({"b": 1, "a": 2}) == {"a": 2, "b": 1}

    def test_a_key_cannot_forge_a_line(self):
        assert str(Change("a\n+++ b", "added", after="")).splitlines()[:2] == [
            "--- /dev/null",
            "+++ a +++ b",
        ]


keys = st.text("ab/", min_size=1, max_size=4) | st.just("k" * 300)
values = st.sampled_from(["", "1", "x\n", "\ud83d", None, 1, True, 1.0, [], {"a": None}])
states = st.dictionaries(keys, values, max_size=4)


def exactly(state):
    """The state as it is stored, where 1 is not True."""
    return encode("skill", state)


@pytest.mark.timeout(60)
@settings(max_examples=10, deadline=None)
@given(st.lists(states, min_size=2, max_size=4))
def test_diffs_lead_from_version_to_version_and_rollback_leads_back(made):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        make(path, *made)
        ledger = Ledger(path)
        numbers = range(1, len(made) + 1)

        assert [version.number for version in ledger.history("skill")] == list(numbers)
        for a in numbers:
            for b in numbers:
                changes = ledger.diff(a, b, "skill")
                assert exactly(changes.apply(ledger.at(a, "skill"))) == exactly(made[b - 1])
        for version, before, after in zip(
            ledger.history("skill")[1:], made, made[1:], strict=False
        ):
            assert set(version.added) == after.keys() - before.keys()
            assert set(version.removed) == before.keys() - after.keys()
        back = ledger.rollback(1, "skill")
        assert exactly(ledger.at(back.number, "skill")) == exactly(made[0])
        assert exactly(ledger.at(len(made), "skill")) == exactly(made[-1])


class TestRollback:
    def test_the_old_state_is_a_new_version(self, path):
        ledger = Ledger(path)
        made = ledger.rollback(1, "skill")

        assert (made.number, made.subject, made.restores) == (3, "rollback skill to v1", 1)
        assert made.body.startswith("changed  SKILL.md    added  gone    removed  gone/not, kkk")
        assert (made.changed, made.added) == (("SKILL.md",), ("gone",))
        assert [ledger.at(number, "skill") for number in (1, 2, 3)] == [FIRST, SECOND, FIRST]
        assert made == ledger.history("skill")[-1]
        assert len(ledger.log()) == 4

    def test_git_shows_it_as_any_other_commit(self, path, git):
        made = Ledger(path).rollback(1, "skill")
        text = git(path, "log", "-1", "--format=%B", "dev")

        assert git(path, "interpret-trailers", "--parse", text=text).splitlines() == [
            "AgentDescent-Artifact: skill",
            "AgentDescent-Version: 3",
            "AgentDescent-Base: 2",
            "AgentDescent-Restores: 1",
        ]
        assert git(path, "rev-parse", "dev:artifacts") == git(path, "rev-parse", "dev~2:artifacts")
        assert git(path, "rev-list", "--min-parents=2", "dev") == ""
        assert git(path, "rev-parse", "dev").strip() == made.commit
        assert git(path, "fsck", "--strict") == ""

    def test_nothing_is_written_where_nothing_would_change(self, path):
        ledger = Ledger(path)
        made = ledger.rollback(1, "skill")

        assert ledger.rollback(1, "skill") == ledger.rollback(3, "skill") == made
        assert len(ledger.log()) == 4

    def test_an_empty_state_comes_back_too(self, tmp_path):
        make(tmp_path, {}, {"a": "1"})
        assert Ledger(tmp_path).rollback(1, "skill").removed == ("a",)
        assert Ledger(tmp_path).at(artifact="skill") == {}

    def test_other_artifacts_stay_as_they_are(self, path):
        make(path, {"a": "1"}, {"a": "2"}, artifact_id="other")
        Ledger(path).rollback(1, "skill")
        assert Ledger(path).artifacts() == {"other": 2, "skill": 3}
        assert Ledger(path).at(artifact="other") == {"a": "2"}

    @pytest.mark.asyncio
    async def test_whoever_builds_on_the_old_version_is_told_and_goes_on(self, tmp_path):
        run = GitLedger(tmp_path)
        await run.open()
        await run.register(stored({"a": "1"}))
        await commit(run, {"a": "2"}, 1)

        made = await Ledger(tmp_path).arollback(1, "skill")
        with pytest.raises(
            CASConflict, match="is at version 3, but the commit builds on version 2"
        ):
            await commit(run, {"a": "3"}, 2)
        assert await state_of(run) == ({"a": "1"}, 3)
        await commit(run, {"a": "1", "b": "1"}, made.number)
        await run.close()

        assert Ledger(tmp_path).at(artifact="skill") == {"a": "1", "b": "1"}
        assert [version.number for version in Ledger(tmp_path).history("skill")] == [1, 2, 3, 4]

    def test_a_run_goes_on_from_what_was_rolled_back_under_it(self, tmp_path):
        ledger, rolled_back = Ledger(tmp_path), []
        rules = [f"rule {name}" for name in "abcd"]

        async def propose(rendered, task, output, reward):
            if not rolled_back and ledger.artifacts()["artifact"] == 3:
                rolled_back.append(await ledger.arollback(1))
            return next((rule for rule in rules if rule not in rendered), None)

        result = evolve(
            [Task(str(number), "q") for number in range(12)],
            lambda task, output: sum(rule in output for rule in rules) / len(rules),
            run=lambda rendered, task: rendered,
            propose=propose,
            rounds=12,
            n_workers=2,
            repo_path=tmp_path,
            target_reward=1.0,
        )

        assert rolled_back[0].number == 4
        assert (result.error, result.final_reward) == (None, 1.0)
        assert ledger.version().number == result.version == 8
        assert ledger.at() == result.state
        assert [version.restores for version in ledger.history()] == [*[None] * 3, 1, *[None] * 4]

    @pytest.mark.asyncio
    async def test_it_waits_for_a_writer_no_longer_than_it_may(self, path):
        run = GitLedger(path)
        await run.open()
        async with run.locked():
            with pytest.raises(LedgerBusy):
                await Ledger(path, lock_timeout=0.01).arollback(1, "skill")
        await run.close()
        assert len(Ledger(path).log()) == 3

    @pytest.mark.asyncio
    @pytest.mark.parametrize("name", ["rollback", "promote"])
    async def test_in_a_running_loop_the_error_names_the_twin(self, path, name):
        with pytest.raises(RunningLoopError, match=f"use `await ledger.a{name}"):
            getattr(Ledger(path), name)(1)

    @pytest.mark.asyncio
    async def test_promotion_has_a_twin_too(self, path):
        assert (await Ledger(path).apromote("skill")).number == 2

    def test_a_damaged_version_is_not_brought_back(self, path, git):
        Ledger(path).promote("skill")
        blob = git(path, "rev-parse", "dev~1:artifacts/skill/state/SKILL.md").strip()
        file = path / ".git" / "objects" / blob[:2] / blob[2:]
        file.chmod(0o644)
        file.write_bytes(file.read_bytes()[:10])

        with pytest.raises(LedgerDamaged, match=f"object {blob} is cut short"):
            Ledger(path).rollback(1, "skill")
        assert Ledger(path).artifacts() == {"skill": 2}


class TestGit:
    def test_the_log_shows_every_change_and_why(self, path, git):
        shown = git(path, "log", "-p", "-1", "dev")

        for words in (
            "    merge w0:1 into skill (v1 -> v2): 0.500 -> 0.750\n",
            "    It helps.\n",
            "    AgentDescent-Reward: 0.5 0.75\n",
            "+++ b/artifacts/skill/state/SKILL.md\n@@ -1,2 +1,2 @@\n",
            "\n line one\n-line two\n+line 2\n",
            "--- a/artifacts/skill/state/gone\n+++ /dev/null\n",
        ):
            assert words in shown

    def test_trailers_are_columns(self, path, git):
        columns = ",".join(f"key=AgentDescent-{name}" for name in ("Version", "Category", "Round"))
        shown = git(path, "log", f"--format=%(trailers:{columns},valueonly,separator=%x20)", "dev")
        assert shown.splitlines() == ["2 committed 3", "1", ""]

    def test_one_version_can_be_shown(self, path, git):
        made = Ledger(path).version(1, "skill")
        assert (
            git(path, "show", f"{made.commit}:artifacts/skill/state/SKILL.md")
            == (FIRST["SKILL.md"])
        )
        listed = json.loads(git(path, "show", f"{made.commit}:ledger.json"))
        assert listed["artifacts"]["skill"]["version"] == 1


class TestMessages:
    def test_one_of_a_person_has_no_trailers(self):
        message = Message.of("By hand\n\nBecause.\n\nSigned-off-by: me\n")
        assert message == Message("By hand", "Because.\n\nSigned-off-by: me", {})

    def test_a_subject_alone_is_a_message(self):
        assert Message.of("genesis") == Message("genesis", "", {})

    def test_what_looks_like_ours_but_is_not_a_number_is_none(self):
        message = Message.of("a\n\nAgentDescent-Round: x\nAgentDescent-Reward: high\nAgentDescent-")
        assert message.body == ""
        assert (message.integer("Round"), message.integer("Version")) == (None, None)
        assert message.reward() == (None, None)


def test_changes_can_be_made_by_hand():
    changes = Changes("skill", 1, 2, (Change("a", "removed", before=1), Change("b", "added")))
    assert changes.apply({"a": 1, "c": 2}) == {"b": None, "c": 2}
