"""Rows from files: what is read, and how wrong lines are named."""

import pytest

from agentdescent.dataloader import read_csv, read_jsonl, tasks_from

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.txt"

    def write(content):
        path.write_bytes(content)
        return path

    return write


def test_each_line_is_an_object(file):
    path = file(BOM + b'{"id": "a", "q": "\xc3\xa9"}\r\n\n  \n{"id": "b", "q": "\xe2\x80\xa8"}')

    assert read_jsonl(path) == [{"id": "a", "q": "é"}, {"id": "b", "q": "\u2028"}]
    assert read_jsonl(str(path)) == read_jsonl(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n\n{"a": 1\n', r"rows.txt, line 3: no JSON: .*; the line is b'\{\"a\": 1'"),
        (b'{"a": 1}\n[1]', r"rows.txt, line 2: not an object in braces but \[1\]"),
        (
            b'{"id": 1}\n{"id": 2}\n{"id": "1"}',
            "line 3: the id '1' is that of line 1 already; .*id=No",
        ),
        (b'{"a": 1}\n{"a": "\xff"}', "line 2: byte 0xff at position 8 is not UTF-8; convert"),
        (b"[" * 100_000, "line 1: nested too deeply"),
        (b"\n", "rows.txt has no rows"),
        (b"", "rows.txt has no rows"),
    ],
)
def test_a_wrong_line_of_json_is_named(file, content, message):
    with pytest.raises(ValueError, match=message):
        read_jsonl(file(content))


def test_ids_may_be_elsewhere_or_not_count(file):
    path = file(b'{"id": 1, "key": 1}\n{"id": 1, "key": 2}\n{}')

    assert len(read_jsonl(path, id="key")) == 3
    assert len(read_jsonl(path, id=None)) == 3


def test_a_table_becomes_rows_of_text(file):
    path = file(BOM + b'id,q\r\na,"two\nlines, ""quoted"""\r\n\r\nb,\xc3\xa9\r\n')

    assert read_csv(path) == [{"id": "a", "q": 'two\nlines, "quoted"'}, {"id": "b", "q": "é"}]


def test_cells_may_be_delimited_by_tabs(file):
    assert read_csv(file(b"a\tb\n1\t2,3\n"), delimiter="\t") == [{"a": "1", "b": "2,3"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n"x\ny",1\n1\n', r"line 4: 1 cells, but the header has 2: \['a', 'b'\]"),
        (b"a\n1,2\n", "line 2: 2 cells"),
        (b"\na,a\n1,2\n", r"line 2: each column needs a name of its own; these are not: \['a'\]"),
        (b"a,\n1,2\n", r"line 1: .*: \[''\]"),
        (b'a\n"x\n', "line 2: no CSV: unexpected end of data"),
        (b'id,a\n1,x\n"2",y\n1,z\n', "line 4: the id '1' is that of line 2 already"),
        (b"a,b\n1,2\n3,\xe9\n", "line 3: byte 0xe9 at position 3 is not UTF-8"),
        (b"a,b\n", "rows.txt has no rows"),
        (b"", "rows.txt has no rows"),
    ],
)
def test_a_wrong_line_of_a_table_is_named(file, content, message):
    with pytest.raises(ValueError, match=message):
        read_csv(file(content))


def test_rows_of_a_file_become_tasks(file):
    rows = read_csv(file(b"id,context,question,answer\n7,Sky.,Colour?,blue\n"))

    [task] = tasks_from(rows, prompt="{context}\n\n{question}", gold="answer", id="id")

    assert (task.id, task.prompt, task.meta) == ("7", "Sky.\n\nColour?", {"gold": "blue"})


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        read_jsonl(tmp_path / "none.jsonl")
