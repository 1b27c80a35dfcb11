"""The control: the same calls for every arm, and where merging is not ahead."""

import asyncio
from random import Random

import pytest

from agentdescent import Task

SEEDS = range(3)


@pytest.fixture(scope="module")
def control(benchmark_module):
    return benchmark_module("control")


def rows(control, family):
    comparison = asyncio.run(control.control(family, 1200, SEEDS))
    return {row["arm"]: row for row in control._rows(family, comparison)}


def test_rules_that_add_up_are_found_by_those_who_share(control):
    found = rows(control, "additive rules")

    assert list(found) == [
        "serial",
        "fork of 8, selected on dev",
        "fork of 8, best on test",
        "merge of 8",
    ]
    assert {row["calls spent"] for row in found.values()} == {1200}
    assert [row["ahead"] for row in found.values()] == ["merge", "merge", "merge", ""]


def test_one_text_is_written_better_by_one_worker(control):
    assert rows(control, "one key, conflicting values")["serial"]["ahead"] == "this"


@pytest.mark.asyncio
async def test_a_harmful_rule_meets_a_need_and_denies_another(control):
    world = control.Additive(Random(0), harmful=1.0)

    rule = await world.propose("", Task("t", "", {"need": 3}), "", 0.0)
    meets, denied = rule.split()[1], rule.split()[3]

    assert await world.reward(Task("t", "", {"need": int(meets)}), f"- {rule}") == 1.0
    assert (
        await world.reward(Task("t", "", {"need": int(denied)}), f"- meet {denied}\n- {rule}")
        == 0.0
    )
