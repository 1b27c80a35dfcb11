"""Edits of one value that do not overlap: joined, blamed one by one, and never overwriting."""

from dataclasses import replace

import pytest

from agentdescent import AggregatorConfig
from agentdescent.core.diff import Diff
from agentdescent.errors import PluginError
from agentdescent.merge.blame import blame
from agentdescent.merge.conflict import resolve_conflicts
from agentdescent.merge.fusion import tournament
from agentdescent.merge.joining import clash, fused, joined, moved, united
from agentdescent.merge.staleness import StalenessFilter
from agentdescent.merge.union import Union
from agentdescent.policy.line_merge import lay_over, merge_lines
from agentdescent.policy.staleness import get_policy
from support.merging import SKILL, Plain, lines_of, make_bench

BASE = "0\n1\n2\n3\n4\n5\n6\n7\n"
KEY = "SKILL.md"


class Lines(Plain):
    """Values are texts, joined line by line."""

    def merge_values(self, key, base, ours, theirs):
        return None if base is None else merge_lines(base, ours, theirs)


class Layers(Lines):
    """Values that can be laid over others as well."""

    def rebase_value(self, key, base, head, value):
        return lay_over(base, head, value)


class ManyLines(Plain):
    def merge_values(self, key, base, *values):
        return merge_lines(base, *values)


def text(**lines):
    """`BASE` with some lines, each called by its number, in other words."""
    return "".join(f"{lines.get(f'l{i}', i)}\n" for i in range(8))


def solves(state, task):
    """Task i is solved by "good" in line i, unless some line says "bad<i>"."""
    said = state.get(KEY, "").splitlines()
    return len(said) > task and said[task] == "good" and f"bad{task}" not in said


def make(reward=solves, base=BASE, strategy=Lines, **options):
    at = make_bench(reward, state={KEY: base}.items(), **options)
    at.ledger.artifacts[SKILL] = replace(at.head, strategy=strategy())
    at.ledger.visible = dict(at.ledger.artifacts)
    return at


def card(at, base=BASE, *, gain=None, tasks=(), version=1, key=KEY, **lines):
    made = at.card({key: text(**lines)}, base=version, gain=gain, tasks=tasks)
    return replace(made, base_values={key: base})


def diff(name, **lines):
    return Diff(name, SKILL, {KEY: text(**lines)})


