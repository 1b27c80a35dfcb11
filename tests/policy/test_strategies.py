import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.diff import Diff, Dropped, apply_ops
from agentdescent.policy.strategies import AppendRules, KeyedRules, SingleSlot, rule_id

CATEGORIES = ["Routing ", " Fmt", "C#", "follow-up", "fmt:date"]


def diff(strategy, proposal, state=None, author="w1", version=3):
    return strategy.to_diff(state or {}, proposal, author, version, "artifact")


def ops(strategy, proposal, state=None):
    return dict(diff(strategy, proposal, state).ops)


def refusal(strategy, proposal, state=None):
    dropped = diff(strategy, proposal, state)
    assert isinstance(dropped, Dropped)
    assert dropped.category == "unparsable"
    return dropped.reason


def test_rule_ids_ignore_case_and_outer_space_alone():
    assert rule_id("Hello") == rule_id("  hello \n") == "raaf4c61ddc"
    assert rule_id("a  b") != rule_id("a b")
    assert rule_id("\ud800") == rule_id(" \ud800")


class TestSingleSlot:
    def test_the_value_is_the_rendering(self):
        slot = SingleSlot("Be brief.")

        assert slot.initial() == {"value": "Be brief."}
        assert slot.render(slot.initial()) == "Be brief."
        assert slot.keys() == ("value",)

    def test_without_a_value_a_placeholder_is_rendered(self):
        assert SingleSlot().initial() == {}
        assert SingleSlot().render({}) == "(no instruction yet)"
        assert SingleSlot(empty_render="-").render({"value": ""}) == "-"

    def test_a_proposal_replaces_the_value(self):
        slot = SingleSlot("Be brief.", key="prompt")

        assert ops(slot, "  Be kind.\n", {"prompt": "Be brief."}) == {"prompt": "Be kind."}
        assert slot.keys() == ("prompt",)

    def test_the_same_value_again_is_no_diff(self):
        assert diff(SingleSlot(), " Be kind. ", {"value": "Be kind."}) is None

    @pytest.mark.parametrize(
        ("join_lines", "base", "joined"),
        [(True, "1\n2\n3", "one\n2\nthree"), (False, "1\n2\n3", None), (True, None, None)],
    )
    def test_changes_of_other_lines_are_joined_where_that_is_wanted(self, join_lines, base, joined):
        slot = SingleSlot(join_lines=join_lines)

        assert slot.merge_values("value", base, "one\n2\n3", "1\n2\nthree") == joined

    def test_a_proposal_below_the_least_length_is_dropped(self):
        assert refusal(SingleSlot(), " \n") == "0 characters are fewer than min_chars=1"
        assert refusal(SingleSlot(min_chars=5), "four") == "4 characters are fewer than min_chars=5"

    def test_reflectors_are_asked_to_keep_what_works(self):
        slot = SingleSlot("Be brief.")

        asked = slot.proposal_instructions(slot.initial())

        assert "complete rewritten text" in asked
        assert "keep every part that works" in asked
        assert slot.proposal_instructions({}).startswith("There is no text yet.")


class TestAppendRules:
    def test_rules_are_rendered_as_bullets_in_the_order_of_their_keys(self):
        rules = AppendRules()
        state = {"r2": "second", "r1": "first"}

        assert rules.render(state) == "# Playbook\n- first\n- second"
        assert rules.render(rules.initial()) == "# Playbook\n(empty)"
        assert AppendRules(title="Rules").render({}) == "Rules\n(empty)"

    def test_a_proposal_is_one_line_under_a_key_of_its_text(self):
        assert ops(AppendRules(), "  Be brief.  ") == {rule_id("Be brief."): "Be brief."}
        assert ops(AppendRules(), "Be\n  brief.\n\n") == {rule_id("Be brief."): "Be brief."}

    @pytest.mark.parametrize("again", ["be  brief.", "Be\nbrief.", "\tBe brief. "])
    def test_white_space_and_case_make_no_new_rule(self, again):
        assert diff(AppendRules(), again, ops(AppendRules(), "Be brief.")) is None

    def test_white_space_within_a_line_is_kept(self):
        assert list(ops(AppendRules(), "Indent by '  '.").values()) == ["Indent by '  '."]

    def test_an_empty_proposal_is_dropped(self):
        assert refusal(AppendRules(), " \n ") == "the proposal is empty"

    def test_reflectors_are_asked_for_one_new_general_rule(self):
        rules = AppendRules()

        assert "exactly one general rule" in rules.proposal_instructions({})
        assert "do not repeat" not in rules.proposal_instructions({})
        assert "do not repeat" in rules.proposal_instructions({"r1": "Be brief."})

    def test_its_keys_are_not_declared(self):
        assert not hasattr(AppendRules(), "keys")


