"""Directories as artifacts: what a proposal may do to them, and what becomes of it."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Diff, Dropped, FileTree
from agentdescent.core.diff import apply_ops
from agentdescent.errors import TreeError
from agentdescent.policy.filetree_edits import Edit, render_edits
from agentdescent.policy.filetree_text import Tree, canonical, check_paths, parse_tree, tree_summary

SKILL = "# Skill\n\nintro\n\n## One\n\none\n\n## Two\n\ntwo\n"
FILES = {"SKILL.md": SKILL, "refs/a.md": "a\n", "tests/t.py": "assert 1\n"}

states = st.dictionaries(st.text(), st.text(), max_size=5)


def tree(files=FILES, **options):
    return FileTree(files, **{"frozen": ["tests/**"], **options})


def diff(*edits, of=None, state=FILES):
    return (of or tree()).to_diff(state, render_edits(edits), "w1", 3, "artifact")


class TestProposals:
    def test_one_file_is_one_key(self):
        made = diff(Edit("refs/a.md", "b\n"))

        assert isinstance(made, Diff)
        assert (dict(made.ops), made.author, made.target) == (
            {"refs/a.md": "b\n"},
            "w1",
            "artifact",
        )
        assert (made.diff_id[:16], made.notes) == ("w1:refs/a.md:3:" + made.diff_id[15], ())

    def test_files_are_made_and_deleted(self):
        made = diff(Edit("new/b.md", "b"), Edit("refs/a.md"))

        assert made.ops == {"new/b.md": "b", "refs/a.md": None}

    def test_a_section_is_edited_and_the_rest_stays(self):
        made = diff(Edit("SKILL.md#one", "1"), Edit("SKILL.md#Three", "3"))

        assert made.ops == {"SKILL.md": SKILL.replace("\none\n", "\n1\n") + "\n## Three\n\n3\n"}

    def test_text_that_occurs_once_is_replaced(self):
        made = diff(
            Edit("SKILL.md", search="intro", replace="one"),
            Edit("SKILL.md#One", search="\none", replace="\n1"),
        )

        assert made.ops == {"SKILL.md": SKILL.replace("\none", "\n1").replace("intro", "one")}

    @pytest.mark.parametrize(
        ("old", "new"), [("one\r\ntwo\r\n", "1\r\n2\r\n"), ("one\ntwo\n", "1\n2\n")]
    )
    def test_line_ends_of_other_systems_do_not_hide_a_text(self, old, new):
        made = diff(Edit("a.md", search="one\ntwo", replace="1\n2"), state={"a.md": old})

        assert made.ops == {"a.md": new}

    def test_a_text_that_overlaps_itself_occurs_more_than_once(self):
        found = diff(Edit("a.md", search="aa", replace="b"), state={"a.md": "aaa"})

        assert found.reason == "'a.md': the text 'aa' occurs more than once"

    def test_a_path_is_read_in_its_normal_form_and_the_last_edit_wins(self):
        made = diff(Edit("refs/a.md", "x"), Edit("./refs//a.md", "y"), Edit(" refs\\a.md ", "z"))

        assert made.ops == {"refs/a.md": "z"}

    def test_a_file_may_have_a_hash_in_its_name(self):
        state = {"a.md#b.md": "x", "c#d.txt": "y"}

        made = diff(Edit("a.md#b.md", "1"), Edit("c#d.txt", "2"), state=state)

        assert made.ops == {"a.md#b.md": "1", "c#d.txt": "2"}

    def test_a_name_may_be_given_back_in_another_case_once_it_is_free(self):
        made = diff(Edit("refs/a.md"), Edit("refs/A.md", "x"))

        assert made.ops == {"refs/a.md": None, "refs/A.md": "x"}

    @pytest.mark.parametrize(
        "edits",
        [[Edit("SKILL.md", SKILL)], [Edit("n.md", "x"), Edit("n.md")]],
        ids=["same", "gone"],
    )
    def test_what_changes_nothing_is_no_diff(self, edits):
        assert diff(*edits) is None

    def test_what_cannot_be_read_is_unparsable_and_says_why(self):
        found = tree().to_diff(FILES, "Use shorter sentences.", "w", 1, "t")

        assert found == Dropped("unparsable", "it has no EDITS block and no JSON object with edits")

    @pytest.mark.parametrize(
        ("edit", "reason"),
        [
            (Edit("refs/b.md"), "'refs/b.md': there is no such file"),
            (Edit("refs/b.md", search="a", replace="b"), "there is nothing to search in"),
            (Edit("refs/a.md", search="z", replace="b"), "the text 'z' does not occur"),
            (Edit("SKILL.md", search="o", replace="b"), "the text 'o' occurs more than once"),
            (Edit("SKILL.md", search="", replace="b"), "the text '' does not occur"),
            (Edit("SKILL.md#No", search="o", replace="b"), "there is nothing to search in"),
            (Edit("SKILL.md#No"), "there is no section 'No'"),
            (Edit("new.md#No", "x"), "there is no such file"),
            (Edit("SKILL.md# ", "x"), "no heading follows the '#'"),
        ],
    )
    def test_an_edit_of_what_is_not_there_is_dropped_with_a_reason(self, edit, reason):
        alone = diff(edit)
        beside = diff(edit, Edit("refs/a.md", "b"))

        assert alone.category == "unparsable"
        assert reason in alone.reason
        assert (beside.ops, beside.notes) == ({"refs/a.md": "b"}, (alone.reason,))


class TestLimits:
    @pytest.mark.parametrize(
        ("edit", "reason"),
        [
            (Edit("../out.md", "x"), "'..' leaves the tree"),
            (Edit("/etc/cron.d/x", "x"), "it is absolute"),
            (Edit("C:\\x.md", "x"), "a drive letter"),
            (Edit("~/.bashrc", "x"), "which shells expand"),
            (Edit(".git/hooks/pre-commit", "x"), "it may not be edited"),
            (Edit("sub/.GIT/config", "x"), "it may not be edited"),
            (Edit(".claude/settings.local.json", "x"), "it may not be edited"),
            (Edit(".mcp.json", "x"), "it may not be edited"),
            (Edit("refs/.hidden/x.md", "x"), "it may not be edited"),
            (Edit("tests/t.py", "x"), "it may not be edited"),
            (Edit("TESTS/conftest.py", "x"), "it may not be edited"),
            (Edit("tests/t.py"), "it may not be edited"),
            (Edit("a\nb.md", "x"), "control or invisible characters"),
            (Edit("a\x1b[2Jb.md", "x"), "control or invisible characters"),
            (Edit("aux.md", "x"), "a device name"),
            (Edit("skill.md", "x"), "cannot lie beside 'SKILL.md'"),
            (Edit("Refs/b.md", "x"), "cannot lie beside 'refs'"),
            (Edit("refs", "x"), "cannot lie beside 'refs'"),
            (Edit("refs/a.md/b.md", "x"), "cannot lie beside 'refs/a.md'"),
            (Edit("big.md", "x" * 28_001), "28001 bytes are more than max_file_bytes=28000"),
            (Edit("big.md", "\u00e9" * 14_001), "28002 bytes are more than"),
            (Edit("binary.md", "PK\0\1"), "it is binary"),
            (Edit("half.md", "\ud83d"), "no text that UTF-8 can carry"),
        ],
    )
    def test_a_hostile_edit_is_refused_by_name_and_the_rest_is_kept(self, edit, reason):
        alone = diff(edit)
        beside = diff(edit, Edit("refs/a.md", "b"))

        assert alone.category == "constraint"
        assert reason in alone.reason
        assert (beside.ops, beside.notes) == ({"refs/a.md": "b"}, (alone.reason,))

    @pytest.mark.timeout(60)
    def test_a_hundred_thousand_tiny_files_are_refused(self):
        edits = ",".join(f'{{"path":"{i}","content":"x"}}' for i in range(100_000))

        found = tree().to_diff(FILES, f'<EDITS>{{"edits":[{edits}]}}</EDITS>', "w", 1, "t")

        assert found == Dropped("constraint", "it changes 197 files, and max_files_per_diff=2")

    def test_a_proposal_of_countless_characters_is_not_even_read(self):
        found = tree().to_diff(FILES, "<EDITS>" + "x" * 4_000_000, "w", 1, "t")

        assert found == Dropped("unparsable", "4000007 characters are more than 4000000")

    def test_only_the_first_ten_are_named(self):
        found = diff(*(Edit(f"../{i}", "x") for i in range(15)))

        assert found.reason.count("refused") == 10
        assert found.reason.endswith("; and 5 more")

    def test_files_are_counted_after_those_that_are_refused(self):
        made = diff(Edit("a.md", "x"), Edit("tests/t.py", "x"), Edit("b.md", "x"))
        found = diff(Edit("a.md", "x"), Edit("c.md", "x"), Edit("b.md", "x"))

        assert list(made.ops) == ["a.md", "b.md"]
        assert found == Dropped("constraint", "it changes 3 files, and max_files_per_diff=2")

    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            ({"max_files": 3}, "there are 3 files, and max_files=3"),
            ({"max_total_bytes": 60}, "the tree would have more than max_total_bytes=60"),
        ],
    )
    def test_a_tree_has_bounds(self, limits, reason):
        found = diff(Edit("b.md", "123456789"), of=tree(**limits))

        assert found == Dropped("constraint", f"'b.md': {reason}")
        assert diff(Edit("refs/a.md", "b"), of=tree(**limits)).ops == {"refs/a.md": "b"}

    @pytest.mark.parametrize(
        ("after", "limits", "reason"),
        [
            (
                {"n.md": "x", "N.md": "y"},
                {},
                "'n.md' cannot lie beside 'N.md' on every file system",
            ),
            ({"n": "x", "n/m": "y"}, {}, "'n/m' cannot lie beside 'n' on every file system"),
            ({"1": "", "2": ""}, {"max_files": 4}, "5 files are more than max_files=4"),
            ({"1": "x" * 9}, {"max_total_bytes": 60}, "61 bytes are more than max_total_bytes=60"),
            ({"1": "x", "2": "y"}, {}, None),
            ({}, {"max_files": 1, "max_total_bytes": 1}, None),
        ],
    )
    def test_what_several_proposals_make_together_has_the_same_bounds(self, after, limits, reason):
        assert tree(**limits).violation(FILES, {**FILES, **after}) == reason

    @pytest.mark.parametrize(
        ("options", "path", "writable"),
        [
            ({}, "a/b.md", True),
            ({"editable": ["*.md"]}, "a/b.md", False),
            ({"editable": ["refs"]}, "refs/x.md", True),
            ({"editable": ["refs"], "frozen": ["**/x.md"]}, "refs/x.md", False),
            ({"editable": [".claude/agents/**"]}, ".claude/agents/x.md", True),
            ({"editable": [".claude/**"]}, ".claude/settings.json", False),
            ({"editable": [".claude/settings.json"]}, ".claude/settings.json", True),
            ({"editable": [".git/config"]}, ".git/config", False),
        ],
    )
    def test_frozen_wins_over_editable(self, options, path, writable):
        assert FileTree(**options).writable(path) is writable

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"initial_files": {"../x": ""}}, TreeError, "leaves the tree"),
            ({"initial_files": {"a": "", "A": ""}}, TreeError, "cannot lie beside"),
            ({"planned_paths": ["/x"]}, TreeError, "absolute"),
            ({"editable": "**"}, TypeError, "editable must be a list of texts, got"),
            ({"max_files_per_diff": 0}, ValueError, "max_files_per_diff must be at least 1, got 0"),
        ],
    )
    def test_a_strategy_that_cannot_work_is_refused(self, options, error, message):
        with pytest.raises(error, match=message):
            FileTree(**options)


class TestMerging:
    def test_other_lines_of_one_file_are_joined(self):
        base = "1\n2\n3\n"

        assert tree().merge_values("a.py", base, "x\n2\n3\n", "1\n2\ny\n") == "x\n2\ny\n"

    def test_other_sections_of_one_text_are_joined(self):
        ours, theirs = f"{SKILL}\n## A\n\na\n", f"{SKILL}\n## B\n\nb\n"

        assert tree().merge_values("SKILL.MD", SKILL, ours, theirs) == f"{ours}\n## B\n\nb\n"
        assert tree().merge_values("SKILL.txt", SKILL, ours, theirs) is None

    def test_what_is_too_large_together_contradicts(self):
        small = tree(max_file_bytes=10)

        assert small.merge_values("a", "1\n2\n3\n", "1111\n2\n3\n", "1\n2\n3333\n") is None
        assert small.merge_values("a", "1\n2\n3\n", "111\n2\n3\n", "1\n2\n33\n") == "111\n2\n33\n"

    def test_two_that_make_one_file_contradict(self):
        assert tree().merge_values("a", None, "x", "y") is None


class TestRendering:
    @given(states, st.lists(st.text()))
    def test_any_state_comes_back(self, state, executable):
        found = parse_tree(canonical(state, executable))

        assert found == state
        assert found.executable == {*executable} & state.keys()

    def test_it_says_which_files_may_be_executed(self):
        strategy = FileTree(Tree({"run.sh": "x", "a.md": "y"}, ["run.sh"]))

        assert parse_tree(strategy.render(strategy.initial())).executable == {"run.sh"}
        assert parse_tree(strategy.render({"a.md": "y"})).executable == frozenset()

    def test_equal_trees_have_one_rendering(self):
        assert canonical({"b": "1", "a": "\u00e9"}) == canonical({"a": "\u00e9", "b": "1"})
        assert canonical({"a": "\u00e9"}) == (
            '{"_": "agentdescent.filetree/1", "files": {"a": "\u00e9"}}'
        )

    def test_what_utf8_cannot_carry_is_escaped(self):
        text = canonical({"a": "\ud800"})

        assert (text.isascii(), parse_tree(text)) == (True, {"a": "\ud800"})

    def test_a_plain_object_is_a_tree(self):
        assert parse_tree('{"a.md": "x"}') == {"a.md": "x"}

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("no JSON", "the text is no tree, but 'no JSON'"),
            ("[1]", "a tree is a JSON object"),
            ('{"a": 1}', "a tree maps paths to texts"),
            ('{"_": "agentdescent.filetree/1"}', "a tree maps paths to texts"),
            ('{"_": "agentdescent.filetree/1", "files": {}, "executable": 1}', "a tree maps"),
        ],
    )
    def test_what_is_no_tree_is_refused(self, text, reason):
        with pytest.raises(TreeError, match=reason):
            parse_tree(text)

    def test_a_tree_outlives_its_process(self):
        found = pickle.loads(pickle.dumps(Tree({"a": "x"}, ["a"])))

        assert (found, found.executable) == ({"a": "x"}, {"a"})

    def test_paths_are_checked_as_they_stand(self):
        with pytest.raises(TreeError, match=r"the path './a' is refused: write 'a'"):
            check_paths(["./a"])

    def test_a_summary_names_the_largest_trees_in_part(self):
        files = {f"{i}.md": "x" * 1000 for i in range(3)}

        assert (
            tree_summary(files, 2)
            == "0.md  (1,000 chars)\n1.md  (1,000 chars)\n... and 1 more file(s)"
        )
        assert tree_summary({}) == "(empty tree)"


class TestInstructions:
    def test_they_name_what_may_be_edited_and_what_not(self):
        strategy = tree(editable=["*.md", "refs/**"], planned_paths=["refs/b.md"])

        text = strategy.proposal_instructions(FILES)

        for part in (
            "<EDITS>",
            "At most 2 file(s), of 28000 bytes at most.",
            "Files you may edit: SKILL.md, refs/a.md.",
            "Files that are still to be written: refs/b.md.",
            "You may edit and create what matches: *.md, refs/**.",
            "Files you must not touch: tests/t.py.",
            "Never touch what matches: tests/**.",
        ):
            assert part in text

    def test_a_long_list_is_cut_and_says_so(self):
        text = tree().proposal_instructions({f"{i:03}.md": "" for i in range(203)})

        assert "199.md, and 3 more." in text

    def test_its_keys_are_what_workers_may_share_out(self):
        assert tree(planned_paths=["new.md", "SKILL.md"]).keys() == [
            "SKILL.md",
            "new.md",
            "refs/a.md",
        ]

    def test_frozen_files_are_there_for_those_who_restore_them(self):
        assert tree().frozen_files(FILES) == {"tests/t.py": "assert 1\n"}


edits = st.one_of(
    st.builds(
        Edit, st.sampled_from(["a.md", "b/c.md", "../x", "A.md", "b"]), st.none() | st.text()
    ),
    st.builds(Edit, st.sampled_from(["a.md", "b/c.md#H"]), st.none(), st.text(), st.text()),
)


@given(st.lists(edits, max_size=6))
def test_whatever_is_proposed_the_tree_stays_one(proposed):
    strategy = FileTree({"a.md": "x", "b/c.md": "# H\n"}, max_files_per_diff=9)
    state = strategy.initial()

    change = strategy.read(state, render_edits(proposed))

    after = apply_ops(state, change.ops)
    check_paths(after)
    assert strategy.violation(state, after) is None
    assert len(change.refused) + len(change.problems) <= max(1, len(proposed))


def test_an_edit_that_overlaps_a_newer_file_keeps_its_other_lines():
    tree = FileTree(max_file_bytes=20)
    base, head = "one\ntwo\nthree\n", "1\ntwo\n3\n"

    assert tree.rebase_value("a.md", base, head, "one\ntwo\nIII\n") == "1\ntwo\nIII\n"
    assert tree.rebase_value("a.md", base, "o" * 12 + "\ntwo\n3\n", "one\ntwo\nthree!\n") is None
