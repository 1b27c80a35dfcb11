import anyio
import pytest

from agentdescent.aggregator import AggregatorConfig, EvidenceBuffer, EvidenceCard
from agentdescent.core.diff import Diff

EAGER = AggregatorConfig(batch_trigger=2, max_wait_rounds=1)
PATIENT = AggregatorConfig(batch_trigger=3, max_wait_rounds=2)


def card(name, target="skill"):
    return EvidenceCard(Diff(name, target, {name: "x"}), {target: 1})


def filled(*names):
    buffer = EvidenceBuffer()
    for name in names:
        buffer.add(card(name))
    return buffer


def names(cards):
    return [card.diff.diff_id for card in cards]


def waiting_names(buffer, target="skill"):
    batch = buffer.lease(target)
    found = names(batch.cards)
    batch.restore()
    return found


def test_a_bucket_is_due_at_the_trigger():
    buffer = filled("a", "b")
    assert buffer.due(PATIENT) == []

    buffer.add(card("c"))

    assert buffer.due(PATIENT) == ["skill"]


def test_a_bucket_is_due_once_it_has_waited():
    buffer = filled("a")
    due = []
    for _ in range(2):
        buffer.tick()
        due.append(buffer.due(PATIENT))

    assert due == [[], ["skill"]]


def test_with_the_defaults_whatever_waits_is_due_at_every_step():
    buffer = filled("a")
    buffer.tick()

    assert buffer.due(AggregatorConfig()) == ["skill"]


def test_cards_are_kept_apart_by_artifact():
    buffer = filled("a", "b")
    buffer.add(card("c", "other"))

    assert buffer.waiting() == ["skill", "other"]
    assert buffer.pending() == 3
    assert names(buffer.lease("other").cards) == ["c"]
    assert buffer.waiting() == ["skill"]


def test_a_lease_takes_the_cards_and_starts_the_wait_anew():
    buffer = filled("a")
    buffer.tick()
    buffer.lease("skill").commit()
    buffer.add(card("b"))

    assert buffer.due(PATIENT) == []
    assert buffer.pending() == 1


def test_a_lease_of_nothing_is_an_empty_batch():
    buffer = EvidenceBuffer()

    with buffer.lease("skill") as batch:
        assert batch.cards == []

    assert buffer.waiting() == []


def test_what_a_batch_leaves_out_waits_in_front():
    buffer = filled("a", "b")
    batch = buffer.lease("skill")
    buffer.add(card("late"))

    batch.commit([batch.cards[1]])

    assert waiting_names(buffer) == ["b", "late"]


def test_restoring_puts_every_card_back_in_front_with_the_wait_it_had():
    buffer = filled("a", "b")
    buffer.tick()
    buffer.tick()
    batch = buffer.lease("skill")
    buffer.add(card("late"))

    batch.restore()

    assert buffer.due(AggregatorConfig(batch_trigger=9, max_wait_rounds=2)) == ["skill"]
    assert waiting_names(buffer) == ["a", "b", "late"]


def test_a_batch_is_given_up_once():
    buffer = filled("a")
    batch = buffer.lease("skill")
    batch.restore()
    batch.restore()
    batch.commit()

    assert waiting_names(buffer) == ["a"]


def test_leaving_the_block_commits():
    buffer = filled("a")

    with buffer.lease("skill"):
        pass

    assert buffer.pending() == 0


def test_leaving_the_block_keeps_what_was_left_out_before():
    buffer = filled("a", "b")

    with buffer.lease("skill") as batch:
        batch.commit(batch.cards[:1])

    assert waiting_names(buffer) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, BaseException])
def test_any_exception_restores(error):
    buffer = filled("a", "b")

    with pytest.raises(error), buffer.lease("skill"):
        raise error

    assert waiting_names(buffer) == ["a", "b"]


@pytest.mark.asyncio
async def test_cancellation_restores():
    buffer = filled("a", "b")

    with anyio.move_on_after(0):
        with buffer.lease("skill"):
            await anyio.sleep_forever()

    assert waiting_names(buffer) == ["a", "b"]