class TestLimitsOfRules:
    STATE = ops(AppendRules(), "Answer in whole cents.")

    def test_a_rule_that_is_too_long_is_dropped(self):
        rules = AppendRules(max_chars=9)

        assert diff(rules, "Be brief!!") == Dropped(
            "constraint", "10 characters are more than max_chars=9"
        )
        assert list(ops(rules, "Be brief.").values()) == ["Be brief."]
        assert "at most 9 characters" in rules.proposal_instructions({})

    def test_a_full_list_takes_no_more(self):
        rules = AppendRules(max_rules=1)

        assert ops(rules, "Be brief.")
        assert diff(rules, "Be brief.", self.STATE) == Dropped(
            "constraint", "there are 1 rules, and max_rules=1"
        )

    @pytest.mark.parametrize("again", ["In whole cents, answer.", "Answer in whole cents!"])
    def test_a_rule_in_nearly_the_same_words_is_dropped(self, again):
        assert diff(AppendRules(near_duplicate=0.8), again, self.STATE) == Dropped(
            "no-op", "it says nearly the same as: Answer in whole cents."
        )
        assert ops(AppendRules(), again, self.STATE)

    @pytest.mark.parametrize("other", ["Answer in dollars.", "...", "Be brief."])
    def test_a_rule_in_other_words_is_none_of_them(self, other):
        assert ops(AppendRules(near_duplicate=0.8), other, self.STATE)

    @pytest.mark.parametrize(
        "proposal", ["REMOVE: Answer in whole cents.", "remove:\n- answer in  WHOLE cents."]
    )
    def test_a_rule_may_be_removed(self, proposal):
        edit = ops(AppendRules(prune=True, max_rules=1), proposal, self.STATE)

        assert edit == {rule_id("Answer in whole cents."): None}
        assert apply_ops(self.STATE, edit) == {}

    def test_only_a_rule_that_is_there_may_be_removed(self):
        rules = AppendRules(prune=True)

        assert refusal(rules, "REMOVE: Be brief.", self.STATE) == "there is no such rule to remove"
        assert refusal(rules, "REMOVE: ", self.STATE) == "the proposal is empty"

    def test_reflectors_are_told_that_they_may_remove_once_there_is_something(self):
        assert "`REMOVE: `" in AppendRules(prune=True).proposal_instructions(self.STATE)
        assert "REMOVE" not in AppendRules(prune=True).proposal_instructions({})
        assert "REMOVE" not in AppendRules().proposal_instructions(self.STATE)

    def test_by_default_it_is_a_rule_like_any_other(self):
        proposal = "REMOVE: Answer in whole cents."

        assert list(ops(AppendRules(), proposal, self.STATE).values()) == [proposal]

    @pytest.mark.parametrize("limit", ["max_rules", "max_chars"])
    def test_limits_below_one_are_refused(self, limit):
        with pytest.raises(ValueError, match=f"{limit} must be at least 1, got 0"):
            AppendRules(**{limit: 0})

    @pytest.mark.parametrize("share", [0, 1.1])
    def test_a_likeness_out_of_range_is_refused(self, share):
        with pytest.raises(ValueError, match=f"near_duplicate must be above 0 .* got {share}"):
            AppendRules(near_duplicate=share)


