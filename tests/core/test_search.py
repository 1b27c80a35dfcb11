import json

from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Diff, EvidenceCard, Task
from agentdescent.core.search import dump_card, load_cards

TASKS = {name: Task(name, f"solve {name}") for name in ("a", "b", "c")}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    st.lists,
    max_leaves=4,
)
diffs = st.builds(
    Diff,
    diff_id=st.text(),
    target=st.text(),
    ops=st.dictionaries(st.text(), json_values, max_size=3),
    contract_breaking=st.booleans(),
    author=st.text(),
)
cards = st.builds(
    EvidenceCard,
    diff=diffs,
    base_version=st.dictionaries(st.text(), st.integers(1), max_size=2),
    touched=st.lists(st.text(), max_size=2),
    before_after_delta=st.floats(-1, 1),
    trajectory_refs=st.lists(st.sampled_from(list(TASKS.values())), max_size=2),
    order=st.tuples(st.integers(0), st.integers(0)),
    verified=st.booleans(),
    refusals=st.integers(0),
    base_values=st.dictionaries(st.text(), json_values, max_size=2),
)


@given(cards)
def test_a_card_survives_being_written_as_json(card):
    (again,) = load_cards([json.loads(json.dumps(dump_card(card)))], TASKS)

    assert again == card
    assert again.base_values == card.base_values


def test_a_task_that_is_no_longer_there_is_left_out_of_its_card():
    card = EvidenceCard(Diff("d", "t", {"k": "v"}), {"t": 1}, trajectory_refs=list(TASKS.values()))

    (again,) = load_cards([dump_card(card)], {"b": TASKS["b"]})

    assert again.trajectory_refs == [TASKS["b"]]
