import errno
import zlib

import pygit2
import pytest

from agentdescent.ledger.failures import Damaged
from agentdescent.ledger.objects import Objects


@pytest.fixture
def bare(tmp_path):
    opened = pygit2.init_repository(tmp_path, bare=True)
    yield opened
    opened.free()


@pytest.fixture
def objects(bare, tmp_path):
    return Objects(tmp_path, bare.odb)


@pytest.fixture
def head(bare):
    """A commit of a blob in a sub-tree: ids of commit, root, sub-tree and blob."""
    blob = bare.create_blob(b"content " * 50)
    ids = [blob]
    for _ in range(2):
        builder = bare.TreeBuilder()
        mode = pygit2.enums.FileMode.BLOB if ids == [blob] else pygit2.enums.FileMode.TREE
        builder.insert("name", ids[-1], mode)
        ids.append(builder.write())
    author = pygit2.Signature("a", "b", 0, 0)
    commit = bare.create_commit("refs/heads/dev", author, author, "first", ids[-1], [])
    return [str(commit), *map(str, reversed(ids))]


def file_of(tmp_path, oid):
    path = tmp_path / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    return path


def test_loose_objects_are_read(objects, head):
    kind, content = objects.read(head[3])
    assert (kind, content) == ("blob", b"content " * 50)


def test_packed_objects_are_read(objects, head, git, tmp_path):
    git(tmp_path, "gc", "--quiet")
    assert not (tmp_path / "objects" / head[3][:2]).exists()

    assert objects.read(head[3]) == ("blob", b"content " * 50)
    objects.check_closure(head[0])


def test_an_intact_commit_passes(objects, head):
    objects.check_closure(head[0])


@pytest.mark.parametrize("which", range(4), ids=["commit", "tree", "subtree", "blob"])
@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda whole: whole[: len(whole) // 2], "is cut short"),
        (lambda _: b"", "is cut short"),
        (lambda _: bytes(40), "is not readable"),
        (lambda whole: whole + b"more", "does not hold what its name says"),
        (lambda _: zlib.compress(b"blob 1\0x"), "does not hold what its name says"),
    ],
    ids=["half", "empty", "zeros", "longer", "other"],
)
def test_a_damaged_object_is_named(objects, head, tmp_path, which, harm, reason):
    path = file_of(tmp_path, head[which])
    path.write_bytes(harm(path.read_bytes()))

    with pytest.raises(Damaged, match=f"object {head[which]} {reason}"):
        objects.check_closure(head[0])


@pytest.mark.parametrize("which", range(4))
def test_a_missing_object_is_named(objects, head, tmp_path, which):
    file_of(tmp_path, head[which]).unlink()
    with pytest.raises(Damaged, match=f"object {head[which]} is missing"):
        objects.check_closure(head[0])


def test_a_blob_is_no_commit(objects, head):
    with pytest.raises(Damaged, match=f"object {head[3]} is a blob where a commit has to be"):
        objects.check_closure(head[3])


def test_only_objects_count_as_loose(objects, head, tmp_path):
    (tmp_path / "objects" / head[0][:2] / "tmp_obj_x").touch()
    assert set(objects.loose()) == set(head)
    assert objects.damaged() == []


def test_what_is_known_to_be_sound_is_not_looked_at_nor_what_is_below_it(objects, head, tmp_path):
    for oid in head[2:]:
        file_of(tmp_path, oid).unlink()
    assert objects.check_closure(head[0], sound={head[2]}) == set(head[:2])
    assert objects.check_closure(head[0], sound={head[0]}) == set()
    assert objects.check_closure(head[0], sound={head[1]}) == {head[0]}


def test_a_lack_of_descriptors_is_not_taken_for_a_lack_of_objects(objects, monkeypatch):
    monkeypatch.setattr("agentdescent.ledger.objects.probe", lambda *_, writing: errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        objects.read("1" * 40)


def test_the_first_parent_of_a_commit(objects, head, bare):
    author = pygit2.Signature("a", "b", 0, 0)
    text = f"parent {head[1]}\n"
    child = bare.create_commit(None, author, author, text, head[1], [head[0]])
    assert objects.parent(str(child)) == head[0]
    assert objects.parent(head[0]) is None