class TestJoining:
    def test_other_lines_are_joined_and_equal_values_are_one(self):
        head = make().head

        assert joined(head, KEY, BASE, text(l1="x"), text(l5="y")) == text(l1="x", l5="y")
        assert united(head, [diff("a", l1="x"), diff("b", l1="x")]) == {KEY: text(l1="x")}
        assert joined(head, KEY, BASE, text(l1="x"), text(l1="y")) is None

    def test_a_deletion_is_joined_with_nothing(self):
        head = make().head

        assert clash(head, Diff("a", SKILL, {KEY: None}), diff("b", l1="x"))
        assert not clash(head, Diff("a", SKILL, {KEY: None}), Diff("b", SKILL, {KEY: None}))

    def test_without_the_means_two_values_contradict(self):
        head = make_bench(state={KEY: BASE}.items()).head

        assert clash(head, diff("a", l1="x"), diff("b", l5="y"))

    def test_edits_that_share_no_key_never_clash(self):
        assert not clash(make().head, diff("a", l1="x"), Diff("b", SKILL, {"k": "x"}))

    @pytest.mark.parametrize("value", [3, b"x", ["x"]])
    def test_a_strategy_that_joins_to_anything_but_text_is_a_fault(self, value):
        class Broken(Plain):
            def merge_values(self, key, base, ours, theirs):
                return value

        head = replace(make().head, strategy=Broken())

        with pytest.raises(PluginError, match=r"merge_values must return text or None, got"):
            joined(head, KEY, BASE, "x", "y")

    def test_a_union_knows_its_members(self):
        head = make().head
        one, other = diff("a", l1="x"), diff("b", l5="y")

        union = fused(head, [one, other])

        assert union.ops == {KEY: text(l1="x", l5="y")}
        assert [edit.diff_id for edit in union.edits()] == ["fused(a+b)", "a", "b"]

    @pytest.mark.parametrize("kind", [Lines, ManyLines], ids=["two at a time", "all at once"])
    def test_any_number_of_values_is_joined(self, kind):
        head = replace(make().head, strategy=kind())
        edits = [diff(str(i), **{f"l{i}": "x"}) for i in (1, 3, 5, 7)]

        assert united(head, edits) == {KEY: text(l1="x", l3="x", l5="x", l7="x")}
        assert united(head, [*edits, diff("y", l5="y")]) is None

    def test_where_two_clash_after_all_the_later_one_wins(self):
        head = make().head

        assert fused(head, [diff("a", l1="x"), diff("b", l1="y")]).ops == {KEY: text(l1="y")}
        assert united(head, [diff("a", l1="x"), diff("b", l1="y")]) is None

    def test_an_edit_is_moved_to_what_others_made_of_its_base(self):
        at = make(base=text(l1="x"))
        edit = diff("a", l5="y")

        there = moved(edit, {KEY: BASE}, at.head)

        assert there.ops == {KEY: text(l1="x", l5="y")}
        assert [part.ops for part in there.edits()] == [there.ops, edit.ops]

    @pytest.mark.parametrize("base", [{KEY: BASE}, {}], ids=["it overlaps", "no base is known"])
    def test_what_cannot_be_moved_stays_as_it_is(self, base):
        at = make(base=text(l5="x"))
        edit = diff("a", l5="y")

        assert moved(edit, base, at.head) is edit

    def test_one_that_overlaps_keeps_the_other_lines_of_the_head(self):
        at = make(base=text(l1="x", l5="x"), strategy=Layers)
        edit = diff("a", l5="y")

        there = moved(edit, {KEY: BASE}, at.head)

        assert there.ops == {KEY: text(l1="x", l5="y")}
        assert moved(edit, {KEY: text(l1="x", l5="x")}, at.head) is edit

    @pytest.mark.parametrize(("old", "new"), [(None, "x"), (BASE, None)])
    def test_a_file_that_was_not_there_or_goes_stays_as_it_is(self, old, new):
        at = make(base=text(l5="x"), strategy=Layers)
        edit = Diff("a", SKILL, {KEY: new})

        assert moved(edit, {KEY: old}, at.head) is edit

    def test_a_strategy_that_rebases_to_anything_but_text_is_a_fault(self):
        class Broken(Lines):
            def rebase_value(self, key, base, head, value):
                return 3

        at = make(base=text(l5="x"), strategy=Broken)

        with pytest.raises(PluginError, match=r"rebase_value must return text or None, got int"):
            moved(diff("a", l5="y"), {KEY: BASE}, at.head)

    def test_an_edit_of_the_head_itself_is_not_moved(self):
        edit = diff("a", l5="y")

        assert moved(edit, {KEY: BASE}, make().head) is edit


@pytest.mark.asyncio
async def test_edits_of_other_lines_are_no_rivals():
    at = make()
    cards = [card(at, l1="good"), card(at, l5="good")]
    merge = at.merge(*cards)

    assert await resolve_conflicts(merge, cards) == (cards, 0)
    assert (merge.rivals, at.verifier.scored) == (0, [])


@pytest.mark.asyncio
async def test_edits_of_one_line_are_resolved_on_the_held_out_tasks():
    at = make()
    cards = [card(at, l1="bad"), card(at, l1="good"), card(at, l5="good")]
    merge = at.merge(*cards)

    assert await resolve_conflicts(merge, cards) == (cards[1:], 1)
    assert merge.rivals == 2


@pytest.mark.asyncio
async def test_only_values_that_clash_crowd_each_other_out():
    at = make()
    rivals = [card(at, l1=f"v{i}") for i in range(5)]
    others = [card(at, **{f"l{i}": "good"}) for i in (3, 5, 7)]
    merge = at.merge(*rivals, *others)

    kept, dropped = await resolve_conflicts(merge, [*rivals, *others])

    assert (kept, dropped, merge.rivals) == ([rivals[0], *others], 4, 5)


@pytest.mark.asyncio
async def test_a_merge_commits_both_and_says_so():
    at = make()

    report = await at.run(at.aggregator(), card(at, l1="good"), card(at, l5="good"))

    assert (report.category, report.fused, report.conflicts_dropped) == ("committed", True, 0)
    assert at.head.state == {KEY: text(l1="good", l5="good")}
    subject, first, *_ = lines_of(at.ledger.notes[0])
    assert subject == "merge w0:1 + w1:1"
    assert first == "2 proposals fused; their changes to SKILL.md do not overlap."


