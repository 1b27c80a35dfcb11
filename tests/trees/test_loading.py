import os
import socket

import pytest

from agentdescent.trees import TreeError, TreeSpec, load_tree
from support.directories import write


def test_text_files_are_loaded_by_their_path(tmp_path):
    write(tmp_path, {"SKILL.md": "\u00e9\r\n", "refs/a/b.txt": "", "code.py": "x", "app.exe": "x"})

    assert load_tree(tmp_path) == {"SKILL.md": "\u00e9\r\n", "code.py": "x", "refs/a/b.txt": ""}


def test_litter_is_left_alone(tmp_path):
    write(
        tmp_path,
        {
            "a.md": "x",
            ".git/config.md": "x",
            "sub/.git/x.md": "x",
            "node_modules/p/readme.md": "x",
            "x.egg-info/y.txt": "x",
            "deep/__pycache__/z.py": "x",
        },
    )

    assert load_tree(tmp_path) == {"a.md": "x"}


def test_a_spec_says_what_to_take_and_what_not(tmp_path):
    write(tmp_path, {"a.md": "x", "b.rst": "y", "drafts/c.rst": "z", "LICENSE": "l"})

    spec = TreeSpec(include=("**/*.rst", "LICENSE"), exclude=("drafts",))

    assert load_tree(tmp_path, spec) == {"LICENSE": "l", "b.rst": "y"}
    assert [spec.selects(path) for path in ("b.rst", "drafts/c.rst", "a.md")] == [
        True,
        False,
        False,
    ]


def test_which_files_may_be_executed_is_kept(tmp_path):
    write(tmp_path, {"run.py": "x", "a.md": "y"})
    (tmp_path / "run.py").chmod(0o755)

    assert load_tree(tmp_path).executable == {"run.py"}


def test_the_directory_may_be_named_through_a_link_or_the_home(tmp_path, monkeypatch):
    write(tmp_path / "real", {"a.md": "x"})
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert load_tree(tmp_path / "link") == load_tree("~/real") == {"a.md": "x"}


def test_links_and_special_files_are_no_part_of_it(tmp_path):
    outside = write(tmp_path / "outside", {"secret.md": "s"})
    tree = write(tmp_path / "tree", {"a.md": "x"})
    (tree / "link.md").symlink_to(outside / "secret.md")
    (tree / "dir").symlink_to(outside)
    os.mkfifo(tree / "pipe.md")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tree / "door.md"))

        assert load_tree(tree) == {"a.md": "x"}


@pytest.mark.parametrize(
    ("files", "reasons"),
    [
        ({"a.md": b"PK\0\1", "b.md": "x"}, ["'a.md' is binary"]),
        ({"a.md": b"\xff\xfe"}, ["'a.md' is not UTF-8"]),
        ({"a.md": b"x" * 28_001, "b.md": "y"}, ["'a.md' has more than 28000 bytes"]),
        ({"aux.md": "x"}, ["'aux.md' is a device name"]),
        ({"a\nb.md": "x"}, ["control or invisible"]),
        ({"-rf.md": "x"}, ["an option"]),
        ({" a.md": "x"}, ["the path ' a.md' is refused: it is not in its normal form"]),
        ({"a\\b.md": "x"}, ["it is not in its normal form"]),
        ({"e\u0301.md": "x"}, ["it is not in its normal form"]),
        ({"a.md": "x", "A.md": "y"}, ["'a.md' and 'A.md' cannot lie beside each other"]),
        ({b"\xff.md".decode("utf-8", "surrogateescape"): "x"}, ["control or invisible"]),
        ({f"{i:02}.md": b"\0" for i in range(12)}, ["'00.md'", "'09.md'", "and 2 more;"]),
    ],
)
def test_what_cannot_be_part_of_a_tree_is_refused_by_name(tmp_path, files, reasons):
    write(tmp_path, files)

    with pytest.raises(TreeError, match="exclude them in the TreeSpec") as caught:
        load_tree(tmp_path)

    for reason in reasons:
        assert reason in str(caught.value)


def test_a_file_of_a_gigabyte_is_refused_without_being_read(tmp_path):
    write(tmp_path, {"a.md": "x", "huge.md": ""})
    os.truncate(tmp_path / "huge.md", 1 << 30)

    with pytest.raises(TreeError, match=r"'huge\.md' has more than 28000 bytes"):
        load_tree(tmp_path)


def test_too_many_files_are_refused_before_they_are_all_read(tmp_path):
    write(tmp_path, {f"{i}.md": "x" for i in range(300)})

    with pytest.raises(TreeError, match="there are more than max_files=200 files"):
        load_tree(tmp_path)


def test_a_tree_that_is_too_large_is_refused(tmp_path):
    write(tmp_path, {f"{i}.md": "x" * 100 for i in range(3)})

    with pytest.raises(TreeError, match="the files have more than max_total_bytes=250 together"):
        load_tree(tmp_path, TreeSpec(max_total_bytes=250))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "is no directory"), ("a.md", "is no directory"), ("empty", "no file")],
)
def test_what_is_no_tree_is_refused(tmp_path, name, reason):
    write(tmp_path, {"a.md": "x"})
    (tmp_path / "empty").mkdir()

    with pytest.raises(TreeError, match=reason):
        load_tree(tmp_path / name)


def test_what_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    really_open = os.open

    def refuse(path, *args, **kwargs):
        if os.fspath(path).endswith("sub"):
            raise PermissionError(13, "denied")
        return really_open(path, *args, **kwargs)

    write(tmp_path, {"sub/a.md": "x"})
    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(PermissionError):
        load_tree(tmp_path)


def test_a_file_must_fit_into_the_trust_region_of_a_merge():
    TreeSpec().validate_against(32_000)

    with pytest.raises(TreeError, match="max_file_bytes=28000 exceeds trust_region_chars=20000"):
        TreeSpec().validate_against(20_000)
