"""`agentdescent log`, `diff`, `show` and `rollback`, as people and programs use them."""

import json
import os
import pty
import subprocess
import sys

import anyio
import pytest

from agentdescent import Ledger
from agentdescent.core.artifact import TEXT_CONTRACT
from agentdescent.core.store import CommitNote, Stored
from agentdescent.ledger import GitLedger

STATES = (
    {"SKILL.md": "line one\nline two\n"},
    {"SKILL.md": "line one\nline 2\x1b[2J\n", "n": 1, "half": "\ud83d"},
)


async def make(path, artifact_id):
    ledger = GitLedger(path)
    await ledger.open()
    first, second = (Stored(artifact_id, state, 0, 0.2, TEXT_CONTRACT) for state in STATES)
    await ledger.register(first)
    async with ledger.locked():
        await ledger.commit(
            second, 1, CommitNote("merge w0:1", "It helps.", "committed", 0, (0, 1))
        )
    await ledger.close()


@pytest.fixture
def repo(tmp_path):
    """A ledger of one artifact with two versions."""
    anyio.run(make, tmp_path / "repo", "skill")
    return tmp_path / "repo"


def at_a_terminal(*arguments, answer=""):
    """Run one command at a terminal of its own; return its exit status and all it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agentdescent", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # it has closed its end
        pass
    os.close(ours)
    return process.wait(), shown.decode()


def records(done):
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


class TestLog:
    def test_the_directory_of_a_run_is_as_good_as_its_ledger(self, agentdescent, repo, tmp_path):
        (tmp_path / "run").mkdir()
        repo.rename(tmp_path / "run" / "ledger")

        lines = agentdescent("log", tmp_path / "run").stdout.splitlines()

        assert [line.split()[0] for line in lines] == ["v2", "v1"]

    def test_a_line_a_version_the_newest_first(self, agentdescent, repo):
        done = agentdescent("log", repo)
        versions = Ledger(repo).history("skill")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [str(versions[1]), str(versions[0])]

    def test_a_branch_and_so_many(self, agentdescent, repo):
        Ledger(repo).promote("skill")
        done = agentdescent("log", repo, "--branch", "stable", "-n", 1, "--artifact", "skill")
        assert done.stdout.splitlines() == [str(Ledger(repo).version(2, "skill", "stable"))]

    def test_json_has_every_fact(self, agentdescent, repo):
        second, first = records(agentdescent("log", repo, "--json"))

        assert (first["event"], first["number"], first["added"]) == ("Version", 1, ["SKILL.md"])
        assert (second["reward_before"], second["reward_after"], second["round"]) == (0, 1, 0)
        assert second["commit"] == Ledger(repo).version(2, "skill").commit

    def test_several_artifacts_have_to_be_told_apart(self, agentdescent, repo):
        anyio.run(make, repo, "other")
        done = agentdescent("log", repo)

        assert done.returncode == 1
        assert done.stderr.endswith("no artifact 'artifact'; there are: 'other', 'skill'\n")
        assert len(agentdescent("log", repo, "--artifact", "other").stdout.splitlines()) == 2

    def test_a_reader_may_have_seen_enough(self, repo):
        command = f"{sys.executable} -m agentdescent log {repo} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("0\n", "")

    @pytest.mark.parametrize("command", ["log", "show"])
    def test_where_there_is_no_ledger_one_line_says_so(self, agentdescent, tmp_path, command):
        done = agentdescent(command, "nowhere")

        assert done.returncode == 1
        assert done.stderr.startswith("error: open failed in git repository")
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "nowhere").exists()


class TestDiff:
    def test_a_unified_diff_a_key_harmless_to_a_terminal(self, agentdescent, repo):
        done = agentdescent("diff", repo, "v1", 2)

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "skill v1 -> v2: 1 changed, 2 added",
            "--- SKILL.md",
            "+++ SKILL.md",
            "@@ -1,3 +1,3 @@",
            " line one",
            "-line two",
            "+line 2\ufffd[2J",
            " ",
            "--- /dev/null",
            "+++ half",
            "@@ -0,0 +1 @@",
            "+\ufffd",
            "--- /dev/null",
            "+++ n (JSON)",
            "@@ -0,0 +1 @@",
            "+1",
        ]

    def test_json_has_both_values_exactly(self, agentdescent, repo):
        (record,) = records(agentdescent("diff", repo, 1, 2, "--json"))
        assert (record["event"], record["before"], record["after"]) == ("Changes", 1, 2)
        assert record["each"] == [
            {"key": "SKILL.md", "kind": "changed", "before": STATES[0]["SKILL.md"]}
            | {"after": STATES[1]["SKILL.md"]},
            {"key": "half", "kind": "added", "before": None, "after": "\ud83d"},
            {"key": "n", "kind": "added", "before": None, "after": 1},
        ]

    def test_colours_are_for_terminals(self, repo):
        status, shown = at_a_terminal("diff", repo, 1, 2)

        assert status == 0
        assert "\x1b[32m+line 2\ufffd[2J\x1b[0m" in shown
        assert "\x1b[31m-line two\x1b[0m" in shown

    def test_what_is_no_version_is_refused_before_anything(self, agentdescent, repo):
        done = agentdescent("diff", repo, 1, "x")
        assert done.returncode == 2
        assert "'x' is no version: say 3, or v3" in done.stderr


class TestShow:
    def test_what_a_version_says_and_is(self, agentdescent, repo):
        found = Ledger(repo).version(1, "skill")

        assert agentdescent("show", repo, "v1").stdout == (
            f"version 1\ncommit  {found.commit}\ntime    {found.time}\n\nregister skill\n\n"
            "[SKILL.md]\nline one\nline two\n\n"
        )

    def test_the_newest_by_default(self, agentdescent, repo):
        shown = agentdescent("show", repo).stdout

        assert shown.startswith("version 2\n")
        assert "\n\nIt helps.\nchanged  SKILL.md    added  half, n\n\n" in shown
        assert "\n[half]\n\ufffd\n\n[n]\n1\n" in shown

    def test_json_has_the_state(self, agentdescent, repo):
        (record,) = records(agentdescent("show", repo, "--json", "--branch", "dev"))
        assert (record["artifact"], record["state"]) == ("skill", STATES[1])


class TestRollback:
    def test_yes_commits_without_a_question(self, agentdescent, repo):
        done = agentdescent("rollback", repo, "v1", "--yes")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{Ledger(repo).version(3, 'skill')}\n"
        assert Ledger(repo).at(artifact="skill") == STATES[0]

    def test_nobody_to_ask_is_no_yes(self, agentdescent, repo):
        done = agentdescent("rollback", repo, 1)

        assert done.returncode == 2
        assert done.stderr == "error: there is nobody to ask whether to commit: say --yes\n"
        assert Ledger(repo).artifacts() == {"skill": 2}

    @pytest.mark.parametrize(("answer", "status", "version"), [("y", 0, 3), ("n", 1, 2)])
    def test_at_a_terminal_it_shows_the_changes_and_asks(self, repo, answer, status, version):
        ended, shown = at_a_terminal("rollback", repo, 1, answer=f"{answer}\n")

        assert ended == status
        assert "skill v2 -> v1: 1 changed, 2 removed" in shown
        assert Ledger(repo).artifacts() == {"skill": version}

    def test_what_is_so_already_needs_no_answer(self, agentdescent, repo):
        done = agentdescent("rollback", repo, 2)
        assert (done.returncode, done.stdout) == (0, "v2 has the state of v2 already\n")

    def test_json_has_the_new_version(self, agentdescent, repo):
        (record,) = records(agentdescent("rollback", repo, 1, "--yes", "--json"))
        assert (record["number"], record["restores"]) == (3, 1)

    def test_an_unknown_version_is_named_with_the_known_ones(self, agentdescent, repo):
        done = agentdescent("rollback", repo, 9, "--yes")
        assert done.returncode == 1
        assert done.stderr.endswith("artifact 'skill' has no version 9; it has 1 to 2\n")
