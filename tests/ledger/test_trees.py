import tracemalloc

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.ledger import codec, trees

key = st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e", "x" * 300, ""])
states = st.dictionaries(key, st.sampled_from(["", "one", "two", 1, [2]]), max_size=6)


def changes(repository, before, after):
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {
        path: repository.create_blob(text.encode())
        for path, text in after.items()
        if before.get(path) != text
    }


def planted(repository, files):
    return repository[trees.graft(repository, None, changes(repository, {}, files))]


@settings(deadline=None, max_examples=50)
@given(states, states)
def test_growing_from_one_state_to_another_gives_the_tree_of_the_other(repository, one, other):
    before, after = codec.encode("skill", one), codec.encode("skill", other)
    tree = planted(repository, before)

    grown = trees.graft(repository, tree, changes(repository, before, after))

    assert grown == planted(repository, after).id
    assert trees.files(repository[grown]) == after


def test_subtrees_without_changes_are_taken_over(repository):
    tree = planted(repository, {"a/x": "1", "b/y": "2"})

    grown = repository[trees.graft(repository, tree, {"a/x": None, "c": tree["b"]})]

    assert {entry.name for entry in grown} == {"b", "c"}
    assert grown["b"].id == grown["c"].id == tree["b"].id


def test_removing_what_is_not_there_changes_nothing(repository):
    tree = planted(repository, {"a/x": "1"})
    assert trees.graft(repository, tree, {"no": None, "no/such": None, "a/no": None}) == tree.id


def test_lone_surrogates_survive(repository):
    blob = repository.create_blob("a\ud800".encode("utf-8", "surrogatepass"))
    assert trees.files(repository[trees.graft(repository, None, {"k": blob})]) == {"k": "a\ud800"}


def test_directories_and_files_are_told_apart(repository):
    tree = planted(repository, {"a/x": "1"})

    assert trees.subtree(tree, "a").id == tree["a"].id
    assert trees.subtree(tree, "a/x") is None
    assert trees.subtree(tree, "none") is None
    assert trees.text(tree, "a/x") == "1"
    with pytest.raises(ValueError, match="'a' is a directory"):
        trees.text(tree, "a")
    with pytest.raises(KeyError):
        trees.text(tree, "none")
    assert trees.files(None) == {}


def test_submodules_of_a_stranger_are_passed_over(repository):
    builder = repository.TreeBuilder()
    builder.insert("module", "1" * 40, pygit2.enums.FileMode.COMMIT)
    assert trees.files(repository[builder.write()]) == {}


def test_names_that_are_looked_up_again_and_again_do_not_pile_up(repository):
    blob = repository.create_blob(b"x")
    names = ["state", "rule"]
    tree = repository[trees.graft(repository, None, {"/".join(names): blob})]

    def look_up():
        for _ in range(1000):
            trees.graft(repository, tree, {"/".join(names): blob})
            trees.subtree(tree, "/".join(names[:1]))

    look_up()
    tracemalloc.start()
    try:
        look_up()
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
