"""Stages: their order, and whom to blame."""

import pytest

from agentdescent import PipelineChain, PipelineParallel, WorkUnit

CHAIN = PipelineChain(["a", "b", "c"])


def test_stages_know_what_comes_before_them():
    assert CHAIN.upstream_of("a") == []
    assert CHAIN.upstream_of("c") == ["a", "b"]


def test_the_earliest_stage_that_failed_is_to_blame():
    assert CHAIN.blame({"b": False, "c": False}) == "b"
    assert CHAIN.blame({"a": True, "c": False}) == "c"


def test_nobody_is_to_blame_where_nothing_failed():
    assert CHAIN.blame({}) is None
    assert CHAIN.blame({"a": True}) is None


def test_the_effect_of_a_stage_is_that_of_its_two_versions():
    assert CHAIN.counterfactual_pairs("b") == [("old:b", "new:b")]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: CHAIN.upstream_of("z"),
        lambda: CHAIN.blame({"z": False}),
        lambda: CHAIN.counterfactual_pairs("z"),
    ],
)
def test_an_unknown_stage_is_refused(ask):
    with pytest.raises(ValueError, match=r"no stage 'z'; the stages are \['a', 'b', 'c'\]"):
        ask()


@pytest.mark.parametrize("stages", [[], "abc", ["a", "a"]])
@pytest.mark.parametrize("kind", [PipelineChain, PipelineParallel])
def test_stages_are_some_with_a_name_each(kind, stages):
    with pytest.raises(ValueError, match=r"stages must be a list|a name of its own"):
        kind(stages)


def test_every_worker_stays_with_a_stage_and_sees_all_tasks():
    pipeline = PipelineParallel(["a", "b"])

    assert pipeline.plan(3, 1, ["x", "y"]) == [
        WorkUnit(0, ["x", "y"], stage=0),
        WorkUnit(1, ["x", "y"], stage=1),
        WorkUnit(2, ["x", "y"], stage=0),
    ]
    assert pipeline.chain() == PipelineChain(["a", "b"])
    assert pipeline.name == "PP"
