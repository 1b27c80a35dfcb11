"""The saving of a search, and what it may cost a run: nothing but the search."""

import anyio
import pytest

from agentdescent import Aggregator, EvolutionResult, Ledger, async_evolve
from agentdescent.engine.search import EVALUATIONS, HISTORY, Pages, entries
from agentdescent.errors import LedgerBusy
from agentdescent.ledger import GitLedger, Step
from agentdescent.ledger.reader import read
from faults.children import check_with_git
from support.faults import Failing
from support.ledgers import commit
from support.worlds import PATIENT, World

ROUNDS = {"asynchronous": False, "n_workers": 4, "max_concurrency": 4, "rounds": 4}
BARRIER_FREE = {"n_workers": 4, "max_iters": 24, "max_seconds": 60}
SCHEDULES = pytest.mark.parametrize("schedule", [ROUNDS, BARRIER_FREE], ids=["rounds", "free"])

pytestmark = pytest.mark.asyncio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


class Busy(GitLedger):
    """Another writer is in the way of some saves and commits."""

    def __init__(self, path, saves=(), commits=()):
        super().__init__(path)
        self._saves, self._commits = list(saves), list(commits)

    async def save(self, save):
        self._hold_up(self._saves)
        await super().save(save)

    async def commit_with_search(self, entry, base, note, save):
        self._hold_up(self._commits)
        return await super().commit_with_search(entry, base, note, save)

    def _hold_up(self, calls):
        if calls and calls.pop(0):
            raise LedgerBusy("the lock of the git ledger was held by others for 30 s")


class Slow(GitLedger):
    """Every save takes a while."""

    def __init__(self, path, seconds):
        super().__init__(path)
        self.saves, self._seconds = 0, seconds

    async def save(self, save):
        self.saves += 1
        await anyio.sleep(self._seconds)
        await super().save(save)


class Quick(World):
    """An agent that answers at once."""

    def __init__(self):
        super().__init__()
        self.run_s = 0.002


class Impatient(Quick):
    """Whoever waits for it loses patience at the n-th call of `run`."""

    def __init__(self, scope=None, calls=-1):
        super().__init__()
        self._scope, self._calls = scope, calls

    async def run(self, rendered, task):
        if len(self.seen) == self._calls:
            self._scope.cancel()
        return await super().run(rendered, task)


async def test_pages_are_written_once_and_hold_no_more_than_their_number():
    pages = Pages(EVALUATIONS)
    for number in range(900):
        pages.add(number)

    first = pages.unwritten()
    pages.add(900)
    pages.note_written(first)
    second = pages.unwritten()

    assert sorted(first) == [f"evaluations/{n:08d}" for n in range(3)]
    assert [first[name].count(b"\n") for name in sorted(first)] == [400, 400, 100]
    assert list(second) == ["evaluations/00000003"]
    assert entries({**first, **second}, EVALUATIONS) == list(range(901))
    assert entries(first, HISTORY) == []


@SCHEDULES
async def test_a_ledger_that_is_busy_once_costs_nothing(path, schedule):
    busy = Busy(path, saves=[True], commits=[True, False])
    result = await async_evolve(**Quick().parts, **schedule, ledger=busy)

    assert (result.error, result.final_reward) == (None, 1.0)
    assert EvolutionResult.from_ledger(path) == result


async def test_a_ledger_that_is_never_free_for_a_save_costs_the_search_alone(path):
    busy = Busy(path, saves=[True] * 99)
    with pytest.warns(RuntimeWarning, match="how the run ended could not be saved"):
        result = await async_evolve(**Quick().parts, **ROUNDS, ledger=busy)

    assert (result.error, result.final_reward) == (None, 1.0)
    assert EvolutionResult.from_ledger(path).stop_reason == "interrupted"


@SCHEDULES
@pytest.mark.parametrize(("step", "nth"), [(Step.BRANCH_LOCKED, 3), (Step.SEARCH_WRITTEN, 2)])
async def test_a_dead_ledger_ends_the_run_with_the_artifact_in_hand(path, schedule, step, nth):
    dead = GitLedger(path, faults=Failing(step, nth, for_good=True))
    with pytest.warns(RuntimeWarning):
        result = await async_evolve(**Quick().parts, **schedule, ledger=dead)

    assert result.stop_reason == "error"
    assert result.error.startswith("LedgerFull: ")
    assert "git" in result.error
    assert result.state is not None
    check_with_git(path)


@pytest.mark.looptime(start=0)
async def test_saves_take_a_tenth_of_the_time_of_quick_rounds_at_most(path, looptime):
    slow = Slow(path, 0.02)
    await async_evolve(**World().parts, **{**ROUNDS, "rounds": 100}, ledger=slow)

    assert slow.saves * 0.02 < looptime / 5
    assert slow.saves > 20


@pytest.mark.looptime(start=0)
async def test_a_slow_ledger_is_asked_twice_a_second_at_least(path, looptime):
    slow = Slow(path, 0.4)
    await async_evolve(**World().parts, **{**ROUNDS, "rounds": 100}, ledger=slow)

    assert slow.saves >= looptime / 0.8