@pytest.mark.asyncio
async def test_a_member_that_loses_a_task_is_taken_out_of_the_value():
    at = make(base=text(l7="good"))
    good, bad = {"l1": "good", "l7": "good"}, {"l3": "bad7", "l7": "good"}
    cards = [card(at, text(l7="good"), **lines) for lines in (good, bad)]

    report = await at.run(at.aggregator(), *cards)

    assert (report.category, report.fused, report.blamed) == ("committed", False, 1)
    assert at.head.state == {KEY: text(l1="good", l7="good")}


@pytest.mark.asyncio
async def test_blame_is_found_by_halving_the_members():
    at = make(base=text(l7="good"))
    edits = [
        diff(str(i), **{f"l{i}": "good" if i != 2 else "bad7", "l7": "good"}) for i in range(4)
    ]
    lost = [task for task in at.verifier.held_out if task.id == "h7"]

    assert await blame(at.merge(), Union.of(at.head, edits), lost) == [edits[2]]


@pytest.mark.asyncio
async def test_refused_members_are_told_apart():
    at = make(lambda state, task: 0.5)
    cards = [card(at, l1="x"), card(at, l5="y")]

    report = await at.run(at.aggregator(), *cards)

    assert report.category == "below-threshold"
    assert [refusal.diff.ops for refusal in report.refused] == [one.diff.ops for one in cards]
    assert at.waiting(at.aggregator()) == []


@pytest.mark.asyncio
async def test_what_one_commit_cannot_hold_waits():
    at = make()
    merge = at.merge(card(at, l1="good"), max_commit_ops=1)
    wide = Diff("w", SKILL, {KEY: text(l5="good"), "other": "x"})

    union = await tournament(merge, [diff("a", l1="good"), wide, diff("b", l3="good")])

    assert union.diff.ops == {KEY: text(l1="good", l3="good")}


class TestRebase:
    async def sift(self, at, policy, *cards):
        stage = StalenessFilter(at.ledger, at.verifier, get_policy(policy), AggregatorConfig())
        snapshot = await at.ledger.snapshot()
        return await stage.sift(snapshot.get(SKILL), snapshot.version, cards)

    @pytest.mark.parametrize("policy", ["guarded", "reflective", "full"])
    @pytest.mark.asyncio
    async def test_an_old_edit_keeps_what_was_committed_since(self, policy):
        at = make()
        at.ledger.publish(**{KEY: text(l1="good")})
        old = card(at, l5="good", tasks=at.verifier.held_out[5:6])

        [there], discarded = await self.sift(at, policy, old)

        assert (there.diff.ops, discarded) == ({KEY: text(l1="good", l5="good")}, 0)
        assert there.base_version == {SKILL: 2}
        assert there.base_values == {KEY: text(l1="good")}

    @pytest.mark.asyncio
    async def test_it_is_verified_as_it_will_be_committed(self):
        at = make()
        at.ledger.publish(**{KEY: text(l1="bad5")})

        kept, _ = await self.sift(
            at, "guarded", card(at, l5="good", tasks=at.verifier.held_out[5:6])
        )

        assert len(kept) == 1  # no worse than the head, which does not solve the task either
        assert [state for state, _ in at.verifier.scored] == [
            repr([(KEY, text(l1="bad5"))]),
            repr([(KEY, text(l1="bad5", l5="good"))]),
        ]

    @pytest.mark.asyncio
    async def test_one_that_overlaps_is_judged_by_its_worth(self):
        at = make()
        at.ledger.publish(**{KEY: text(l5="good")})
        tasks = at.verifier.held_out[5:6]

        kept, discarded = await self.sift(at, "guarded", card(at, l5="worse", tasks=tasks))

        assert (kept, discarded) == ([], 1)

    @pytest.mark.asyncio
    async def test_a_proposal_that_was_moved_is_still_known_by_its_first_form(self):
        at = make()
        at.ledger.publish(**{KEY: text(l1="good")})
        old = card(at, l5="worse", tasks=at.verifier.held_out[5:6])

        report = await at.run(at.aggregator(), old)

        [refusal] = report.refused
        assert [edit.ops for edit in refusal.diff.edits()] == [
            {KEY: text(l1="good", l5="worse")},
            {KEY: text(l5="worse")},
        ]

    @pytest.mark.parametrize("strategy", [Lines, Layers])
    @pytest.mark.asyncio
    async def test_when_another_writer_is_first_both_changes_are_committed(self, strategy):
        at = make(strategy=strategy)
        at.ledger.rivals = [
            lambda ledger: ledger.put(
                ledger.artifacts[SKILL].apply(Diff("rival", SKILL, {KEY: text(l1="theirs")}))
            )
        ]

        report = await at.run(at.aggregator(cas_backoff=0.0), card(at, l5="good"))

        assert (report.category, report.committed_version) == ("committed", 3)
        assert at.head.state == {KEY: text(l1="theirs", l5="good")}

    @pytest.mark.parametrize(
        "theirs", [{KEY: text(l5="theirs", l7="too")}, {KEY: None}], ids=["changed", "deleted"]
    )
    @pytest.mark.asyncio
    async def test_what_another_writer_has_done_is_not_undone_unmeasured(self, theirs):
        at = make(strategy=Layers)
        at.ledger.rivals = [
            lambda ledger: ledger.put(ledger.artifacts[SKILL].apply(Diff("rival", SKILL, theirs)))
        ]
        aggregator = at.aggregator(cas_backoff=0.0)

        report = await at.run(aggregator, card(at, l5="good"))

        assert report.category == "cas-conflict"
        assert at.head.state.get(KEY) == theirs[KEY]
        assert at.waiting(aggregator) == [({KEY: text(l5="good")}, 0)]

    @pytest.mark.asyncio
    async def test_then_it_is_judged_with_the_lines_that_are_not_its_own(self):
        at = make(strategy=Layers)
        at.ledger.rivals = [
            lambda ledger: ledger.put(
                ledger.artifacts[SKILL].apply(Diff("r", SKILL, {KEY: text(l5="bad", l7="good")}))
            )
        ]
        aggregator = at.aggregator(cas_backoff=0.0)
        await at.run(aggregator, card(at, l5="good", tasks=at.verifier.held_out[5:6]))

        report = await at.run(aggregator)

        assert report.category == "committed"
        assert at.head.state == {KEY: text(l5="good", l7="good")}


