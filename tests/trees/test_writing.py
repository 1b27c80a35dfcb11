"""Files land below a directory and nowhere else."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.trees import Tree, TreeError, load_tree, materialize
from support.directories import snapshot, write


@pytest.fixture
def world(tmp_path):
    """A workspace, and beside it what must not change."""
    write(tmp_path, {"canary.md": "alive", "outside/secret.md": "s"})
    (tmp_path / "workspace").mkdir()
    return tmp_path


def test_files_are_written_and_found_again(tmp_path):
    state = {"SKILL.md": "\u00e9\r\n", "refs/a/b.txt": ""}

    assert materialize(state, tmp_path / "new" / "dir") == ["SKILL.md", "refs/a/b.txt"]
    assert load_tree(tmp_path / "new" / "dir") == state


def test_a_prefix_is_a_directory_for_all_of_them(tmp_path):
    assert materialize({"a.md": "x"}, tmp_path, prefix=".claude/skills/s/") == [
        ".claude/skills/s/a.md"
    ]
    assert (tmp_path / ".claude/skills/s/a.md").read_text() == "x"


def test_programs_are_executable_under_every_prefix(tmp_path):
    state = Tree(dict.fromkeys(["a.sh", "scripts/b.py", "x/bin/c", "d.md", "e.py"], ""), ["e.py"])

    materialize(state, tmp_path, prefix="p")

    runs = [path for path in state if os.access(tmp_path / "p" / path, os.X_OK)]
    assert runs == ["a.sh", "scripts/b.py", "x/bin/c", "e.py"]


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    write(tmp_path, {"a.md": "old"})
    (tmp_path / "a.md").chmod(0o640)

    materialize({"a.md": "new"}, tmp_path)

    assert snapshot(tmp_path) == {"a.md": ("file", 0o640, b"new")}


@pytest.mark.parametrize(
    "path",
    ["../canary.md", "/tmp/x", "C:/x", "a/../../canary.md", "nul", "a\0b", "./a.md", "a//b", ".."],
)
def test_a_path_that_is_not_safe_writes_nothing_at_all(world, path):
    before = snapshot(world)

    with pytest.raises(TreeError, match="is refused"):
        materialize({"a.md": "x", path: "x"}, world / "workspace")

    assert snapshot(world) == before


def test_paths_that_cannot_lie_beside_each_other_write_nothing(world):
    before = snapshot(world)

    with pytest.raises(TreeError, match="cannot lie beside each other"):
        materialize({"a.md": "x", "A.md": "y"}, world / "workspace")

    assert snapshot(world) == before


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("a.md", "../outside/secret.md"),
        ("a.md", "../canary.md"),
        ("a.md", "nowhere"),
        ("sub", "../outside"),
        ("sub", "."),
        ("sub", "/"),
    ],
)
def test_a_planted_link_is_refused_by_name_and_never_followed(world, link, target):
    workspace = world / "workspace"
    (workspace / link).symlink_to(target)
    before = snapshot(world)
    path = link if link == "a.md" else f"{link}/secret.md"

    with pytest.raises(TreeError, match=f"'{path}' is not written: .*link"):
        materialize({path: "evil"}, workspace)

    assert snapshot(world) == before


def test_a_hard_link_is_parted_from_what_it_shared(world):
    os.link(world / "canary.md", world / "workspace" / "a.md")

    materialize({"a.md": "new"}, world / "workspace")

    assert (world / "canary.md").read_text() == "alive"
    assert (world / "workspace" / "a.md").read_text() == "new"


def test_a_link_in_place_of_the_directory_is_refused(world):
    (world / "door").symlink_to("outside")
    before = snapshot(world)

    with pytest.raises(TreeError, match="door' is a link or no directory"):
        materialize({"a.md": "x"}, world / "door")

    assert snapshot(world) == before


@pytest.mark.parametrize(
    ("make", "path", "reason"),
    [
        (lambda at: (at / "a.md").mkdir(), "a.md", "a directory is in its place"),
        (lambda at: os.mkfifo(at / "a.md"), "a.md", "a special file is in its place"),
        (lambda at: (at / "sub").write_text("x"), "sub/a.md", "'sub' is a file"),
    ],
)
def test_what_is_in_the_way_is_named(world, make, path, reason):
    make(world / "workspace")
    before = snapshot(world)

    with pytest.raises(TreeError, match=f"'{path}' is not written: {reason}"):
        materialize({path: "x"}, world / "workspace")

    assert snapshot(world) == before


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "no space")

    write(tmp_path, {"a.md": "old"})
    monkeypatch.setattr(os, "fchmod", full)

    with pytest.raises(OSError, match="no space"):
        materialize({"a.md": "new"}, tmp_path)

    assert {name: content for name, (_, _, content) in snapshot(tmp_path).items()} == {
        "a.md": b"old"
    }


@pytest.mark.parametrize("denied", ["sub", "dir"])
def test_a_directory_that_may_not_be_opened_is_an_error_of_the_system(
    tmp_path, monkeypatch, denied
):
    really_open = os.open

    def refuse(path, *args, **kwargs):
        if os.fspath(path).endswith(denied):
            raise PermissionError(13, "denied")
        return really_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(PermissionError):
        materialize({"sub/a.md": "x"}, tmp_path / "dir")


names = st.text("abcAB.-~ \\/\0\n", min_size=1, max_size=6)


@given(st.dictionaries(names, st.text(max_size=3), max_size=4))
def test_whatever_the_paths_nothing_is_written_outside(tmp_path_factory, state):
    world = write(tmp_path_factory.mktemp("world"), {"canary.md": "alive"})
    workspace = world / "workspace"

    try:
        written = materialize(state, workspace)
    except TreeError:
        written = []

    there = snapshot(world)
    inside = {f"workspace/{path}" for path in written}
    assert {name for name, what in there.items() if what[0] == "file"} == {*inside, "canary.md"}
    assert there["canary.md"][2] == b"alive"