async def test_what_comes_after_the_last_round_is_part_of_the_stored_result(path):
    options = {**ROUNDS, "rounds": 2, "agg_config": PATIENT, "repo_path": path}

    result = await async_evolve(**Quick().parts, **options)
    again = await async_evolve(**Quick().parts, **options, resume="continue")

    assert result.history[-1].committed == 1
    assert again.history == result.history
    assert EvolutionResult.from_ledger(path) == result


class LastDeed(GitLedger):
    """Whoever waits for the run is gone when a commit has been made."""

    def __init__(self, path, scope):
        super().__init__(path)
        self._scope = scope

    async def commit_with_search(self, entry, base, note, save):
        made = await super().commit_with_search(entry, base, note, save)
        self._scope.cancel()
        return made


async def test_a_merge_that_had_committed_finds_its_commit_made(path):
    options = {**ROUNDS, "evaluation_key": "v1"}
    whole = await async_evolve(**Quick().parts, **options, repo_path=path.parent / "whole")
    with anyio.CancelScope() as scope:
        await async_evolve(**Quick().parts, **options, ledger=LastDeed(path, scope))
    commits = [version.commit for version in Ledger(path).history()]

    result = await async_evolve(**Quick().parts, **options, repo_path=path, resume="continue")

    assert len(commits) == 2
    assert [version.commit for version in Ledger(path).history()][:2] == commits
    assert (result.state, result.version) == (whole.state, whole.version)
    assert [info.reasons for info in result.history] == [info.reasons for info in whole.history]


class Offline(Quick):
    """An agent that gives no answer for as long as it is told."""

    def __init__(self, *, down):
        super().__init__()
        self._down = down

    async def run(self, rendered, task):
        if self._down:
            raise ConnectionError("no answer")
        return await super().run(rendered, task)


async def test_a_run_that_its_backend_ended_goes_on(path):
    options = {**ROUNDS, "repo_path": path, "evaluation_key": "v1", "max_worker_errors": 1}
    with pytest.warns(RuntimeWarning, match="the run stopped early"):
        first = await async_evolve(**Offline(down=True).parts, **options)

    second = await async_evolve(**Offline(down=False).parts, **options, resume="continue")

    assert first.stop_reason == "error"
    assert second.resumed_from.whole
    assert (second.stop_reason, second.final_reward) == ("rounds", 1.0)


async def test_other_rewards_leave_measurements_behind_with_a_warning(path):
    await async_evolve(**Quick().parts, **ROUNDS, repo_path=path, evaluation_key="v1")
    with pytest.warns(RuntimeWarning, match="run, reward or evaluation_key is another"):
        result = await async_evolve(**Quick().parts, **ROUNDS, repo_path=path, evaluation_key="v2")

    assert result.resumed_from.evaluations == 0


class Deaf(Aggregator):
    """Takes no evidence."""

    async def ingest(self, card):
        raise ConnectionError("nobody listens")


async def test_evidence_that_nobody_took_is_judged_unless_others_have_made_the_change(path):
    options = {**ROUNDS, "rounds": 1, "repo_path": path}
    await async_evolve(**Quick().parts, **options, aggregator_factory=Deaf)
    found = read(path, "read", lambda reader: reader.last_search("artifact"))
    waiting = [card["diff"]["ops"] for card in found.document["parts"]["merger"]]
    ledger = GitLedger(path)
    await ledger.open()
    await commit(ledger, waiting[0], 1, "artifact")
    await ledger.close()

    result = await async_evolve(**Quick().parts, **options)

    assert (len(waiting), result.resumed_from.cards) == (4, 3)
    assert result.resumed_from.version == 2
    assert result.state == {key: value for ops in waiting for key, value in ops.items()}


@SCHEDULES
@pytest.mark.parametrize("calls", [3, 17, 29])
async def test_a_cancelled_run_leaves_a_clean_ledger_and_can_be_continued(path, schedule, calls):
    options = {**schedule, "repo_path": path, "evaluation_key": "v1"}
    with anyio.CancelScope() as scope:
        world = Impatient(scope, calls)
        await async_evolve(**world.parts, **options)
    n_calls = len(world.calls)
    check_with_git(path)
    owners = list((path / ".git" / "agentdescent-owners").iterdir())
    locks = list((path / ".git" / "refs").rglob("*.lock"))
    result = await async_evolve(**Impatient().parts, **options, resume="continue")

    assert scope.cancelled_caught
    assert (owners, locks) == ([], [])
    assert len(world.calls) == n_calls
    assert result.final_reward == 1.0
    if schedule is ROUNDS:
        whole = await async_evolve(**Impatient().parts, **options | {"repo_path": f"{path}-2"})
        assert [round_.reasons for round_ in result.history] == [
            round_.reasons for round_ in whole.history
        ]
        assert result.state == whole.state
