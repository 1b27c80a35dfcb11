"""An evolved directory over the one it came from: all of it, or nothing."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentdescent import EvolutionResult
from agentdescent.trees import Tree, TreeError, TreeSpec, canonical
from support.directories import names, snapshot, write

OLD = {"SKILL.md": "one\ntwo\n", "refs/a.md": "a\n", "bin/tool": "#!\n", "notes.bin": b"\0\1"}
NEW = {"SKILL.md": "one\n2\n", "refs/a.md": "a\n", "refs/b.md": "b"}


def result(files=NEW, executable=()):
    return EvolutionResult(dict(files), canonical(files, executable), 1.0)


@pytest.fixture
def target(tmp_path):
    """A directory to write to, with more in it than the artifact knows."""
    return write(tmp_path / "skill", OLD)


def contents(root):
    return {name: what[2] for name, what in snapshot(root).items() if what[0] == "file"}


def test_changed_and_new_files_are_written_and_the_rest_stays(target):
    plan = result().write_to(target)

    assert (plan["written"], plan["extra"], plan["deleted"]) == (["SKILL.md", "refs/b.md"], [], [])
    assert contents(target) == {
        "SKILL.md": b"one\n2\n",
        "refs/a.md": b"a\n",
        "refs/b.md": b"b",
        "bin/tool": b"#!\n",
        "notes.bin": b"\0\1",
    }


def test_the_old_directory_is_kept_beside_it(target):
    before = snapshot(target)

    first = result().write_to(target)
    second = result({"SKILL.md": "x"}).write_to(target)

    assert first["backup"] == f"{target}.bak-1"
    assert second["backup"] == f"{target}.bak-2"
    assert snapshot(first["backup"]) == before
    assert names(target.parent) == ["skill", "skill.bak-1", "skill.bak-2"]


def test_without_a_backup_nothing_else_is_left(target):
    plan = result().write_to(target, backup=False)

    assert plan["backup"] is None
    assert names(target.parent) == ["skill"]


def test_a_new_directory_is_made(tmp_path):
    plan = result(executable=["refs/b.md"]).write_to(tmp_path / "deep" / "skill")

    assert plan["written"] == sorted(NEW)
    assert plan["backup"] is None
    made = snapshot(tmp_path / "deep" / "skill")
    assert {name for name, what in made.items() if what[0] == "file" and what[1] & 0o100} == {
        "refs/b.md"
    }


def test_modes_and_links_of_what_is_there_stay(target):
    (target / "SKILL.md").chmod(0o600)
    (target / "bin/tool").chmod(0o755)
    (target / "latest").symlink_to("refs")

    result().write_to(target)

    there = snapshot(target)
    assert there["SKILL.md"][:2] == ("file", 0o600)
    assert there["bin/tool"][:2] == ("file", 0o755)
    assert there["latest"] == ("link", "refs")


def test_what_the_artifact_has_not_is_deleted_only_on_demand_and_only_if_selected(target):
    write(target, {"gone.md": "g", ".git/HEAD.md": "h"})

    kept = result().write_to(target, dry_run=True)
    plan = result().write_to(target, prune=True)

    assert (kept["extra"], kept["deleted"]) == (["gone.md"], [])
    assert (plan["extra"], plan["deleted"]) == (["gone.md"], ["gone.md"])
    assert sorted(contents(target)) == [
        ".git/HEAD.md",
        "SKILL.md",
        "bin/tool",
        "notes.bin",
        "refs/a.md",
        "refs/b.md",
    ]


def test_the_spec_that_loaded_it_says_what_may_be_deleted(target):
    write(target, {"gone.md": "g"})

    plan = result().write_to(target, prune=True, spec=TreeSpec(include=("bin/**",)))

    assert plan["deleted"] == ["bin/tool"]
    assert "gone.md" in contents(target)


def test_a_dry_run_changes_nothing_and_shows_the_difference(target):
    write(target, {"gone.md": "g\n"})
    before = snapshot(target.parent)

    plan = result().write_to(target, prune=True, dry_run=True)

    assert snapshot(target.parent) == before
    assert plan["diff"] == (
        "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "--- a/gone.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
        "--- /dev/null\n+++ b/refs/b.md\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n"
    )


def test_git_applies_the_difference(target):
    twin = target.with_name("twin")
    shutil.copytree(target, twin)

    plan = result().write_to(target)

    subprocess.run(["git", "apply"], cwd=twin, input=plan["diff"].encode(), check=True)
    assert snapshot(twin) == snapshot(target)


def test_nothing_to_do_is_nothing_done(target):
    before = target.stat().st_ino

    plan = result({"refs/a.md": "a\n"}).write_to(target)

    assert (plan["written"], plan["backup"], plan["diff"]) == ([], None, "")
    assert target.stat().st_ino == before


@pytest.mark.parametrize(
    ("files", "prepare", "reason"),
    [
        (NEW, lambda at: _relink(at / "SKILL.md", "../canary.md"), "'SKILL.md' is not written: "),
        (NEW, lambda at: _relink(at / "refs", "../outside"), "'refs/a.md' is not written: "),
        ({"SKILL.md/x": ""}, lambda at: None, "is no directory"),
        ({"refs": ""}, lambda at: None, "is no regular file"),
        (NEW, lambda at: _relink(at, "outside"), "is a link or no directory"),
        ({"../canary.md": "x"}, lambda at: None, "is refused"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_changes(target, files, prepare, reason):
    write(target.parent, {"canary.md": "alive", "outside/a.md": "a"})
    prepare(target)
    before = snapshot(target.parent)

    with pytest.raises(TreeError, match=reason):
        result(files).write_to(target)

    assert snapshot(target.parent) == before


def _relink(path, target):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


def test_the_current_directory_is_not_pulled_from_under_the_process(target, monkeypatch):
    monkeypatch.chdir(target / "refs")

    with pytest.raises(TreeError, match="is the current directory, or above it"):
        result().write_to("..")

    assert contents(target)["SKILL.md"] == b"one\ntwo\n"


def test_a_result_that_is_no_tree_is_refused(target):
    with pytest.raises(TreeError, match="the text is no tree, but '# Playbook'"):
        EvolutionResult({}, "# Playbook", 1.0).write_to(target)


def test_a_directory_that_cannot_be_copied_stays(target):
    os.mkfifo(target / "pipe")
    before = snapshot(target.parent)

    with pytest.raises(TreeError, match=r"cannot be copied: .*named pipe"):
        result().write_to(target)

    assert snapshot(target.parent) == before


class TestTheStep:
    """Old and new change places at once, or one after the other where the system cannot."""

    @pytest.fixture(params=["missing", "refused"])
    def no_exchange(self, request, monkeypatch):
        class Library:
            def __init__(self, *args, **kwargs):
                if request.param == "refused":
                    self.renameat2 = lambda *args: -1

        monkeypatch.setattr(ctypes, "CDLL", Library)

    @pytest.mark.usefixtures("no_exchange")
    def test_two_steps_do_as_well(self, target):
        plan = result().write_to(target)

        assert contents(target)["SKILL.md"] == b"one\n2\n"
        assert contents(plan["backup"])["SKILL.md"] == b"one\ntwo\n"
        assert names(target.parent) == ["skill", "skill.bak-1"]

    @pytest.mark.usefixtures("no_exchange")
    def test_a_failure_between_them_is_undone(self, target, monkeypatch):
        rename = Path.rename
        before = snapshot(target.parent)

        def fails_once(self, to):
            if Path(to) == target and not self.name.endswith(".old"):
                raise OSError(5, "broken")
            return rename(self, to)

        monkeypatch.setattr(Path, "rename", fails_once)

        with pytest.raises(OSError, match="broken"):
            result().write_to(target)

        assert snapshot(target.parent) == before


def test_an_executable_file_stays_one(target):
    (target / "refs/a.md").chmod(0o755)

    result(Tree({"refs/a.md": "changed"})).write_to(target)

    assert snapshot(target)["refs/a.md"] == ("file", 0o755, b"changed")
