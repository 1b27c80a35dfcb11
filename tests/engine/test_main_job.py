"""The main job: an artifact gets better on held-out tasks."""

import pytest

from agentdescent import StopReason, evolve
from support.toy import HiddenRules, final_rules


@pytest.mark.asyncio
async def test_every_hidden_rule_is_found_and_committed(evolve_under):
    world = HiddenRules(rules=4)

    result = await evolve_under(**world.parts)

    assert final_rules(result.rendered) == ["rule0", "rule1", "rule2", "rule3"]
    assert (result.initial_reward, result.final_reward) == (0.0, 1.0)
    assert result.error is None
    assert result.outcomes()["committed"] == len([i for i in result.history if i.committed])


@pytest.mark.asyncio
async def test_calls_are_counted_exactly(evolve_under):
    world = HiddenRules()

    result = await evolve_under(**world.parts)

    assert result.actor_calls == len(world.calls)
    assert result.usage.calls == len(world.calls)


@pytest.mark.asyncio
async def test_a_met_target_ends_the_run(evolve_under):
    world = HiddenRules()

    result = await evolve_under(
        **world.parts,
        rounds=50,
        target_reward=1.0,
    )

    assert result.stop_reason == "target_reward"
    assert result.history[-1].held_out_reward == result.final_reward == 1.0


def test_a_script_evolves_in_rounds_with_synchronous_functions(tmp_path):
    world = HiddenRules(rules=2)

    result = evolve(
        world.tasks,
        lambda task, output: float(task.meta["rule"] in output),
        run=lambda rendered, task: rendered,
        propose=lambda rendered, task, output, reward: task.meta["rule"],
        rounds=5,
        n_workers=2,
        repo_path=tmp_path / "ledger",
    )

    assert result.final_reward == 1.0
    assert len(result.history) == 5
    assert result.stop_reason is StopReason.ROUNDS
    assert result.ledger_log[0].split(" ", 1)[1].startswith("merge ")
