from random import Random

import anyio
import pytest

from agentdescent.aggregator import AggregatorConfig, Verdict
from agentdescent.core.diff import Diff
from agentdescent.core.task import Task
from agentdescent.errors import LedgerBusy
from agentdescent.merge.commit import Committer, commit_note
from support.merging import lines_of, make_bench, rival

WON, LOST = (Task("h0", ""), Task("h1", "")), (Task("h2", ""),)
JUDGED = Verdict(True, 0.7, 0.5, 0.25, 0.375, 8, 8, WON, LOST)
OURS = Diff("w0:y", "skill", {"y": "2"}, author="w0")


async def commit(at, merge=None, diff=OURS, **knobs):
    merge = merge or at.merge(at.card(dict(diff.ops)))
    committer = Committer(at.ledger, AggregatorConfig(**{"cas_backoff": 0.0, **knobs}), Random(1))
    version = await committer.commit(merge, at.head.apply(diff), diff, JUDGED)
    return version, merge


@pytest.mark.asyncio
async def test_a_candidate_becomes_the_next_version():
    at = make_bench()

    version, merge = await commit(at)

    assert (version, dict(at.head.state)) == (2, {"y": "2"})
    assert (merge.committed, merge.outrun) == (OURS, None)


@pytest.mark.asyncio
async def test_behind_a_rival_the_diff_is_applied_to_what_the_rival_made():
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]

    version, merge = await commit(at)

    assert (version, dict(at.head.state)) == (3, {"x": "1", "y": "2"})
    assert merge.committed == OURS


@pytest.mark.asyncio
async def test_a_commit_on_a_newer_head_claims_no_measured_reward():
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]

    await commit(at)
    await commit(at)

    assert [note.reward for note in at.ledger.notes] == [None, (0.25, 0.375)]


@pytest.mark.asyncio
async def test_rivals_at_every_attempt_win():
    at = make_bench()
    at.ledger.rivals = [rival(x=str(i)) for i in range(9)]

    version, merge = await commit(at, cas_attempts=3)

    assert (version, dict(at.head.state)) == (None, {"x": "2"})
    assert (merge.committed, merge.outrun) == (None, OURS)
    assert len(at.ledger.rivals) == 6


@pytest.mark.asyncio
async def test_a_lost_race_leaves_the_newest_head_in_sight():
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]

    await commit(at, cas_attempts=1)

    assert (await at.ledger.snapshot()).version == {"skill": 2}


@pytest.mark.asyncio
async def test_the_same_change_by_a_rival_is_not_committed_again():
    at = make_bench()
    at.ledger.rivals = [rival(y="2")]

    version, merge = await commit(at)

    assert (version, at.head.version, merge.outrun) == (None, 2, OURS)


@pytest.mark.asyncio
async def test_an_artifact_that_is_gone_is_not_committed():
    at = make_bench()
    at.ledger.rivals = [lambda ledger: ledger.artifacts.clear()]
    candidate = at.head.apply(OURS)
    merge = at.merge()

    committer = Committer(at.ledger, AggregatorConfig(cas_backoff=0.0))

    assert await committer.commit(merge, candidate, OURS, JUDGED) is None
    assert merge.outrun == OURS


@pytest.mark.asyncio
async def test_other_ledger_errors_are_not_survived():
    at = make_bench()
    at.ledger.failures = [LedgerBusy("locked")]

    with pytest.raises(LedgerBusy):
        await commit(at)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_wait_between_attempts_doubles_and_is_drawn():
    at = make_bench()
    at.ledger.rivals = [rival(x=str(i)) for i in range(3)]

    await commit(at, cas_attempts=4, cas_backoff=1.0)

    drawn = Random(1)
    waits = [drawn.uniform(0, 1.0) * 2**attempt for attempt in range(3)]
    assert anyio.current_time() == pytest.approx(sum(waits), abs=1e-4)


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_nobody_waits_after_the_last_attempt(looptime):
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]

    await commit(at, cas_attempts=1, cas_backoff=60.0)

    assert looptime == 0


@pytest.mark.asyncio
@pytest.mark.looptime(start=0)
async def test_the_wait_can_be_cancelled():
    at = make_bench()
    at.ledger.rivals = [rival(x="1")]

    with anyio.move_on_after(0.001) as scope:
        await commit(at, cas_backoff=3600.0)

    assert scope.cancelled_caught
    assert dict(at.head.state) == {"x": "1"}


def test_a_note_names_the_author_and_base_of_every_proposal():
    at = make_bench()
    cards = [at.card(a="1", author="w2", base=7), at.card(b="1", author="w0", base=6)]

    note = commit_note(at.merge(*cards), Diff("f", "skill", {"a": "1", "b": "1"}), JUDGED)

    assert note.subject == "merge w2:7 + w0:6"
    assert (note.category, note.reward) == ("committed", (0.25, 0.375))


@pytest.mark.parametrize(
    ("n", "subject"),
    [(4, "merge w0:1 + w1:1 + w2:1 + w3:1"), (6, "merge w0:1 + w1:1 + w2:1 + w3:1 + 2 more")],
)
def test_a_long_note_names_the_first_four(n, subject):
    at = make_bench()
    ops = {f"k{i}": "1" for i in range(n)}
    cards = [at.card({key: "1"}) for key in ops]

    assert commit_note(at.merge(*cards), Diff("f", "skill", ops), JUDGED).subject == subject


def test_a_note_for_an_edit_of_no_card_names_the_edit():
    assert commit_note(make_bench().merge(), OURS, JUDGED).subject == "merge w0:y"


def test_a_note_says_what_speaks_for_the_commit():
    at = make_bench()
    merge = at.merge(at.card(a="1"), at.card(b="1"), at.card(a="1"))
    merge.blamed = 2

    lines = lines_of(commit_note(merge, Diff("f", "skill", {"a": "1", "b": "1"}), JUDGED))

    assert lines[1:] == [
        "2 proposals fused; no two of them disagree on a key.",
        "Held responsible for lost tasks: 2.",
        "P(delta>0) = 0.70 > 0.50; of 8 held-out tasks 2 won, 1 lost.",
    ]


def test_a_note_for_one_proposal_says_no_more_than_the_verdict():
    at = make_bench()

    lines = lines_of(commit_note(at.merge(at.card(y="2")), OURS, JUDGED))

    assert lines == [
        "merge w0:1",
        "P(delta>0) = 0.70 > 0.50; of 8 held-out tasks 2 won, 1 lost.",
    ]
