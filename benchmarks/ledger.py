"""What a commit costs beside bare pygit2, and whether it stays so; opening, loop lag, files."""

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2
from _bench import Row, median, ratio, run_benchmark, take_turns

from agentdescent.core.artifact import TEXT_CONTRACT
from agentdescent.core.store import CommitNote, Stored
from agentdescent.ledger import Durability, GitLedger

CLAIM = "commit time next to bare pygit2 at both levels, growth, opening, loop lag, files left"
N_KEYS = 20
BARS = {"process": 2.5, "power": 15.0}
LAG_BAR_MS, FLAT_BAR, FILES_BAR, SIZE_BAR = 10.0, 1.3, 20, 1.5
SLEEP_S = 0.001
SIGNATURE = pygit2.Signature("bench", "bench@example.org", 0, 0)


def state(version: int, n_keys: int = N_KEYS) -> dict[str, str]:
    """Some keys, one of which changes with each version."""
    return {f"key {i}": f"value {version - (version - i) % n_keys}\n" * 20 for i in range(n_keys)}


def entry(version: int, n_keys: int = N_KEYS) -> Stored:
    return Stored("skill", state(version, n_keys), 0, 0.2, TEXT_CONTRACT)


@contextmanager
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bench-ledger-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def committed(path: Path, n: int, durability: Durability = "process") -> list[float]:
    """Seconds of each of `n` commits on top of what is there."""
    ledger = GitLedger(path, durability=durability)
    await ledger.open()
    version = (await ledger.register(entry(1))).version
    times: list[float] = []
    for _ in range(n):
        following = entry(version + 1)
        began = time.perf_counter()
        async with ledger.locked():
            _, version = await ledger.commit(following, version, CommitNote("bench"))
        times.append(time.perf_counter() - began)
    await ledger.close()
    return times


def ours(n: int, durability: Durability) -> float:
    with place() as path:
        return statistics.median(asyncio.run(committed(path, n, durability))) * 1e6


def bare(n: int) -> float:
    """The same content by pygit2 alone: two blobs, five trees, a commit, a branch."""
    with place() as path:
        repository = pygit2.init_repository(path, bare=True)
        times: list[float] = []
        parents: list[pygit2.Oid] = []
        for version in range(1, n + 2):
            began = time.perf_counter()
            parents = [write(repository, version, parents)]
            times.append(time.perf_counter() - began)
        repository.free()
        return statistics.median(times[1:]) * 1e6


def write(repository: pygit2.Repository, version: int, parents: list[pygit2.Oid]) -> pygit2.Oid:
    old = repository[parents[0]].peel(pygit2.Tree) if parents else None
    below = old["artifacts/skill/state"] if old else None
    builder = repository.TreeBuilder(below) if below else repository.TreeBuilder()
    content = state(version)
    for key in content if not old else [f"key {version % N_KEYS}"]:
        blob = repository.create_blob(content[key].encode())
        builder.insert(key, blob, pygit2.enums.FileMode.BLOB)
    oid = builder.write()
    for name in ("state", "skill", "artifacts"):
        builder = repository.TreeBuilder()
        builder.insert(name, oid, pygit2.enums.FileMode.TREE)
        if name == "artifacts":
            listing = repository.create_blob(f'{{"version": {version}}}\n'.encode())
            builder.insert("ledger.json", listing, pygit2.enums.FileMode.BLOB)
        oid = builder.write()
    message = f"version {version}"
    return repository.create_commit("refs/heads/dev", SIGNATURE, SIGNATURE, message, oid, parents)


def costs(quick: bool) -> Iterable[Row]:
    n = 40 if quick else 300
    figures = take_turns(
        {
            "bare pygit2": lambda: bare(n),
            "process": lambda: ours(n, "process"),
            "power": lambda: ours(n, "power"),
        },
        2 if quick else 7,
    )
    for name, bar in BARS.items():
        times = ratio(figures[name], figures["bare pygit2"])
        yield {
            "durability": name,
            "commit p50 us": median(figures[name]),
            "bare us": median(figures["bare pygit2"]),
            "to bare": times,
            "bar": bar,
            "reached": times <= bar,
        }


def growth(quick: bool) -> Iterable[Row]:
    n = 2_000 if quick else 10_000
    with place() as path:
        times = asyncio.run(committed(path, n))
        first, last = (statistics.median(part) for part in (times[: n // 10], times[-n // 10 :]))
        yield {
            "commits": n,
            "first tenth p50 us": first * 1e6,
            "last tenth p50 us": last * 1e6,
            "growth": last / first,
            "bar": FLAT_BAR,
            "reached": last / first <= FLAT_BAR,
        }
        yield left(path, n)


def left(path: Path, n: int) -> Row:
    """Files and size after closing; size next to what git itself makes of it."""
    files = [file for file in path.rglob("*") if file.is_file()]
    loose = sum(1 for _ in path.glob(".git/objects/??/*"))
    ours_kib, gits_kib = kib(path / ".git/objects"), packed_by_git(path)
    return {
        "after closing, commits": n,
        "files": len(files) - loose,
        "loose": loose,
        "KiB": ours_kib,
        "git gc KiB": gits_kib,
        "ratio": ours_kib / gits_kib,
        "reached": len(files) - loose <= FILES_BAR and ours_kib <= SIZE_BAR * gits_kib,
    }


def kib(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1024


def packed_by_git(path: Path) -> float:
    with place() as away:
        command = ("git", "clone", "--quiet", "--mirror", f"file://{path}", str(away / "copy"))
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(("git", "-C", str(away / "copy"), "gc", "--quiet"), check=True)
        return kib(away / "copy/objects")


def opening(quick: bool) -> Iterable[Row]:
    for n_keys in (20, 500):
        with place() as path:
            asyncio.run(grown(path, n_keys))
            times = [asyncio.run(opened(path)) * 1000 for _ in range(5 if quick else 15)]
            bar = 20.0 + 0.04 * n_keys
            yield {
                "keys": n_keys,
                "clean open p50 ms": median(times),
                "bar ms": bar,
                "reached": median(times) <= bar,
            }


async def grown(path: Path, n_keys: int) -> None:
    ledger = GitLedger(path)
    await ledger.open()
    await ledger.register(entry(1, n_keys))
    await ledger.close()


async def opened(path: Path) -> float:
    ledger = GitLedger(path)
    began = time.perf_counter()
    await ledger.open()
    took = time.perf_counter() - began
    await ledger.close()
    return took


def lag(quick: bool) -> Iterable[Row]:
    n = 100 if quick else 1_000
    idle = asyncio.run(lag_during(asyncio.sleep(0.5 if quick else 3.0)))
    for durability in ("process", "power"):
        with place() as path:
            busy = asyncio.run(lag_during(committed(path, n, durability)))
        yield {
            "loop lag while": durability,
            "idle p99 ms": idle,
            "p99 ms": busy,
            "bar ms": idle + LAG_BAR_MS,
            "reached": busy <= idle + LAG_BAR_MS,
        }


async def lag_during(work) -> float:
    """99th percentile, in ms, of how much too late a sleeper wakes while `work` goes on."""
    late: list[float] = []

    async def sleep() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(SLEEP_S)
            late.append((time.perf_counter() - began - SLEEP_S) * 1000)

    sleeper = asyncio.create_task(sleep())
    await work
    sleeper.cancel()
    return sorted(late)[int(len(late) * 0.99)]


def measure(quick: bool) -> Iterable[Row]:
    print(f"on {os.uname().sysname} in {tempfile.gettempdir()}")
    yield from costs(quick)
    yield from opening(quick)
    yield from lag(quick)
    yield from growth(quick)


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
