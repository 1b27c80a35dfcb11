import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygit2.enums import FileMode

from agentdescent.ledger import keys

PIECES = (
    "a", "b", "A", ".", "/", " ", "%", "~", "\\", ":", "\0", "\n", "é", "e\u0301", "日", "\ud800",
    "🙂", ".git", "..", "git~1", "CON", "nul", "com1", "lpt¹", "-", "\u200d", "\u202e", "*",
    "x" * 90, "%41", "日" * 70, "value", "key", "/" * 9,
)  # fmt: skip
any_key = st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | st.text(max_size=12)
key_sets = st.sets(any_key, max_size=30)
DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)", re.IGNORECASE)


def key_at(path, key):
    if path.startswith(keys.LONG):
        return keys.key_of_long(path, key)
    return keys.key_of(path)


@settings(deadline=None)
@given(key_sets)
def test_every_key_comes_back_from_its_path(found):
    assert all(key_at(path, key) == key for key, path in keys.paths(found).items())


@settings(deadline=None)
@given(key_sets)
def test_no_two_keys_share_a_path_and_no_path_is_a_directory_of_another(found):
    paths = list(keys.paths(found).values())
    folders = {path[: match.start()] for path in paths for match in re.finditer("/", path)}

    assert len(set(paths)) == len(found)
    assert folders.isdisjoint(paths)


@settings(deadline=None)
@given(st.lists(any_key, unique=True, max_size=20), st.randoms())
def test_paths_do_not_depend_on_the_order_of_keys(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    assert keys.paths(found) == keys.paths(shuffled)


@settings(deadline=None)
@given(key_sets)
def test_every_name_is_safe_on_every_system(found):
    for path in keys.paths(found).values():
        assert len(path.encode()) <= 1000
        for name in path.split("/"):
            assert 1 <= len(name.encode()) <= 255
            assert not re.search(r'[\x00-\x1f\x7f\\:*?"<>|\u200b-\u200f\u202a-\u202e]', name)
            assert not name.lower().startswith((".git", "git~", "-", " "))
            assert name[-1] not in ". "
            assert not DEVICE.match(name)


@settings(deadline=None)
@given(key_sets)
def test_git_takes_every_name(repository, found):
    blob = repository.create_blob(b"")
    builder = repository.TreeBuilder()
    names = {name for path in keys.paths(found).values() for name in path.split("/")}

    for name in names:
        builder.insert(name, blob, FileMode.BLOB)

    assert {entry.name for entry in repository[builder.write()]} == names


@pytest.mark.parametrize(
    "key",
    ["SKILL.md", "src/main.py", "route", "r-1a2b", "a b", "日本/é.txt", ".env", "x.git", "cons"],
)
def test_tame_keys_keep_their_name(key):
    assert keys.paths([key]) == {key: key}


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("", "%"),
        ("/", "%/%"),
        (".", "%2E"),
        ("..", ".%2E"),
        (" ", "%20"),
        ("../../etc/passwd", ".%2E/.%2E/etc/passwd"),
        (".GIT/hooks", "%2EGIT/hooks"),
        (".gitmodules", "%2Egitmodules"),
        ("git~1", "git%7E1"),
        ("-rf", "%2Drf"),
        ("CON.txt", "%43ON.txt"),
        ("C:\\x", "C%3A%5Cx"),
        ("a%2Fb", "a%252Fb"),
        ("\ud800", "%ED%A0%80"),
        ("end.", "end%2E"),
        ("two\nlines", "two%0Alines"),
    ],
)
def test_dangerous_keys_are_escaped(key, path):
    assert keys.paths([key]) == {key: path}


def test_a_key_that_is_also_a_directory_is_marked():
    assert keys.paths(["a", "a/b", "a%", "", "/x"]) == {
        "a": "a%",
        "a/b": "a/b",
        "a%": "a%25",
        "": "%%",
        "/x": "%/x",
    }


@pytest.mark.parametrize("key", ["x" * 201, "a/" * 16, "/".join(["y" * 150] * 7), "日" * 67])
def test_long_and_deep_keys_become_a_directory_of_their_hash(key):
    path = keys.paths([key])[key]

    assert re.fullmatch(r"%~[0-9a-f]{64}/value", path)
    assert keys.key_of_long(path, key) == key
    with pytest.raises(ValueError, match="not the one of its hash"):
        keys.key_of_long(path, key + "z")


@pytest.mark.parametrize("key", ["x" * 200, "a/" * 15, "日" * 66])
def test_keys_at_the_limit_keep_their_name(key):
    assert not keys.paths([key])[key].startswith(keys.LONG)


@pytest.mark.parametrize("path", [".git", "a:b", "a%41", "-x", "a//b", "%2", "%FF"])
def test_a_path_that_no_key_has_is_refused(path):
    with pytest.raises(ValueError):
        keys.key_of(path)


@settings(deadline=None)
@given(st.lists(any_key, unique=True, max_size=20))
def test_directories_of_artifacts_are_one_safe_name_each(names):
    directories = [keys.directory(name) for name in names]

    assert len(set(directories)) == len(names)
    assert all("/" not in name and 1 <= len(name.encode()) <= 200 for name in directories)
    assert keys.directory("skills/a") == "skills%2Fa"
