"""The artifact is a directory: `strategy=FileTree(files)`."""

import subprocess

import pytest

from agentdescent import FileTree, SingleSlot, Task, evolve
from agentdescent.policy.filetree_edits import Edit, render_edits
from agentdescent.trees import load_tree, parse_tree
from support.directories import snapshot, write

SKILL = "# Skill\n\nRead this.\n\n## Money\n\nsay money\n\n## Time\n\nsay time\n"
FILES = {"SKILL.md": SKILL, "refs/zoo.md": "lion\ntiger\nbear\nwolf\n"}

tasks = [Task(str(i), f"task {i}") for i in range(10)]
reward_of = {  # what the files must say for it
    "cents": 0.3,
    "seconds": 0.3,
    "LION": 0.2,
    "WOLF": 0.2,
}


def reward(task, output):
    """The more of the files is right, the better."""
    return sum(worth for word, worth in reward_of.items() if word in output)


def run(rendered, task):
    return "\n".join(parse_tree(rendered).values())


def round_of(*proposals, **options):
    """One round in which each worker makes one proposal, which is a list of edits."""
    waiting = [render_edits(edits) for edits in proposals]
    told = []
    result = evolve(
        tasks,
        reward,
        run=run,
        propose=lambda rendered, task, output, score: waiting.pop(0) if waiting else None,
        n_workers=len(proposals),
        rounds=1,
        on_round=told.append,
        **{"strategy": FileTree(FILES), **options},
    )
    return result, told[0]


MONEY = [Edit("SKILL.md#Money", "say cents")]
TIME = [Edit("SKILL.md#Time", "say seconds")]
LION = [Edit("refs/zoo.md", search="lion", replace="LION")]
WOLF = [Edit("refs/zoo.md", search="wolf", replace="WOLF")]


def test_a_directory_evolves_and_goes_back_where_it_came_from(tmp_path):
    source = write(tmp_path / "skill", FILES)

    result, _ = round_of(MONEY, strategy=FileTree(load_tree(source)))
    plan = result.write_to(source)

    assert result.state == {**FILES, "SKILL.md": SKILL.replace("say money", "say cents")}
    assert plan["written"] == ["SKILL.md"]
    assert load_tree(source) == result.state


def test_two_workers_that_edit_different_files_fuse_in_one_commit():
    result, info = round_of(MONEY, LION)

    assert (info.committed, info.fused, info.conflicts_dropped) == (1, 1, 0)
    assert result.version == 2
    assert result.final_reward == pytest.approx(0.5)


def test_so_do_two_that_edit_different_sections_of_one_file():
    result, info = round_of(MONEY, TIME)

    assert (info.committed, info.fused, info.conflicts_dropped) == (1, 1, 0)
    text = SKILL.replace("say money", "say cents").replace("say time", "say seconds")
    assert result.state["SKILL.md"] == text


def test_so_do_two_that_edit_different_lines_of_one_file():
    result, info = round_of(LION, WOLF)

    assert (info.committed, info.fused, info.conflicts_dropped) == (1, 1, 0)
    assert result.state["refs/zoo.md"] == "LION\ntiger\nbear\nWOLF\n"


def test_two_that_edit_the_same_lines_are_resolved_on_held_out_score():
    better = [Edit("SKILL.md#Money", "say cents and seconds")]

    result, info = round_of(MONEY, better, LION)

    assert (info.committed, info.fused, info.conflicts_dropped) == (1, 1, 1)
    assert "say cents and seconds" in result.state["SKILL.md"]
    assert result.final_reward == pytest.approx(0.8)


def test_a_member_that_does_harm_is_taken_out_of_the_file():
    harm = [Edit("SKILL.md#Time", "say seconds, never cents")]
    spoilt = "never cents"

    def judge(task, output):
        return 0.0 if spoilt in output and task.id in {"8", "9"} else reward(task, output)

    waiting = [render_edits(MONEY), render_edits(harm)]
    result = evolve(
        tasks,
        judge,
        run=run,
        propose=lambda rendered, task, output, score: waiting.pop(0) if waiting else None,
        strategy=FileTree({**FILES, "SKILL.md": SKILL + "LION\n"}),
        n_workers=2,
        rounds=1,
    )

    assert "say cents" in result.state["SKILL.md"]
    assert spoilt not in result.state["SKILL.md"]
    assert result.history[0].blamed == 1


