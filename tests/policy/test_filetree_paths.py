import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.errors import TreeError
from agentdescent.policy.filetree_paths import Places, fold, is_protected, match_any, safe_relpath

names = st.text("abAB.", min_size=1, max_size=3).filter(
    lambda name: name.strip(".") and name[-1] != "."
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("SKILL.md", "SKILL.md"),
        ("./refs//a.md", "refs/a.md"),
        (" refs\\a.md\n", "refs/a.md"),
        ("e\u0301.md", "\u00e9.md"),
        ("app/[id]/page (1).tsx", "app/[id]/page (1).tsx"),
        (".claude/agents/x.md", ".claude/agents/x.md"),
        ("console.md", "console.md"),
        ("con artist.md", "con artist.md"),
        ("..a/...b", "..a/...b"),
    ],
)
def test_a_path_has_one_spelling(path, key):
    assert safe_relpath(path) == key


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "leaves the tree"),
        ("a/../../x", "leaves the tree"),
        ("a\\..\\x", "leaves the tree"),
        ("/etc/passwd", "absolute"),
        ("\\\\host\\share", "absolute"),
        ("C:\\x", "drive letter"),
        ("c:x", "drive letter"),
        ("~/.ssh/id", "shells expand"),
        ("a\0b", "control or invisible"),
        ("a\nb", "control or invisible"),
        ("a\x7f", "control or invisible"),
        ("a\u202eb", "control or invisible"),
        ("a\u200bb", "control or invisible"),
        ("a\ud800b", "control or invisible"),
        ("nul", "device name"),
        ("a/CON.txt", "device name"),
        ("lpt1.md", "device name"),
        ("-rf", "an option"),
        ("a.", "ends with a dot"),
        ("a /b", "a space"),
        ("a.txt:stream", "the character ':'"),
        ("what?", "the character '?'"),
        ("con .txt", "device name"),
        ("GIT~1/config", "another name of .git"),
        ("CLAUDE~1/settings.json", "another name of .git or .claude"),
        ("", "names no file"),
        ("./", "names no file"),
        ("a/" * 24 + "b", "24 directories"),
        ("\u00e9" * 121, "240 bytes"),
        ("/".join(["a" * 200] * 6), "1000 bytes"),
    ],
)
def test_a_hostile_path_is_refused_by_its_name(path, reason):
    with pytest.raises(TreeError, match=re.escape(reason)):
        safe_relpath(path)


@given(st.text(max_size=20))
def test_a_path_that_passes_is_relative_and_stays_as_it_is(path):
    try:
        safe = safe_relpath(path)
    except TreeError:
        return
    assert safe_relpath(safe) == safe
    assert not safe.startswith("/")
    assert not {"", ".", ".."} & {*safe.split("/")}


@pytest.mark.parametrize(
    ("path", "there", "met"),
    [
        ("skill.md", ["SKILL.md"], "SKILL.md"),
        ("refs/a.md", ["Refs/b.md"], "Refs"),
        ("a/b", ["a"], "a"),
        ("a", ["a/b"], "a"),
        ("stra\u00dfe", ["STRASSE"], "STRASSE"),
        ("a/c", ["a/b", "b/c"], None),
        ("a", ["a"], None),
    ],
)
def test_paths_collide_where_some_file_system_cannot_hold_both(path, there, met):
    assert Places(there).collision(path) == met


@given(st.lists(paths, max_size=5), paths)
def test_what_does_not_collide_is_another_name_where_case_does_not_count(there, path):
    if path not in there and Places(there).collision(path) is None:
        assert fold(path) not in map(fold, there)


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("*.md", ["a.md", ".md"], ["a/b.md", "a.mdx", "A.MD"]),
        ("**/*.md", ["a.md", "a/b/c.md"], ["a.txt"]),
        ("**", ["a", "a/b"], []),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab/c"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["a/x"]),
        ("**/**/a", ["a", "x/y/a"], ["b"]),
        ("a", ["a", "a/b", "a/b/c"], ["ab", "x/a"]),
        ("./a/", ["a/b"], ["a"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[!0-9].md", ["a.md"], ["5.md", "/.md"]),
        ("[^a]", ["b"], ["a"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[z-a]", ["z", "-", "a"], ["m"]),
        ("[+-9]", ["1"], ["/"]),
        ("[abc", ["[abc"], ["a"]),
        (r"\*.md", ["*.md"], ["a.md"]),
        (r"\[id].md", ["[id].md"], ["i.md"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("\\", ["\\"], ["a"]),
    ],
)
def test_globs(pattern, matched, others):
    assert [path for path in matched if not match_any(path, [pattern])] == []
    assert [path for path in others if match_any(path, [pattern])] == []


@pytest.mark.parametrize("pattern", ["**", "**/*.md", "docs", "docs/*", "*", "[.a]*"])
def test_wildcards_may_spare_hidden_names(pattern):
    assert not match_any(".hidden.md", [pattern], hidden=False)
    assert not match_any("docs/.hidden.md", [pattern], hidden=False)
    assert match_any(".claude/agents/x.md", [".claude/agents/*"], hidden=False)


@given(st.text("ab*?[]!-", max_size=6), st.text("ab-!]", min_size=1, max_size=4))
def test_within_a_name_globs_are_those_of_the_shell(pattern, name):
    if "[]" not in pattern and "[!]" not in pattern and pattern.strip("ab-!]"):
        assert match_any(name, [pattern]) == fnmatch.fnmatchcase(name, re.sub(r"\*+", "*", pattern))


@pytest.mark.parametrize(
    ("path", "editable", "protected"),
    [
        (".git/config", ["**", ".git/config"], True),
        ("sub/.GIT/hooks/x", ["**"], True),
        (".git", ["**"], True),
        ("sub/.git", ["**"], True),
        (".gitignore", ["**"], False),
        (".claude/settings.json", ["**", ".claude/**"], True),
        ("x/.Claude/Settings.local.json", ["**"], True),
        (".claude/settings.json", [".claude/settings.json"], False),
        (".claude/agents/a.md", ["**"], False),
    ],
)
def test_what_runs_behind_the_back_is_protected(path, editable, protected):
    assert is_protected(path, editable) is protected
