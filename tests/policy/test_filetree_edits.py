"""The edit protocol: what comes out of what models really write."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.filetree_edits import (
    EDIT_PROTOCOL,
    MAX_PROPOSAL_CHARS,
    Edit,
    Edits,
    parse_edits,
    render_edits,
)

A = Edit("a.md", "x")
B = Edit("b.md", "y")
ONE = '{"path": "a.md", "content": "x"}'
TWO = '{"path": "b.md", "content": "y"}'
BODY = f'{{"rationale": "why", "edits": [{ONE}]}}'
BLOCK = f"<EDITS>{BODY}</EDITS>"

CORPUS = [
    pytest.param(BLOCK, [A], id="plain"),
    pytest.param(f"Here you go:\n\n{BLOCK}\n\nGood luck!", [A], id="prose around"),
    pytest.param(f"<EDITS>\n```json\n{BODY}\n```\n</EDITS>", [A], id="a fence inside the tags"),
    pytest.param(f"```\n{BLOCK}\n```", [A], id="a fence around the tags"),
    pytest.param(f"<EDITS>\n~~~\n{BODY}\n~~~\n</EDITS>", [A], id="a fence of tildes"),
    pytest.param(f"<EDITS>Edits [draft]:\n{BODY}</EDITS>", [A], id="prose inside the tags"),
    pytest.param(f"<edits>{BODY}</edits>", [A], id="lower case"),
    pytest.param(f"< EDITS >{BODY}</ EDITS >", [A], id="space in the tags"),
    pytest.param(f"**{BLOCK}**", [A], id="emphasis"),
    pytest.param(f"<EDITS>{BODY}", [A], id="no end tag"),
    pytest.param(f"<EDITS>{BODY}<EDITS>", [A], id="the end tag without its slash"),
    pytest.param(f"\ufeff{BLOCK}", [A], id="a byte order mark"),
    pytest.param(BLOCK.replace(", ", ",\n\n  "), [A], id="generous layout"),
    pytest.param(BLOCK.replace("\n", "\r\n"), [A], id="other line ends"),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "1\n2\t3"}]}</EDITS>',
        [Edit("a.md", "1\n2\t3")],
        id="raw line breaks",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "x",},],}</EDITS>', [A], id="commas too many"
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md",, "content": "x"}]}</EDITS>', [A], id="a double comma"
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md"\n"content": "x"}\n{"path": "b.md"\n"content": "y"}]}',
        [A, B],
        id="commas too few",
    ),
    pytest.param(
        "<EDITS>{'edits': [{'path': 'a.md', 'content': 'x'}]}</EDITS>", [A], id="single quotes"
    ),
    pytest.param(
        "<EDITS>{'edits': [{'path': 'a.md', 'content': 'it\\'s'}]}</EDITS>",
        [Edit("a.md", "it's")],
        id="an escaped single quote",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "delete": True, "content": None}]}</EDITS>',
        [Edit("a.md")],
        id="words of Python",
    ),
    pytest.param(f'<EDITS>{{// first\n/* and */ "edits": [{ONE}]}}</EDITS>', [A], id="comments"),
    pytest.param(
        r'<EDITS>{"edits": [{"path": "a.md", "content": "\d+ \' \/ \u00e9 \q"}]}</EDITS>',
        [Edit("a.md", "\\d+ ' / \u00e9 \\q")],
        id="escapes that JSON does not know",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "1\\\n2"}]}</EDITS>',
        [Edit("a.md", "12")],
        id="an escaped line break",
    ),
    pytest.param(
        r'<EDITS>{"edits": [{"path": "a.md", "content": "\ud83d\ude00 \ud83d \ud83d\u0041"}]}',
        [Edit("a.md", "\U0001f600 \ud83d \ud83dA")],
        id="surrogates",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "say </EDITS> twice: </EDITS>"}]}</EDITS>',
        [Edit("a.md", "say </EDITS> twice: </EDITS>")],
        id="content with the end tag",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "<EDITS>{}\\n<think>\\n```"}]}</EDITS>',
        [Edit("a.md", "<EDITS>{}\n<think>\n```")],
        id="content with tags and fences",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "\n<think>\nhm\n</think>\n"}]}</EDITS>',
        [Edit("a.md", "\n<think>\nhm\n</think>\n")],
        id="content with raw thinking",
    ),
    pytest.param(f"<think>{{not this}}</think>\n{BLOCK}", [A], id="thinking first"),
    pytest.param(
        f"<think>\n{BLOCK.replace('a.md', 'draft.md')}\n</think>\n{BLOCK}", [A], id="a draft"
    ),
    pytest.param(
        f"{BLOCK.replace('a.md', 'draft.md')}\n</think>\n{BLOCK}",
        [A],
        id="thinking that begins nowhere",
    ),
    pytest.param(f"<thinking>{{</thinking>{BODY}", [A], id="a bare object after thinking"),
    pytest.param(f"I write <EDITS>:\n{BLOCK}", [A], id="the tag in prose"),
    pytest.param(f'{BLOCK}\nand\n<EDITS>{{"edits": [{TWO}]}}</EDITS>', [A, B], id="several blocks"),
    pytest.param(f"<EDITS>{{oops</EDITS>\n{BLOCK}", [A], id="a broken block before a good one"),
    pytest.param(f"<EDITS>{ONE}</EDITS>", [A], id="one edit alone"),
    pytest.param(f"<EDITS>[{ONE}, {TWO}]</EDITS>", [A, B], id="a bare list"),
    pytest.param(f'<EDITS>{{"edits": {ONE}}}</EDITS>', [A], id="an edit where a list was due"),
    pytest.param(f"```json\n{BODY}\n```", [A], id="a fence and no tags"),
    pytest.param(f"Sure.\n{BODY}", [A], id="no tags at all"),
    pytest.param(f'Use {{braces}} {{}} {{"a": 1}} so: {ONE}, {TWO}', [A, B], id="objects in prose"),
    pytest.param(
        '<EDITS>{"edits": [{"file": "a.md", "content": ["1", "2"]}]}</EDITS>',
        [Edit("a.md", "1\n2")],
        id="a list of lines",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "search": "x", "replace": ""}]}</EDITS>',
        [Edit("a.md", search="x", replace="")],
        id="search and replace",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "edits": [{"old_string": "x", "new_string": "y"}, '
        '{"search": "1", "replace": "2"}]}]}</EDITS>',
        [Edit("a.md", search="x", replace="y"), Edit("a.md", search="1", replace="2")],
        id="several replacements of one file",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "x", "delete": "true"}]}</EDITS>',
        [Edit("a.md")],
        id="a deletion wins",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": "x", "delete": false}]}</EDITS>',
        [A],
        id="no deletion",
    ),
    pytest.param(
        '<EDITS>{"edits": [{"path": "a.md", "content": ""}]}</EDITS>',
        [Edit("a.md", "")],
        id="empty",
    ),
    pytest.param(
        '<EDITS>{"edits": [1, {"path": 2, "content": ""}, {"content": "z"}, {"path": "c"}, '
        f"{ONE}]}}</EDITS>",
        [A],
        id="one good among bad",
    ),
    pytest.param(
        f'<EDITS>{{"edits": [{ONE}], "confidence": 0.9, "steps": -1e3, "ok": null}}</EDITS>',
        [A],
        id="further fields",
    ),
]


@pytest.mark.parametrize(("reply", "edits"), CORPUS)
def test_a_reply_yields_its_edits(reply, edits):
    assert list(parse_edits(reply).edits) == edits


def test_the_corpus_is_large():
    assert len(CORPUS) >= 40


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Use shorter sentences.", "it has no EDITS block and no JSON object with edits"),
        ("", "it has no EDITS block and no JSON object with edits"),
        (f"<think>\n{BLOCK}", "it has no EDITS block and no JSON object with edits"),
        ("<EDITS></EDITS>", "the EDITS block has no JSON in it"),
        ('<EDITS>{"edits": [{"path": "a', "no JSON: a string does not end, in line 1 of the reply"),
        ("<EDITS>\n{edits: []}", "no JSON: a name in quotes was expected, in line 2"),
        ('<EDITS>{"edits" []}', "a colon was expected"),
        ('<EDITS>{"edits": nope}', "a value was expected"),
        ('<EDITS>{"edits": [1 2]}', "a comma or ']' was expected"),
        ('<EDITS>{"edits": [', "a value was expected"),
        ('<EDITS>{"edits": ' + "[" * 40, "nested more than 16 levels deep"),
        ('<EDITS>{"edits": [3]}', "an edit must be an object, not 3"),
        ('<EDITS>{"edits": [{"content": "x"}]}', "an edit names no path"),
        ('<EDITS>{"edits": [{"path": 3, "content": "x"}]}', "must be text, not 3"),
        ('<EDITS>{"edits": [{"path": "a.md"}]}', "'a.md': it has neither content"),
        ('<EDITS>{"edits": [{"path": "a.md", "content": [1]}]}', "'a.md': it has neither content"),
        ('<EDITS>{"edits": [{"path": "a.md", "search": "x"}]}', "'a.md': it has neither content"),
        ("x" * (MAX_PROPOSAL_CHARS + 1), "4000001 characters are more than 4000000"),
    ],
)
def test_what_cannot_be_read_says_why(reply, problem):
    read = parse_edits(reply)

    assert read.edits == ()
    [said] = read.problems
    assert problem in said


def test_a_block_without_edits_is_no_problem_of_its_own():
    assert parse_edits('<EDITS>{"rationale": "fine as it is", "edits": []}</EDITS>') == Edits(
        rationale="fine as it is",
        problems=("it has no EDITS block and no JSON object with edits",),
    )


paths = st.text(min_size=1, max_size=12)
edits = st.one_of(
    st.builds(Edit, paths, st.none() | st.text()),
    st.builds(Edit, paths, st.none(), st.text(), st.text()),
)
hostile = st.lists(
    st.sampled_from(
        ["</EDITS>", "<EDITS>", "<think>", "</think>", "\n", '"', "\\", "```", "{", "}"]
    )
).map("".join)


@given(st.lists(edits | st.builds(Edit, st.just("a.md"), hostile), min_size=1), st.text() | hostile)
def test_any_list_of_edits_survives_the_protocol(proposed, why):
    assert parse_edits(render_edits(proposed, why)) == Edits(tuple(proposed), why)


@given(st.lists(st.builds(Edit, st.just("a.md"), hostile), min_size=1))
def test_they_survive_without_escapes_for_other_alphabets_and_between_prose(proposed):
    record = {"edits": [{"path": edit.path, "content": edit.content} for edit in proposed]}
    text = json.dumps(record, ensure_ascii=False)

    assert parse_edits(f"So:\n<EDITS>```json\n{text}\n```</EDITS> Done.").edits == tuple(proposed)


@given(st.text() | hostile | st.text('{}[]",:\\<>/EDITS'))
def test_nothing_that_a_model_writes_raises(reply):
    assert isinstance(parse_edits(f"<EDITS>{reply}"), Edits)
    assert isinstance(parse_edits(reply), Edits)


@pytest.mark.parametrize(
    ("reply", "edits"),
    [
        (f'<EDITS>{{"edits": [{ONE}, {{"path": "c.md", "content": "a "b" c"}}]}}</EDITS>', [A]),
        (f'<EDITS>{{"edits": [{{"path": "c.md", "content": "a "b" c"}},\n{TWO}]}}</EDITS>', [B]),
        (f'<EDITS>{{"edits": [{ONE}, {{path: "c.md"}}, {TWO}]}}</EDITS>', [A, B]),
        (f'<EDITS>[{ONE}, {TWO}, {{"path": "c.md", "content": "cut he', [A, B]),
        (f'<EDITS>{{"edits": [{{"x": y}}]}}</EDITS> or <EDITS>{BODY}</EDITS>', [A]),
        (f'<EDITS>{{"edits": [{{"path": "c.md", "content": "such as {ONE}"}}]}}</EDITS>', []),
    ],
    ids=["before", "after", "around", "cut off", "in another block", "not what one quotes"],
)
def test_a_broken_edit_takes_no_other_with_it(reply, edits):
    read = parse_edits(reply)

    assert read.edits == tuple(edits)
    assert len(read.problems) == 1


@given(
    st.lists(st.sampled_from([ONE, TWO]), min_size=1, max_size=4),
    st.sampled_from(
        ['{"path": "c.md", "content": "a "b" c"}', "{path: 'c.md'}", '{"path" "c.md"}']
    ),
    st.integers(0, 4),
)
def test_wherever_a_broken_edit_stands_the_others_are_read(whole, broken, place):
    listed = [*whole[:place], broken, *whole[place:]]

    read = parse_edits(f'<EDITS>{{"edits": [{", ".join(listed)}]}}</EDITS>')

    assert [edit.path for edit in read.edits] == [json.loads(one)["path"] for one in whole]


@pytest.mark.parametrize(
    "piece",
    [
        *("{", '{"a":', "[", '"', "<EDITS>", "<EDITS>{", '{"a":[', "<think>"),
        *("{/*", "{//", "<EDITS>{/*", "{'\":{\"':", "<EDITS>[{},{\n", '{"a":"\\'),
    ],
)
def test_a_monotonous_reply_is_read_in_good_time(piece):
    assert parse_edits(piece * 20_000).edits == ()


def test_the_protocol_shows_what_it_reads():
    [example] = re.findall(r"<EDITS>.*</EDITS>", EDIT_PROTOCOL, re.DOTALL)

    assert [edit.path for edit in parse_edits(example).edits] == [
        "SKILL.md",
        "SKILL.md#Heading",
        "rules.md",
        "old.md",
    ]
