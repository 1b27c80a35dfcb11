"""Saving the search: whatever happens to the process, the next run goes on from here."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import anyio

from agentdescent.core.diff import State
from agentdescent.core.outcomes import StopReason
from agentdescent.core.search import Dumping
from agentdescent.core.store import CommitNote, SearchSave, SearchStore, Stored
from agentdescent.engine.messages import Snapshot
from agentdescent.errors import LedgerBusy
from agentdescent.result import EvolutionResult, RoundInfo

SCHEMA = 1
"""Of the document; a newer one is refused, unknown keys in an older one are ignored."""

PAGE_ENTRIES = 400
"""Evaluations or rounds in one page at most."""

PAUSE_S = 0.5
"""Without rounds, the least time between two saves that no commit asks for."""

SHARE = 10
"""With rounds, saves that no commit asks for take no more than this part of the time."""

EVALUATIONS, HISTORY = "evaluations", "history"


class Pages:
    """A growing list that is written page by page; what was written once never changes.

    Attributes:
        total: How many entries there are, written or not.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._written = 0
        self._waiting: list[Any] = []
        self.total: int = 0

    def add(self, entry: Any) -> None:
        """Append one entry, a JSON value."""
        self._waiting.append(entry)
        self.total += 1

    def unwritten(self) -> dict[str, bytes]:
        """The pages to write next, under names that sort as their entries came."""
        starts = range(0, len(self._waiting), PAGE_ENTRIES)
        return {
            f"{self._kind}/{self._written + index:08d}": b"".join(
                json.dumps(entry).encode() + b"\n"
                for entry in self._waiting[start : start + PAGE_ENTRIES]
            )
            for index, start in enumerate(starts)
        }

    def note_written(self, pages: Mapping[str, bytes]) -> None:
        """Forget the entries of `pages`, which `unwritten` gave and which are now in the ledger."""
        mine = [page for name, page in pages.items() if name.startswith(f"{self._kind}/")]
        self._written += len(mine)
        del self._waiting[: sum(page.count(b"\n") for page in mine)]


def entries(pages: Mapping[str, bytes], kind: str) -> list[Any]:
    """All entries of one kind, in the order in which they were added."""
    names = sorted(name for name in pages if name.startswith(f"{kind}/"))
    return [json.loads(line) for name in names for line in pages[name].splitlines()]


def rounds_of(document: Mapping[str, Any], pages: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The history of a saved search; what came after the last round counts to it in the end."""
    rounds: list[dict[str, Any]] = entries(pages, HISTORY)[: document["rounds"]]
    last: list[dict[str, Any]] = document.get("result", {}).get("history", [])
    return [*rounds[: len(rounds) - len(last)], *last]


class Search:
    """Writes down what the next decision depends on: with every commit, and after every round.

    A commit is saved together with the state in which its merge began, so that a run which is
    killed afterwards takes that merge again, and finds its commit made.

    Attributes:
        evaluations: Measurements of the held-out tasks.
        history: The rounds so far.
        made: Commits that a run before this one made in the merge that is taken again, by version.
    """

    def __init__(
        self,
        store: SearchStore,
        about: Mapping[str, Any],
        *,
        pause: float,
        head: Callable[[], Snapshot],
        spent: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Prepare to save.

        Args:
            store: Where to.
            about: Which search this is, as JSON values.
            pause: Seconds between two saves that no commit asks for.
            head: The newest version.
            spent: What counts at the moment of writing: budgets and usage.
        """
        self._store = store
        self._about = dict(about)
        self._pause = pause
        self._head = head
        self._spent = spent
        self._parts: dict[str, Dumping] = {}
        self._last: dict[str, Any] = {}
        self._next_save = 0.0
        self.evaluations: Pages = Pages(EVALUATIONS)
        self.history: Pages = Pages(HISTORY)
        self.made: dict[int, tuple[str, State]] = {}

    def keep(self, parts: Mapping[str, Dumping]) -> None:
        """Save these, under their names."""
        self._parts.update(parts)

    def go_on(self, evaluations: Iterable[Any], history: Iterable[RoundInfo]) -> None:
        """Save also what a search before this one had, once more."""
        for entry in evaluations:
            self.evaluations.add(entry)
        for info in history:
            self.history.add(asdict(info))

    async def begin(self) -> None:
        """Save what the start has cost; a ledger that is busy is asked again after a round.

        Raises:
            LedgerError: If it fails otherwise.
        """
        with suppress(LedgerBusy):
            await self._write(self._document("round"))

    def begin_merge(self) -> None:
        """Remember the state in which a merge begins."""
        self._last = self._document("merge")

    async def commit(self, entry: Stored, base: int, note: CommitNote) -> tuple[str, int]:
        """Commit, and save the state in which the merge began; raises as the ledger does."""
        made = self.made.pop(base + 1, None)
        if made is not None and made[1] == entry.state:
            return made[0], base + 1
        save = self._save(self._last)
        commit = await self._store.commit_with_search(entry, base, note, save)
        self._note_written(save)
        return commit

    async def end_round(self, info: RoundInfo) -> None:
        """Save the state after a round, unless the last save is recent enough.

        It may always be if saving takes far longer than a round: then half a second is at stake.
        A ledger that is busy is asked again after the next round.

        Raises:
            LedgerError: If it fails otherwise.
        """
        self.made.clear()
        self.history.add(asdict(info))
        self._last = self._document("round")
        began = anyio.current_time()
        if began >= self._next_save:
            with suppress(LedgerBusy):
                await self._write(self._last)
            took = anyio.current_time() - began
            self._next_save = began + max(self._pause, min(SHARE * took, PAUSE_S))

    async def finish(self, result: EvolutionResult) -> None:
        """Save how the run ended. After an error it can be continued from where it was.

        Raises:
            LedgerError: If that cannot be saved.
        """
        if result.stop_reason is StopReason.ERROR:
            await self._write(self._last)
            return
        record = result.record()
        record["history"] = record["history"][-1:]
        await self._write({**self._document("finished"), "result": record})

    async def _write(self, document: dict[str, Any]) -> None:
        self._last = document
        save = self._save(document)
        await self._store.save(save)
        self._note_written(save)

    def _document(self, phase: str) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            **self._about,
            "phase": phase,
            "head": self._head().version,
            "rounds": self.history.total,
            "parts": {name: part.dump() for name, part in self._parts.items()},
        }

    def _save(self, document: Mapping[str, Any]) -> SearchSave:
        pages = {**self.evaluations.unwritten(), **self.history.unwritten()}
        return SearchSave({**document, "spent": self._spent()}, pages)

    def _note_written(self, save: SearchSave) -> None:
        self.evaluations.note_written(save.pages)
        self.history.note_written(save.pages)
