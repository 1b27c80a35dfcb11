"""What the artifact is: `strategy=`."""

import pytest

from agentdescent import AppendRules, Diff, KeyedRules, SingleSlot, evolve
from support import pens
from support.pens import Plain, agent, reward, tasks


def test_rules_are_appended_by_default():
    by_default = evolve(tasks, reward, agent=agent, rounds=2)
    result = evolve(tasks, reward, agent=agent, strategy=AppendRules(), rounds=2)  # default

    assert by_default.state == result.state
    assert list(result.state.values()) == [pens.RULE]


def test_identical_rules_are_one_and_complementary_ones_fuse():
    plain = Plain()

    result = evolve(
        tasks, plain.reward, agent=plain, strategy=AppendRules(), n_workers=12, rounds=1
    )

    assert sorted(result.state.values()) == ["cents", "integers", "no signs"]
    assert result.final_reward == 1.0
    (info,) = result.history
    assert (info.considered, info.committed, info.fused, info.conflicts_dropped) == (12, 1, 1, 0)


def test_keyed_rules_hold_one_entry_a_category():
    result = evolve(tasks, reward, agent=agent, strategy=KeyedRules(categories=["route", "fmt"]))

    assert result.state == {"fmt": pens.RULE}
    assert result.rendered == f"# Config (by category)\n## fmt\n{pens.RULE}"
    assert result.final_reward == 1.0


def test_proposals_for_one_category_are_resolved_on_the_held_out_tasks():
    values = iter(["dollars", "cents", "cents and dimes"] * 99)
    told = []
    worth = {"dollars": 0.2, "cents": 0.9, "cents and dimes": 0.5}

    result = evolve(
        tasks,
        lambda task, output: max([v for k, v in worth.items() if output.endswith(k)], default=0),
        run=lambda rendered, task: rendered,
        propose=lambda rendered, task, out, score: f"fmt: {next(values)}",
        strategy=KeyedRules(categories=["route", "fmt"]),
        n_workers=3,
        rounds=1,
        on_round=told.append,
    )

    assert result.state == {"fmt": "cents"}
    (info,) = told
    assert (info.considered, info.conflicts_dropped, info.fused) == (3, 2, 0)


def test_a_single_slot_is_replaced_by_each_accepted_proposal():
    lengths = iter(range(2, 999))

    result = evolve(
        tasks,
        lambda task, output: min(1.0, len(output) / 10),
        run=lambda rendered, task: rendered,
        propose=lambda rendered, task, out, score: "x" * next(lengths),
        strategy=SingleSlot(initial_value="x"),
        n_workers=1,
        rounds=4,
    )

    assert result.state == {"value": "x" * 5}
    assert [info.n_items for info in result.history] == [1, 1, 1, 1]
    assert [info.committed for info in result.history] == [1, 1, 1, 1]


# fmt: off
class OneValue:                       # this is `SingleSlot`, written out longhand
    def initial(self): return {}
    def render(self, state): return state.get("v", "(none)")
    def to_diff(self, state, proposal, author, base_version, target):
        if state.get("v") == proposal: return None   # None -> propose nothing  # noqa: E701
        return Diff(diff_id=f"{author}:{base_version}", target=target,
                    ops={"v": proposal}, author=author)
# fmt: on


class TestOneOfYourOwn:
    def test_three_methods_are_a_strategy(self):
        result = evolve(tasks, reward, agent=agent, strategy=OneValue())

        assert result.state == {"v": pens.RULE}
        assert result.rendered == pens.RULE
        assert result.final_reward == 1.0

    def test_it_does_what_the_ready_made_one_does(self):
        longhand = evolve(tasks, reward, agent=agent, strategy=OneValue(), rounds=3)
        ready_made = evolve(
            tasks, reward, agent=agent, strategy=SingleSlot(empty_render="(none)"), rounds=3
        )

        assert longhand.rendered == ready_made.rendered
        assert [info.committed for info in longhand.history] == [
            info.committed for info in ready_made.history
        ]
        assert longhand.outcomes() == ready_made.outcomes()

    def test_none_proposes_nothing(self):
        result = evolve(
            tasks,
            reward,
            run=lambda rendered, task: rendered,
            propose=lambda rendered, task, out, score: "(no news)",
            strategy=OneValue(),
            initial_state={"v": "(no news)"},
            rounds=2,
        )

        assert result.outcomes() == {"no-op": 8}

    @pytest.mark.parametrize(("keys", "fused", "dropped"), [("abc", 1, 0), ("aaa", 0, 2)])
    def test_distinct_keys_fuse_and_equal_ones_are_resolved(self, keys, fused, dropped):
        plain, told = Plain(), []

        class Keyed(OneValue):
            def render(self, state):
                return ", ".join(state.values())

            def to_diff(self, state, proposal, author, base_version, target):
                key = keys[plain.names.index(proposal)]
                return Diff(f"{author}:{base_version}", target, {key: proposal}, author=author)

        evolve(
            tasks,
            plain.reward,
            agent=plain,
            strategy=Keyed(),
            n_workers=3,
            rounds=1,
            on_round=told.append,
        )

        (info,) = told
        assert (info.considered, info.fused, info.conflicts_dropped) == (3, fused, dropped)
