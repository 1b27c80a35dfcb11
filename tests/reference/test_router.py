"""The router: known sizes, a table that can be read back, and noise that is drawn, not fixed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Evolvable, Task
from agentdescent.core.diff import Diff
from agentdescent.core.evidence import EvidenceCard
from agentdescent.reference import (
    RouterSkill,
    RouterStrategy,
    RouterTask,
    clustered,
    make_task_universe,
    router_propose,
    router_reward,
    router_run,
)
from agentdescent.reference.router import SUBJECTS, routes

UNIVERSE = make_task_universe()
TRAIN, HELD_OUT = UNIVERSE.split()
TASKS = clustered(TRAIN, HELD_OUT)
TABLES = st.dictionaries(st.sampled_from(sorted(UNIVERSE.gold)), st.sampled_from(SUBJECTS))


def sizes(tasks):
    return [len(task.meta["items"]) for task in tasks]


def test_the_default_universe_is_always_the_same():
    assert make_task_universe(seed=7) == UNIVERSE
    assert (len(TRAIN), len(HELD_OUT)) == (172, 116)
    assert [len(cluster) for cluster in UNIVERSE.clusters()] == [48, 36, 24, 96, 36, 48]
    assert (sizes(TASKS.train), sizes(TASKS.held_out)) == (
        [30, 21, 18, 52, 22, 29],
        [20, 20, 19, 19, 19, 19],
    )


def test_buckets_without_keywords_make_no_cluster():
    assert len(UNIVERSE.clusters(12)) == 11
    assert len(clustered(TRAIN, HELD_OUT, 12).train) == 11


def test_every_cluster_to_learn_from_has_keywords_of_its_own():
    keywords = [keyword for task in TASKS.train for keyword in task.meta["keywords"]]

    assert sorted(keywords) == sorted(UNIVERSE.gold)


def test_the_positional_split_parts_the_clusters_exactly():
    assert TASKS.all[-round(len(TASKS.all) * TASKS.held_out_frac) :] == list(TASKS.held_out)


def test_no_keyword_is_part_of_another():
    gold = make_task_universe(n_keywords=120, tasks_per_keyword=1).gold

    assert {len(keyword) for keyword in gold} == {5}


def test_the_gold_table_labels_everything_and_an_empty_one_nothing():
    assert RouterSkill(table=UNIVERSE.gold).accuracy(HELD_OUT) == 1.0
    assert RouterSkill().accuracy(HELD_OUT) == 0.0
    assert RouterSkill().classify("hello-kw00-0") == "unknown"


def test_the_first_keyword_in_their_order_decides():
    skill = RouterSkill(table={"kw01": "returns", "kw00": "billing"})

    assert skill.classify("kw01 kw00") == "billing"


def test_a_skill_is_an_evolvable():
    skill = RouterSkill()
    edited = skill.apply(Diff("d", skill.id, {"kw00": "billing"}))

    assert isinstance(skill, Evolvable)
    assert (edited.version, edited.table) == (2, {"kw00": "billing"})


@given(TABLES, TABLES)
def test_a_diff_leads_from_one_table_to_the_other(one, other):
    skill = RouterSkill(table=one)

    assert skill.apply(skill.diff(RouterSkill(table=other))).table == other


def test_evidence_is_the_accuracy_on_its_clusters():
    card = EvidenceCard(Diff("d", "mol-router"), {}, trajectory_refs=[TASKS.train[0], "elsewhere"])

    assert RouterSkill(table=UNIVERSE.gold).evidence_eval(card) == 1.0
    assert RouterSkill().evidence_eval(EvidenceCard(card.diff, {})) == 0.0


@given(TABLES)
def test_a_rendered_table_can_be_read_back(table):
    assert routes(RouterStrategy().render(table)) == table


def test_an_empty_table_says_so():
    assert RouterStrategy().render(RouterStrategy().initial()) == "# Routes\n(empty)"


def test_a_diff_has_the_first_rows_that_are_news():
    rows = "kw03: billing\nkw00: billing\nkw02: other\nkw01: returns"

    diff = RouterStrategy(max_ops=2).to_diff({"kw00": "billing"}, rows, "w1", 4, "router")

    assert diff.ops == {"kw01": "returns", "kw02": "other"}
    assert (diff.diff_id, diff.target, diff.author) == ("w1:kw01-kw02:4", "router", "w1")


def test_rows_that_are_known_make_no_diff():
    assert RouterStrategy().to_diff({"kw00": "billing"}, "kw00: billing", "w1", 1, "r") is None


def test_running_labels_every_text_of_a_cluster():
    gold = RouterStrategy().render(UNIVERSE.gold)
    task = TASKS.held_out[0]

    assert router_run(gold, task).splitlines() == [label for _, label, _ in task.meta["items"]]
    assert router_reward(task, router_run(gold, task)) == 1.0


def cluster(*keywords):
    items = [RouterTask(f"please-{key}-0", UNIVERSE.gold[key], key) for key in keywords]
    return Task("c", "", {"items": [(item.text, item.label, item.keyword) for item in items]})


def test_a_line_that_is_missing_is_wrong():
    assert router_reward(cluster("kw00", "kw01"), "billing") == 0.5


def test_a_reflector_names_the_first_keywords_that_went_wrong():
    task = cluster("kw05", "kw00", "kw01", "kw02")
    propose = router_propose(UNIVERSE.gold, max_ops=2)

    assert propose("", task, "other", 0.25) == "kw00: billing\nkw01: shipping"
    assert propose("", task, router_run(RouterStrategy().render(UNIVERSE.gold), task), 1.0) is None


def test_what_is_drawn_depends_on_the_task_and_the_turn_alone():
    a, b = cluster("kw00", "kw01"), TASKS.train[0]
    one, other = (router_propose(UNIVERSE.gold, 0.5, seed=3) for _ in range(2))

    first = [one("", a, "", 0.0), one("", a, "", 0.0), one("", b, "", 0.0)]
    second = [other("", b, "", 0.0), other("", a, "", 0.0), other("", a, "", 0.0)]

    assert first == [second[1], second[2], second[0]]


def test_noise_is_a_stream_not_a_mask():
    propose = router_propose(UNIVERSE.gold, noise=0.5)

    labels = {propose("", cluster("kw00"), "", 0.0) for _ in range(40)}

    assert "kw00: billing" in labels
    assert len(labels) > 3


@pytest.mark.parametrize(("noise", "is_right"), [(0.0, True), (1.0, False)])
def test_noise_is_the_share_of_wrong_rows(noise, is_right):
    rows = routes(router_propose(UNIVERSE.gold, noise)("", TASKS.train[0], "", 0.0))

    assert len(rows) == 4
    assert {label == UNIVERSE.gold[key] for key, label in rows.items()} == {is_right}
