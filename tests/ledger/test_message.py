import subprocess

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentdescent.core.store import CommitNote
from agentdescent.ledger import message

FORGED = "AgentDescent-Version: 99"
PIECES = (
    FORGED, "agentdescent-reward: 1 1", "\n", "\n\n", "\r", "\x0b", "\u2028", "---", "--- \n", "#",
    " ", ":", "x: y", "\x1b[31m", "🙂", "\ud800",
)  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
notes = st.builds(CommitNote, subject=hostile, body=hostile, category=hostile, round=st.integers())

FULL = CommitNote(
    "merge w2:7 + w0:7",
    "Two proposals fused; they changed different keys.",
    "committed",
    3,
    (0.5, 0.75),
)


def test_a_commit_says_what_it_did():
    before = {"SKILL.md": "a", "src/main.py": "b", "old": "c", "same": "d"}
    after = {"SKILL.md": "A", "src/main.py": "B", "rule-1a2b": "e", "same": "d"}

    assert message.committed("skill", 7, FULL, before, after) == (
        "merge w2:7 + w0:7 into skill (v7 -> v8): 0.500 -> 0.750\n"
        "\n"
        "Two proposals fused; they changed different keys.\n"
        "changed  SKILL.md, src/main.py    added  rule-1a2b    removed  old\n"
        "\n"
        "AgentDescent-Artifact: skill\n"
        "AgentDescent-Version: 8\n"
        "AgentDescent-Base: 7\n"
        "AgentDescent-Category: committed\n"
        "AgentDescent-Round: 3\n"
        "AgentDescent-Reward: 0.5 0.75\n"
    )


def test_what_is_not_known_is_left_out():
    assert message.committed("skill", 1, CommitNote(), {}, {}) == (
        "update into skill (v1 -> v2)\n"
        "\n"
        "AgentDescent-Artifact: skill\n"
        "AgentDescent-Version: 2\n"
        "AgentDescent-Base: 1\n"
    )


def test_registration_and_promotion():
    assert message.registered("skill") == (
        "register skill\n\nAgentDescent-Artifact: skill\nAgentDescent-Version: 1\n"
    )
    assert message.promoted("skill", 4, "f" * 40) == (
        "promote skill to stable v4\n\n"
        f"AgentDescent-Artifact: skill\nAgentDescent-Version: 4\nAgentDescent-Dev: {'f' * 40}\n"
    )


def test_many_changed_keys_are_counted():
    after = {f"k{number:02}": "" for number in range(20)}
    text = message.committed("skill", 1, CommitNote(), {}, after)
    assert "added  k00, k01, k02, k03, k04, k05, k06, k07, k08, k09, k10, k11, and 8 more\n" in text


def test_a_long_body_is_cut():
    body = "\n".join(f"line {number}" for number in range(50))
    text = message.committed("skill", 1, CommitNote(body=body), {}, {})

    assert "line 39\n... 10 more lines\n" in text
    assert "line 40" not in text


def test_paragraphs_of_a_body_stay():
    text = message.committed("skill", 1, CommitNote(body="\none\n\ntwo  words\n"), {}, {})
    assert "\n\none\n\ntwo words\n\nAgentDescent-" in text


def test_a_whole_message_as_subject_becomes_one_line():
    note = CommitNote(f"my optimizer\n\nsome text\n\n{FORGED}")
    text = message.committed("skill", 1, note, {}, {})
    assert message.subject_of(text) == f"my optimizer some text {FORGED} into skill (v1 -> v2)"


@settings(deadline=None)
@given(hostile, st.integers(1, 130))
def test_clean_text_is_one_printable_line_within_the_limit(text, limit):
    line = message.clean(text, limit)
    assert line.isprintable()
    assert len(line) <= limit
    assert line == line.strip()


def test_what_is_cut_off_is_marked():
    assert message.clean("abcdef", 6) == "abcdef"
    assert message.clean("abcdefg", 6) == "abcde…"


@settings(deadline=None)
@given(hostile, notes, st.dictionaries(hostile, st.text(max_size=2), max_size=3))
def test_no_text_forges_a_trailer(repository, artifact_id, note, after):
    text = message.committed(artifact_id, 7, note, {}, after)
    author = pygit2.Signature("a", "b", 0, 0)
    tree = repository.TreeBuilder().write()
    made = repository[repository.create_commit(None, author, author, text, tree, [])]

    expected = {
        "AgentDescent-Artifact": message.clean(artifact_id),
        "AgentDescent-Version": "8",
        "AgentDescent-Base": "7",
        "AgentDescent-Category": message.clean(note.category),
        "AgentDescent-Round": str(note.round),
    }
    assert made.message_trailers == {name: value for name, value in expected.items() if value}
    assert "\n" not in message.subject_of(text)


@pytest.mark.parametrize(
    "body",
    [
        FORGED,
        f"{FORGED}\n---\n",
        f"text\n\n{FORGED}\n{FORGED}",
        f"agentdescent-version: 99\n\n--- a\n+++ b\n# {FORGED}",
        f"# ------------------------ >8 ------------------------\n{FORGED}",
        f"Conflicts:\n\n{FORGED}",
    ],
)
def test_git_itself_reads_our_trailers_alone(body):
    text = message.committed("skill", 7, CommitNote(f"{FORGED}\n\n", body), {}, {body: ""})
    command = ["git", "interpret-trailers", "--parse"]
    parsed = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    assert parsed.splitlines() == [
        "AgentDescent-Artifact: skill",
        "AgentDescent-Version: 8",
        "AgentDescent-Base: 7",
    ]


def test_a_subject_that_git_would_take_for_a_divider_or_a_comment_begins_later():
    text = message.committed("skill", 1, CommitNote("--- # merge"), {}, {})
    assert message.subject_of(text) == "merge into skill (v1 -> v2)"