class TestKeyedRules:
    def test_categories_are_stripped_lower_case_and_unique(self):
        assert KeyedRules([*CATEGORIES, "ROUTING"]).keys() == (
            "routing",
            "fmt",
            "c#",
            "follow-up",
            "fmt:date",
        )

    def test_sections_are_rendered_in_the_order_of_their_keys(self):
        rules = KeyedRules(CATEGORIES)

        assert rules.render({"routing": "left", "fmt": "cents"}) == (
            "# Config (by category)\n## fmt\ncents\n## routing\nleft"
        )
        assert rules.render(rules.initial()) == "# Config (by category)\n(empty)"

    @pytest.mark.parametrize(
        "proposal",
        [
            "ROUTING: go left",
            "  routing :  go left \n",
            "- routing: go left",
            "2. routing: go left",
            "routing - go left",
            "Routing \u2014 go left",
            "routing\uff1ago left",
            "**routing**: go left",
            "**Routing:** go left",
            "- **routing** - go left",
            '"routing: go left"',
            '"routing": "go left"',
            "\u201crouting\u201d: go left",
            "`routing`: go left",
            "[routing]: go left",
            "[Routing:] go left",
            "## Routing\ngo left",
            "### **Routing**\n\ngo left",
            "**routing: go left**",
        ],
    )
    def test_decoration_around_a_category_does_not_matter(self, proposal):
        assert ops(KeyedRules(CATEGORIES), proposal) == {"routing": "go left"}

    @pytest.mark.parametrize(
        ("proposal", "key"),
        [
            ("C#: x", "c#"),
            ("**C#**: x", "c#"),
            ("Follow-Up: x", "follow-up"),
            ("fmt:date: x", "fmt:date"),
            ("fmt: x", "fmt"),
        ],
    )
    def test_categories_may_hold_signs(self, proposal, key):
        categories = ["C#", "follow-up", "fmt:date"] if ":date" in proposal else CATEGORIES

        assert ops(KeyedRules(categories), proposal) == {key: "x"}

    def test_emphasis_inside_a_rule_is_kept(self):
        assert ops(KeyedRules(["fmt"]), "fmt: use **cents** only") == {
            "fmt": "use **cents** only",
        }
        assert ops(KeyedRules(["fmt"]), "fmt: **a** and **b**") == {"fmt": "**a** and **b**"}

    def test_a_rule_may_have_several_lines(self):
        assert ops(KeyedRules(["fmt"]), "fmt: one of\n- cents: whole\n- euros") == {
            "fmt": "one of\n- cents: whole\n- euros",
        }

    @pytest.mark.parametrize("proposal", ["Be brief.", "routing-left", "and routing: left"])
    def test_a_proposal_of_no_category_gets_a_key_of_its_own(self, proposal):
        assert ops(KeyedRules(CATEGORIES), f" {proposal}\n") == {rule_id(proposal): proposal}

    def test_a_category_far_into_the_text_is_none(self):
        proposal = "x" * 200 + ": fmt: y"

        assert ops(KeyedRules(["fmt"]), proposal) == {rule_id(proposal): proposal}

    def test_a_closed_key_space_drops_what_names_no_category(self):
        closed = KeyedRules(["routing", "fmt"], allow_new=False)

        assert refusal(closed, "Be brief.") == "it names none of the categories routing, fmt"
        assert refusal(closed, " ") == "it is empty"
        assert ops(closed, "fmt: cents") == {"fmt": "cents"}

    @pytest.mark.parametrize("proposal", ["fmt:   ", "**fmt:**", "## fmt", "Fmt", 'fmt: ""'])
    def test_a_category_without_a_rule_is_dropped(self, proposal):
        reason = refusal(KeyedRules(["fmt"]), proposal + " ")

        assert reason == "no rule follows category 'fmt'"

    def test_an_empty_proposal_is_dropped(self):
        assert refusal(KeyedRules(["fmt"]), " \n") == "it is empty"

    def test_the_same_rule_again_is_no_diff(self):
        assert diff(KeyedRules(["fmt"]), "- fmt: cents", {"fmt": "cents"}) is None

    def test_reflectors_are_told_the_categories_and_which_are_free(self):
        rules = KeyedRules(["Routing", "fmt"])

        asked = rules.proposal_instructions({"fmt": "cents"})

        assert "one of: routing, fmt." in asked
        assert "no rule yet for: routing." in asked
        assert "no rule yet" not in rules.proposal_instructions({"fmt": "", "routing": ""})

    def test_a_text_for_the_categories_is_refused(self):
        with pytest.raises(TypeError, match=r"got the text 'fmt'; write categories=\['fmt'\]"):
            KeyedRules("fmt")

    @pytest.mark.parametrize("categories", [[], ["fmt", " "]])
    def test_no_or_nameless_categories_are_refused(self, categories):
        with pytest.raises(ValueError, match="categories must be names, and at least one"):
            KeyedRules(categories)


strategies = st.sampled_from([SingleSlot("seed"), AppendRules(), KeyedRules(CATEGORIES)])
proposals = st.text() | st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "- ", "**", '"']),
    st.sampled_from([*CATEGORIES, "other"]),
    st.sampled_from([": ", ":** ", " - ", "\n", '"']),
    st.text('ab*" :\n', max_size=8),
)


def grown(strategy, texts):
    state = dict(strategy.initial())
    for text in texts:
        edit = diff(strategy, text, state)
        if isinstance(edit, Diff):
            state = apply_ops(state, edit.ops)
    return state


@given(strategies, st.lists(proposals, max_size=4), proposals)
def test_a_proposal_changes_an_artifact_once(strategy, earlier, proposal):
    state = grown(strategy, earlier)
    edit = diff(strategy, proposal, state)
    if isinstance(edit, Diff):
        changed = apply_ops(state, edit.ops)
        assert changed != state
        assert diff(strategy, proposal, changed) is None


@given(strategies, st.lists(proposals, max_size=5))
def test_rendering_depends_on_the_content_alone(strategy, texts):
    state = grown(strategy, texts)

    assert strategy.render(state) == strategy.render(dict(reversed(state.items())))


@given(strategies, st.lists(proposals, min_size=2, max_size=2, unique=True))
def test_diff_ids_tell_different_edits_of_one_worker_apart(strategy, texts):
    first, second = (diff(strategy, text) for text in texts)
    if isinstance(first, Diff) and isinstance(second, Diff):
        assert (first.diff_id == second.diff_id) == (first.ops == second.ops)


@pytest.mark.parametrize("strategy", [SingleSlot(), AppendRules(), KeyedRules(["fmt"])])
def test_a_diff_names_its_author_key_base_and_target(strategy):
    edit = diff(strategy, "fmt: cents", author="w7", version=12)
    (key,) = edit.ops

    assert edit.diff_id.startswith(f"w7:{key}:12:")
    assert (edit.author, edit.target, edit.contract_breaking) == ("w7", "artifact", False)


def test_ready_made_plug_ins_can_be_subclassed_with_state():
    class Counting(AppendRules):
        def __init__(self):
            super().__init__()
            self.asked = 0

    assert Counting().asked == 0
