"""The cache: whole entries, no collisions, and a way to live without the network."""

import subprocess
import sys

import pytest

from agentdescent.data.cache import Download, cache_directory, store
from agentdescent.dataloader import hf_rows
from agentdescent.errors import FetchError
from support.hub import numbered


def test_a_larger_limit_fetches_only_what_is_missing(server, rows):
    assert rows(limit=64) == numbered(64)
    assert rows(limit=100) == numbered(100)
    assert server.offsets == [0]

    assert rows(limit=250) == numbered(250)
    assert server.offsets == [0, 100, 200]


def test_without_the_cache_nothing_is_kept(server, rows, cache):
    assert rows(cache=False) == rows(cache=False) == numbered(100)
    assert server.offsets == [0, 0]
    assert not cache.exists()


def damage_body(content):
    return content.replace(b'"n": 107}', b'"n": 108}')


def damage_header(content):
    return content.replace(b'"revision": null', b'"revision": "x"')


@pytest.mark.parametrize(
    "damage",
    [
        damage_body,
        damage_header,
        lambda content: content[:-1],
        lambda content: content[:10],
        lambda content: b"",
        lambda content: b"7\n" + content,
        lambda content: b'{"checksum": "x"}\n',
        lambda content: b"\xff",
    ],
)
def test_a_corrupt_entry_repairs_itself_once(server, rows, entries, damage):
    rows(limit=250)
    page = entries()[1]
    whole = page.read_bytes()
    page.write_bytes(damage(whole))
    assert page.read_bytes() != whole

    assert rows(limit=250) == rows(limit=250) == numbered(250)
    assert server.offsets == [0, 100, 100, 200]


def test_an_entry_that_is_whole_but_no_page_is_fetched_again(server, rows, entries):
    rows()
    store(entries()[0], Download(b"[]"))

    assert rows() == numbered(100)
    assert server.offsets == [0, 0]


def test_offline_the_cache_is_enough(server, rows, monkeypatch):
    rows(limit=250)
    monkeypatch.setenv("AGENTDESCENT_OFFLINE", "1")

    assert rows(limit=64) == numbered(64)
    assert len(server.queries) == 3


def test_offline_a_missing_entry_is_named_with_the_way_out(server, rows, entries, monkeypatch):
    rows(limit=64)
    [page] = entries()
    monkeypatch.setenv("AGENTDESCENT_OFFLINE", "1")

    with pytest.raises(FetchError) as caught:
        rows(limit=200)

    missing = page.with_name("rows-000000100")
    assert str(caught.value) == (
        "rows 100-199 of a/b (config 'default', split 'train'): AGENTDESCENT_OFFLINE forbids to "
        f"download it, and there is no whole and current entry {missing}; make the same call once "
        f"with network access and AGENTDESCENT_CACHE={page.parents[2]}, or copy that file from a "
        "cache that has it"
    )
    assert caught.value.attempts_made == 0
    assert len(server.queries) == 1


def test_offline_without_the_cache_nothing_can_be_read(rows, monkeypatch):
    monkeypatch.setenv("AGENTDESCENT_OFFLINE", "yes")

    with pytest.raises(FetchError, match="cache=False leaves nothing else to read it from"):
        rows(cache=False)


@pytest.mark.parametrize("value", ["0", "false", "No", "off", ""])
def test_offline_can_be_switched_off(rows, monkeypatch, value):
    monkeypatch.setenv("AGENTDESCENT_OFFLINE", value)

    assert rows(limit=1) == numbered(1)


FILL = """
import sys
from agentdescent.dataloader import hf_rows
sys.stdin.read(1)
rows = hf_rows("a/b", "train", limit=None, base_url=sys.argv[1])
assert rows == [{"n": n} for n in range(1950)], len(rows)
"""


def test_two_processes_fill_one_cache_at_once(server, rows, entries):
    server.total = 1950
    command = [sys.executable, "-c", FILL, server.url]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        process.stdin.write(b"x")
        process.stdin.close()

    assert [process.wait(15) for process in processes] == [0, 0]
    before = len(server.queries)
    assert rows(limit=None) == numbered(1950)
    assert len(server.queries) == before
    assert [path.name for path in entries()] == [f"rows-{n:09d}" for n in range(0, 1950, 100)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a/b", "train", "default"), ("a_b", "train", "default")),
        (("a/b", "x/y", "default"), ("a/b", "x_y", "default")),
        (("a/b", "c", "d_e"), ("a/b", "c_d", "e")),
        (("a", "b", "c"), ("A", "b", "c")),
        (("é", "..", "c"), ("è", "..", "c")),
        (("n" * 300, "s", "c"), ("n" * 301, "s", "c")),
    ],
)
def test_data_sets_never_share_an_entry(server, cache, entries, one, other):
    for dataset, split, config in (one, other, one, other):
        hf_rows(dataset, split, config=config, limit=1, base_url=server.url)

    assert len(server.queries) == 2
    paths = [path.relative_to(cache) for path in entries()]
    assert len({str(path).casefold() for path in paths}) == 2
    assert all(len(path.parts) == 3 and ".." not in path.parts for path in paths)


def test_servers_never_share_an_entry(new_server):
    one, other = new_server(), new_server()
    other.total = 3

    assert len(hf_rows("a/b", "train", base_url=one.url)) == 100
    assert len(hf_rows("a/b", "train", base_url=other.url)) == 3


def test_a_cache_that_cannot_be_written_costs_only_a_warning(rows, cache):
    cache.write_text("a file where the directory should be")

    with pytest.warns(
        RuntimeWarning, match=r"rows-000000000 could not be cached \(.*AGENTDESCENT_C"
    ):
        assert rows(limit=5) == numbered(5)


def test_a_failed_write_leaves_nothing_behind(cache, monkeypatch):
    (cache / "entry" / "inner").mkdir(parents=True)

    with pytest.raises(OSError, match="entry"):
        store(cache / "entry", Download(b"x"))

    assert [path.name for path in cache.iterdir()] == ["entry"]


def test_the_cache_is_in_the_users_directory_unless_another_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTDESCENT_CACHE", "~/here")
    assert cache_directory() == tmp_path / "here"
    monkeypatch.delenv("AGENTDESCENT_CACHE")
    assert cache_directory() == tmp_path / ".cache" / "agentdescent"


def test_a_new_revision_replaces_the_pages_of_the_old_one(server, rows):
    server.revision = "old"
    rows(limit=200)
    server.revision, server.total = "new", 420
    server.edit = lambda entry: {**entry, "row": {"n": -entry["row_idx"]}}

    assert rows(limit=200) == numbered(200)
    assert [row["n"] for row in rows(limit=None)] == [-n for n in range(420)]


def test_rows_that_change_while_they_are_read_are_refused(server, rows):
    revisions = iter("abcdefgh")

    def edit(entry):
        if entry["row_idx"] % 100 == 0:
            server.revision = next(revisions)
        return entry

    server.edit = edit

    with pytest.raises(FetchError, match=r"a/b .* changed while it was read; read it again"):
        rows(limit=200)