def test_an_old_edit_does_not_undo_what_was_committed_since():
    """Workers keep their version for two rounds: the second diff is stale and of the same file."""
    waiting = [render_edits(LION), render_edits(WOLF)]

    result = evolve(
        tasks,
        reward,
        run=run,
        propose=lambda rendered, task, output, score: waiting.pop(0) if waiting else None,
        strategy=FileTree(FILES),
        n_workers=1,
        rounds=2,
        refresh_interval=2,
    )

    assert result.state["refs/zoo.md"] == "LION\ntiger\nbear\nWOLF\n"
    assert [info.committed for info in result.history] == [1, 1]


def test_the_history_reads_as_that_of_any_directory(tmp_path):
    round_of(MONEY, TIME, LION, repo_path=tmp_path / "runs")

    log = subprocess.run(
        ["git", "log", "-p", "-1", "--format=%B", "dev"],
        cwd=tmp_path / "runs",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    subject, _, rest = log.partition("\n")
    assert subject == "merge w0:1 + w1:1 + w2:1 into artifact (v1 -> v2): 0.000 -> 0.800"
    assert "3 proposals fused; their changes to SKILL.md do not overlap." in rest
    assert "changed  SKILL.md, refs/zoo.md" in rest
    for line in ("-say money", "+say cents", "-say time", "+say seconds", "-lion", "+LION"):
        assert f"\n{line}\n" in rest
    assert "/SKILL.md\n" in rest
    assert "/refs/zoo.md\n" in rest


HOSTILE = [
    Edit("../canary.md", "x"),
    Edit("/tmp/canary.md", "x"),
    Edit("C:\\canary.md", "x"),
    Edit(".git/hooks/post-checkout", "x"),
    Edit(".claude/settings.json", "{}"),
    Edit("a\x1bb.md", "x"),
    Edit("con.md", "x"),
    Edit("skill.md", "x"),
    Edit("big.md", "x" * 100_000),
    Edit("binary.md", "\0"),
]


@pytest.mark.parametrize("edit", HOSTILE, ids=lambda edit: repr(edit.path))
def test_a_hostile_edit_is_refused_by_name_and_the_rest_of_the_proposal_is_kept(edit, tmp_path):
    write(tmp_path, {"canary.md": "alive"})
    source = write(tmp_path / "skill", FILES)
    before = snapshot(tmp_path)
    events = []

    alone, _ = round_of([edit], strategy=FileTree(load_tree(source)))
    beside, _ = round_of([edit, *MONEY], on_event=events.append)
    beside.write_to(source, backup=False)

    assert alone.outcomes() == {"constraint": 1}
    assert alone.state == FILES
    assert beside.state == {**FILES, "SKILL.md": SKILL.replace("say money", "say cents")}
    [reason] = [event.reason for event in events if hasattr(event, "proposal")]
    assert repr(edit.path).strip("'")[:5] in reason
    after = snapshot(tmp_path)
    assert {name for name in before if before[name] != after.get(name)} == {"skill/SKILL.md"}
    assert before.keys() == after.keys()


def test_a_whole_page_of_tiny_files_is_refused():
    flood = [Edit(f"{i}.md", "x") for i in range(3000)]

    result, _ = round_of(flood, MONEY)

    assert result.outcomes() == {"constraint": 1, "committed": 1}


def test_long_texts_may_be_joined_as_files_are():
    waiting = ["say cents\nsay time", "say money\nsay seconds"]

    def once(**options):
        proposals = [*waiting]
        return evolve(
            tasks,
            reward,
            run=lambda rendered, task: rendered,
            propose=lambda rendered, task, output, score: proposals.pop(0) if proposals else None,
            strategy=SingleSlot("say money\nsay time", **options),
            n_workers=2,
            rounds=1,
        )

    assert once(join_lines=True).rendered == "say cents\nsay seconds"
    assert once().rendered == "say cents\nsay time"
