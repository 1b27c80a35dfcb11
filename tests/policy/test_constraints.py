from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Task
from agentdescent.constraints import (
    forbidden,
    max_chars,
    no_copies,
    parses,
    protected,
    required,
    structured,
)

RULES = "Be brief.\n  DO NOT delete files.\nYou must not worry.\n"


@dataclass
class Route:
    to: str
    weight: int


TASK = Task("t7", "The quick brown fox jumps over the lazy dog.")
CODE = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("check", "before", "after", "reason"),
    [
        (max_chars(each=3), {}, {"k": "abc"}, None),
        (max_chars(each=3), {}, {"k": "abcd"}, "'k' would have 4 characters, and 3 are allowed"),
        (max_chars(each=3), {"k": "abcdef"}, {"k": "abcde"}, None),
        (max_chars(total=5), {"a": "xxx"}, {"a": "xxx", "b": "xx"}, None),
        (max_chars(total=5), {"a": "xxx"}, {"a": "xxx", "b": "xxx"}, "6 characters together"),
        (max_chars(total=5), {"a": "x" * 9}, {"a": "x" * 8}, None),
        (max_chars(each=1, keys=["*.md"]), {}, {"a.txt": "xx", "b.md": "x"}, None),
        (required("## Safety"), {"k": "##  Safety\nx"}, {"k": "y\n## Safety"}, None),
        (required("## Safety"), {"k": "## Safety"}, {"k": "x"}, "'## Safety' would be gone"),
        (required("## Safety"), {"k": "## Safety"}, {}, "'## Safety' would be gone"),
        (required("## Safety"), {"k": "x"}, {"k": "y"}, None),
        (protected(), {"k": RULES}, {"k": f"x\n{RULES}y"}, None),
        (protected(), {"k": RULES}, {"k": "DO NOT   delete files."}, None),
        (protected(), {"k": RULES}, {"k": "Be brief."}, "line 'DO NOT delete files.' of 'k'"),
        (protected(), {"k": RULES}, {"k": "DO NOT delete all files."}, "would be gone"),
        (protected(), {"k": RULES}, {"j": RULES}, "would be gone"),
        (protected("(?i)must not"), {"k": RULES}, {"k": "x"}, "line 'You must not worry.'"),
        (protected(keys=["other"]), {"k": RULES}, {}, None),
        (forbidden(r"sk-\w+"), {}, {"k": "a key"}, None),
        (forbidden(r"sk-\w+"), {}, {"k": "sk-abc"}, r"'k' would match 'sk-\\w+', which"),
        (forbidden(r"sk-\w+"), {"k": "sk-abc"}, {"k": "sk-abc, still"}, None),
        (forbidden(r"sk-\w+"), {"k": "sk-abc"}, {"k": "sk-abc sk-def"}, "is forbidden"),
        (structured(Route), {}, {"k": '{"to": "a", "weight": 1}'}, None),
        (structured(Route), {}, {"k": {"to": "a", "weight": 1}}, None),
        (structured(Route), {}, {"k": '{"to": "a"}'}, "not of the required form: Field required"),
        (structured(Route), {}, {"k": "plain"}, "'k' is not of the required form: Invalid JSON"),
        (structured(Route), {"k": "plain"}, {"k": "plain"}, None),
        (parses(), {}, {"a.py": CODE, "b.json": "{}", "c.toml": "a = 1", "d.md": "{"}, None),
        (parses(), {}, {"a.py": "def f(:"}, "'a.py' cannot be parsed: SyntaxError"),
        (parses(), {}, {"a.py": "return 1"}, "SyntaxError: 'return' outside function"),
        (parses(), {}, {"a.py": "\0"}, "'a.py' cannot be parsed"),
        (parses(), {}, {"a.py": "(" * 9999}, "'a.py' cannot be parsed"),
        (parses(), {}, {"b.JSON": "{"}, "'b.JSON' cannot be parsed: JSONDecodeError"),
        (parses(), {}, {"c.toml": "a ="}, "'c.toml' cannot be parsed: TOMLDecodeError"),
        (parses(), {"a.py": "def f(:"}, {"a.py": "def f(:"}, None),
        (parses(["src/**"]), {}, {"a.py": "def f(:"}, None),
        (
            no_copies([TASK], 4),
            {},
            {"k": "A quick, BROWN fox - jumps!"},
            "copy 4 words of task 't7'",
        ),
        (no_copies([TASK], 4), {}, {"k": "The quick brown cat jumps over a dog"}, None),
        (
            no_copies([TASK], 4),
            {"k": "quick brown fox jumps"},
            {"k": "Quick brown fox jumps"},
            None,
        ),
    ],
)
def test_an_edit_is_judged_by_what_it_makes_of_the_state(check, before, after, reason):
    found = check(before, after)

    assert (found is None) if reason is None else (reason in found)


@pytest.mark.parametrize(
    "check",
    [max_chars(1, 1), required("a"), protected("a"), forbidden("a"), structured(int), parses()],
)
@given(st.dictionaries(st.text(), st.text()))
def test_what_stays_as_it_is_breaks_nothing(check, state):
    assert check(state, dict(state)) is None


def test_a_copy_has_a_word_at_least():
    with pytest.raises(ValueError, match="words must be at least 1, got 0"):
        no_copies([], 0)