class TestConstraints:
    def limited(self, at, most):
        def check(before, after):
            n_good = sum(str(value).count("good") for value in after.values())
            return f"{n_good} are too many" if n_good > most else None

        at.ledger.artifacts[SKILL] = replace(at.head, constraints=[check])
        at.ledger.visible = dict(at.ledger.artifacts)

    @pytest.mark.asyncio
    async def test_a_union_takes_what_the_constraints_allow_and_the_rest_waits(self):
        at = make()
        self.limited(at, 1)
        aggregator = at.aggregator()

        report = await at.run(aggregator, card(at, l1="good"), card(at, l5="good"))

        assert (report.category, report.fused) == ("committed", False)
        assert at.head.state == {KEY: text(l1="good")}
        assert at.waiting(aggregator) == [({KEY: text(l5="good")}, 1)]

    @pytest.mark.asyncio
    async def test_what_the_head_has_no_room_for_any_more_is_refused_unmeasured(self):
        at = make()
        at.ledger.publish(**{KEY: text(l1="good")})
        self.limited(at, 1)

        old = card(at, l5="good", tasks=at.verifier.held_out[5:6])

        report = await at.run(at.aggregator(), old)

        assert (report.category, report.reason) == ("constraint", "2 are too many")
        [refusal] = report.refused
        assert (refusal.category, refusal.reason) == ("constraint", "2 are too many")
        assert at.verifier.scored == []

    @pytest.mark.asyncio
    async def test_the_others_go_on(self):
        at = make()
        self.limited(at, 1)
        greedy = card(at, l1="good", l2="good")

        report = await at.run(at.aggregator(), greedy, card(at, l5="good"))

        assert (report.category, at.head.state) == ("committed", {KEY: text(l5="good")})
        assert [refusal.category for refusal in report.refused] == ["constraint"]

    @pytest.mark.asyncio
    async def test_what_another_writer_leaves_no_room_for_waits(self):
        at = make()
        self.limited(at, 1)
        at.ledger.rivals = [
            lambda ledger: ledger.put(
                ledger.artifacts[SKILL].apply(Diff("rival", SKILL, {KEY: text(l1="good")}))
            )
        ]
        aggregator = at.aggregator(cas_backoff=0.0)

        report = await at.run(aggregator, card(at, l5="good"))

        assert report.category == "cas-conflict"
        assert at.waiting(aggregator) == [({KEY: text(l5="good")}, 0)]
