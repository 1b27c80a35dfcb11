"""Agents at work on a tree: what they find, what they may know, what becomes of their answers."""

import json
import os
import time

import anyio
import pytest

from agentdescent import FileTree, Task, evolve
from agentdescent.agents.completion import echo
from agentdescent.core.identity import identity_of
from agentdescent.core.reply import Reply, Tokens
from agentdescent.errors import AgentError, CommandTimeout, ContractError, TreeError
from agentdescent.runners import Bubblewrap, TreeReply, agent_edits, tree_runner
from agentdescent.threads import is_async
from agentdescent.trees import Tree
from support.runners import (
    TASK,
    AsyncScripted,
    Scripted,
    left_behind,
    processes_naming,
    python_agent,
    tree,
)

SKILL = tree(SKILL_md="Say yes.")


def files_below(path):
    return {
        str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()
    }


def listing(path, prompt):
    """An agent that says what lies in its workspace."""
    del prompt
    return json.dumps(files_below(path), sort_keys=True)


async def seen_by(rendered=SKILL, task=TASK, **options):
    return json.loads(await tree_runner(Scripted(listing), **options)(rendered, task))


@pytest.mark.asyncio
class TestStaging:
    @pytest.mark.parametrize(
        ("layout", "path"),
        [
            ("claude_skill", ".claude/skills/artifact/SKILL.md"),
            ("claude_agent", ".claude/agents/SKILL.md"),
            ("skill_library", ".claude/skills/SKILL.md"),
            ("root", "SKILL.md"),
            ("lib/{name}/x", "lib/artifact/x/SKILL.md"),
        ],
    )
    async def test_the_layout_says_where_the_tree_goes(self, layout, path):
        assert await seen_by(layout=layout) == {path: "Say yes."}

    async def test_fixtures_lie_in_the_workspace_itself(self):
        task = Task("t", "p", {"fixtures": {"data/in.csv": "1,2", "raw": b"\x31"}})

        assert await seen_by(task=task) == {
            ".claude/skills/artifact/SKILL.md": "Say yes.",
            "data/in.csv": "1,2",
            "raw": "1",
        }

    @pytest.mark.parametrize("kind", ["sync", "async"])
    async def test_fixtures_may_be_made(self, kind):
        def make(task):
            return {"id": task.id}

        async def make_async(task):
            return {"id": task.id}

        seen = await seen_by(layout="root", fixtures=make if kind == "sync" else make_async)

        assert seen == {"SKILL.md": "Say yes.", "id": "t1"}

    async def test_the_overlay_wins_over_the_candidate_and_over_fixtures(self):
        rendered = tree(tests__a_py="candidate", b_py="b")
        task = Task("t", "p", {"fixtures": {"tests/a.py": "fixture"}})

        seen = await seen_by(rendered, task, layout="root", overlay={"tests/a.py": "pristine"})

        assert seen == {"tests/a.py": "pristine", "b.py": "b"}

    async def test_fixtures_win_over_the_candidate(self):
        task = Task("t", "p", {"fixtures": {"b.py": "fixture"}})

        assert await seen_by(tree(b_py="b"), task, layout="root") == {"b.py": "fixture"}

    async def test_files_that_a_candidate_adds_under_frozen_globs_are_left_out(self):
        rendered = tree(tests__conftest_py="hook", Tests__x_py="hook", a_py="a")

        seen = await seen_by(
            rendered, layout="root", frozen=["tests/**"], overlay={"tests/t.py": "t"}
        )

        assert seen == {"tests/t.py": "t", "a.py": "a"}

    async def test_a_fixture_under_frozen_globs_is_refused(self):
        task = Task("t7", "p", {"fixtures": {"x/tests/conftest.py": "hook"}})
        run = tree_runner(Scripted(listing), layout="x", frozen=["tests/**"])

        with pytest.raises(TreeError, match=r"'x/tests/conftest\.py' of task 't7' is refused"):
            await run(SKILL, task)

    async def test_modes_are_kept(self):
        def act(path, prompt):
            del prompt
            return " ".join(sorted(f.name for f in path.iterdir() if os.access(f, os.X_OK)))

        rendered = tree(["tool.py"], tool_py="#!", plain_py="", run_sh="")
        overlay = Tree({"check.py": "#!"}, ["check.py"])

        run = tree_runner(Scripted(act), layout="root", overlay=overlay)

        assert await run(rendered, TASK) == "check.py run.sh tool.py"

    @pytest.mark.parametrize(
        ("fixtures", "complaint"),
        [
            ({"../out": "x"}, "leaves the tree"),
            ({"/etc/x": "x"}, "absolute"),
            ({"skill.MD": "x"}, "cannot lie beside each other"),
            ({"a": 1}, "must map paths to text or bytes"),
            (["a"], "must map paths to text or bytes"),
            ({f"{n}": "" for n in range(10_001)}, "10001 files are more than 10000"),
            ({"big": bytes(2**28 + 1)}, "with 'big' it has more than 268435456 bytes"),
        ],
        ids=["up", "absolute", "case", "number", "list", "many", "large"],
    )
    async def test_hostile_fixtures_are_refused_by_name(self, fixtures, complaint):
        run = tree_runner(Scripted(listing), layout="root")

        with pytest.raises(TreeError, match=complaint):
            await run(SKILL, Task("t", "p", {"fixtures": fixtures}))

        assert left_behind() == []

    async def test_what_is_no_tree_is_refused(self):
        with pytest.raises(TreeError, match="no tree"):
            await tree_runner(Scripted(listing))("Say yes.", TASK)

    async def test_a_huge_tree_is_refused(self):
        rendered = json.dumps({f"f{n}": "" for n in range(10_001)})

        with pytest.raises(TreeError, match="the tree is refused: 10001 files"):
            await tree_runner(Scripted(listing))(rendered, TASK)


@pytest.mark.asyncio
class TestAnswer:
    @pytest.mark.parametrize("scripted", [Scripted, AsyncScripted])
    async def test_agents_of_either_kind_are_asked(self, scripted):
        def act(path, prompt):
            return f" {path.name}: {prompt}\n"

        async def act_async(path, prompt):
            await anyio.lowlevel.checkpoint()
            return act(path, prompt)

        agent = scripted(act if scripted is Scripted else act_async)
        run = tree_runner(agent, prompt_template="{name} in {tree_dir}: {prompt}", name="n")

        assert await run(SKILL, Task("t", "{braces}")) == ("work: n in .claude/skills/n: {braces}")

    async def test_a_program_works_in_the_workspace(self):
        agent = python_agent("print(open('SKILL.md').read(), sys.argv[-1].splitlines()[0])")

        assert await tree_runner(agent, layout="root")(SKILL, TASK) == "Say yes. What is it?"

    async def test_what_is_known_about_an_answer_is_kept(self):
        tokens = Tokens(1, 2)
        run = tree_runner(Scripted(lambda *_: Reply(" yes ", cut=True, tokens=tokens)))

        answer = await run(SKILL, TASK)

        assert (answer, answer.cut, answer.tokens) == ("yes", True, tokens)

    async def test_no_answer_is_an_empty_one(self):
        assert await tree_runner(Scripted(lambda *_: None))(SKILL, TASK) == ""

    async def test_an_answer_must_be_text(self):
        with pytest.raises(ContractError, match="an agent must return text; this one returned int"):
            await tree_runner(Scripted(lambda *_: 3))(SKILL, TASK)

    async def test_a_file_may_hold_the_answer(self):
        def act(path, prompt):
            (path / "out").mkdir()
            (path / "out" / "answer.txt").write_text("\n42\n")
            return f"I wrote it: {prompt}"

        assert await tree_runner(Scripted(act), answer_file="out/answer.txt")(SKILL, TASK) == "42"

    @pytest.mark.parametrize("act", [lambda *_: "said", lambda p, _: (p / "out").touch() or "said"])
    async def test_without_the_file_the_answer_is_what_was_said(self, act):
        assert await tree_runner(Scripted(act), answer_file="out/answer.txt")(SKILL, TASK) == "said"

    async def test_of_a_large_file_the_first_4_mib_are_read(self):
        def act(path, prompt):
            del prompt
            with (path / "a").open("wb") as file:
                file.truncate(2**30)

        answer = await tree_runner(Scripted(act), answer_file="a")(SKILL, TASK)

        assert (len(answer), answer.cut) == (4 * 2**20, True)

    @pytest.mark.parametrize(
        ("plant", "complaint"),
        [
            (lambda file, secret: file.symlink_to(secret), "'d/a' is refused"),
            (lambda file, secret: file.hardlink_to(secret), "'d/a' is refused: it is a hard link"),
            (lambda file, _: os.mkfifo(file), "'d/a' is refused: it is no file"),
            (lambda file, _: file.mkdir(), "'d/a' is refused"),
            (
                lambda file, secret: file.parent.rmdir() or file.parent.symlink_to(secret.parent),
                "'d/a' is refused: a link is on the way",
            ),
        ],
        ids=["link", "hard link", "fifo", "directory", "linked directory"],
    )
    async def test_what_an_agent_plants_there_is_refused(self, tmp_path, plant, complaint):
        secret = tmp_path / "a"
        secret.write_text("password")

        def act(path, prompt):
            del prompt
            (path / "d").mkdir()
            plant(path / "d" / "a", secret)

        run = tree_runner(Scripted(act), answer_file="d/a", workspace_root=tmp_path)
        with pytest.raises(AgentError, match=complaint):
            await run(SKILL, TASK)

        assert secret.read_text() == "password"
        assert left_behind(tmp_path) == []


@pytest.mark.asyncio
class TestAgent:
    async def test_it_sees_no_key_and_no_home_of_ours(self, monkeypatch, tmp_path):
        home = tmp_path / "home"
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        agent = python_agent("print(dict(os.environ))")

        seen = await tree_runner(agent)(SKILL, TASK)

        assert "sk-secret" not in seen
        assert str(home) not in seen
        assert "'PATH': '/usr/bin:/bin'" in seen

    async def test_its_home_is_empty_and_its_own(self):
        agent = python_agent(
            "print(os.listdir(os.environ['HOME']), os.listdir(os.environ['TMPDIR']))"
        )

        assert await tree_runner(agent)(SKILL, TASK) == "[] []"

    async def test_what_it_was_made_to_see_it_sees(self, monkeypatch):
        monkeypatch.setenv("ITS_KEY", "k")
        agent = python_agent("print(os.environ['ITS_KEY'])", env_passthrough=["ITS_KEY"])

        assert await tree_runner(agent)(SKILL, TASK) == "k"

    async def test_it_finds_no_bookkeeping(self):
        agent = python_agent("print(os.listdir('.'))")

        assert await tree_runner(agent, layout="root")(SKILL, TASK) == "['SKILL.md']"

    async def test_no_file_grows_beyond_the_limit(self):
        agent = python_agent("open('f', 'wb').truncate(2**29 + 1); print('made')")

        with pytest.raises(AgentError, match=r"status -?\d+"):
            await tree_runner(agent)(SKILL, TASK)

    @pytest.mark.alone
    @pytest.mark.parametrize("kind", ["sync", "async", "program"])
    async def test_one_that_takes_too_long_is_called_off(self, kind):
        async def act(path, prompt):
            await anyio.sleep_forever()

        agent = {
            "sync": Scripted(lambda *_: time.sleep(0.6)),
            "async": AsyncScripted(act),
            "program": python_agent("time.sleep(60)"),
        }[kind]
        began = time.perf_counter()

        with pytest.raises(CommandTimeout, match=r"the agent exceeded timeout=0\.3s"):
            await tree_runner(agent, timeout=0.3)(SKILL, TASK)

        assert time.perf_counter() - began < 2.3
        assert left_behind() == []

    async def test_a_failed_one_leaves_its_workspace_on_request(self, tmp_path):
        agent = python_agent("open('trace', 'w').write('x'); sys.exit(3)")
        run = tree_runner(agent, keep_failed=True, workspace_root=tmp_path)

        with pytest.warns(RuntimeWarning, match="kept"), pytest.raises(AgentError):
            await run(SKILL, TASK)

        (kept,) = left_behind(tmp_path)
        assert (kept / "trace").read_text() == "x"

    async def test_a_daemon_in_a_session_of_its_own_ends_with_it(self):
        agent = python_agent("""
if not os.fork():
    os.setsid()
    if os.fork(): os._exit(0)
    os.close(1); os.close(2)
    os.execvp("sleep", ["sleep", "543.25"])
while not os.path.exists("/proc/self"): pass
print("done")
""")

        await tree_runner(agent)(SKILL, TASK)

        assert processes_naming("543.25") == []


@pytest.mark.asyncio
class TestCapture:
    async def test_what_the_agent_changed_is_in_its_answer(self):
        def act(path, prompt):
            del prompt
            (path / "SKILL.md").write_text("Say no.")
            (path / "new.md").write_text("n")
            (path / "old.md").unlink()
            (path / "data").write_text("mine now")
            (path / "answer").write_text("done")

        task = Task("t", "p", {"fixtures": {"data": "d"}})
        run = tree_runner(Scripted(act), layout="root", answer_file="answer", capture_edits=True)

        answer = await run(tree(SKILL_md="Say yes.", old_md="o"), task)

        assert answer == "done"
        assert answer.edits == {"SKILL.md": "Say no.", "new.md": "n", "old.md": None}

    async def test_what_is_no_tree_any_more_is_no_edit(self):
        def act(path, prompt):
            del prompt
            (path / ".claude/skills/artifact/SKILL.md").write_bytes(b"\xff\x00")
            return "done"

        answer = await tree_runner(Scripted(act), capture_edits=True)(SKILL, TASK)

        assert answer.edits == {}

    async def test_a_file_that_no_tree_can_have_leaves_the_other_edits(self):
        def act(path, prompt):
            del prompt
            below = path / ".claude/skills/artifact"
            (below / "picture.png").write_bytes(b"\x89PNG\0")
            (below / "SKILL.md").write_bytes(b"\xff")
            (below / "new.md").write_text("n")
            return "done"

        answer = await tree_runner(Scripted(act), capture_edits=True)(SKILL, TASK)

        assert answer.edits == {"new.md": "n"}

    @pytest.mark.parametrize("link", [".claude", ".claude/skills", ".claude/skills/artifact"])
    async def test_nothing_is_read_through_a_link_in_place_of_the_tree(self, link, tmp_path):
        (tmp_path / "skills/artifact").mkdir(parents=True)
        for above in (tmp_path, tmp_path / "artifact", tmp_path / "skills/artifact"):
            above.mkdir(exist_ok=True)
            (above / "secret.md").write_text("the password")

        def act(path, prompt):
            del prompt
            (path / link).rename(path / "aside")
            (path / link).symlink_to(tmp_path)
            return "done"

        answer = await tree_runner(Scripted(act), capture_edits=True)(SKILL, TASK)

        assert answer.edits == {}

    async def test_an_abyss_is_no_error(self):
        def act(path, prompt):
            del prompt
            fd = os.open(path / ".claude/skills/artifact", os.O_RDONLY)
            for _ in range(2000):
                os.mkdir("d", dir_fd=fd)
                inner = os.open("d", os.O_RDONLY, dir_fd=fd)
                os.close(fd)
                fd = inner
            os.close(fd)
            return "done"

        answer = await tree_runner(Scripted(act), capture_edits=True)(SKILL, TASK)

        assert answer.edits == {}

    async def test_it_is_a_proposal(self):
        strategy = FileTree({"SKILL.md": "Say yes.", "old.md": "o"})
        edits = {"SKILL.md": "Say </EDITS> no.", "old.md": None}

        proposal = await agent_edits()("", TASK, TreeReply.of("done", edits), 0.0)

        diff = strategy.to_diff(strategy.initial(), proposal, "w0", 1, "a")
        assert diff.ops == edits

    async def test_without_edits_somebody_else_is_asked(self):
        propose = agent_edits(lambda rendered, task, output, reward: f"{output} {reward}")

        assert await propose("", TASK, TreeReply.of("done", {}), 0.5) == "done 0.5"
        assert await propose("", TASK, "plain", 0.5) == "plain 0.5"
        assert await agent_edits()("", TASK, "plain", 0.5) is None


class TestIdentity:
    def test_equal_runners_have_equal_names(self):
        make = lambda **options: identity_of(tree_runner(python_agent("pass"), **options))

        assert make() == make()
        assert make().explicit

    @pytest.mark.parametrize(
        "options",
        [
            {"layout": "root"},
            {"name": "n"},
            {"prompt_template": "{prompt}"},
            {"overlay": {"a": "b"}},
            {"frozen": ["a"]},
            {"answer_file": "a"},
            {"isolation": Bubblewrap()},
            {"fixtures": lambda task: {}},
        ],
        ids=lambda options: next(iter(options)),
    )
    def test_whatever_changes_answers_changes_the_name(self, options):
        agent = python_agent("pass")

        assert tree_runner(agent, **options).identity.name != tree_runner(agent).identity.name
        assert str(tree_runner(agent, **options).identity) in repr(tree_runner(agent, **options))

    def test_an_agent_that_vouches_for_nothing_is_not_vouched_for(self):
        class Silent(Scripted):
            identity = None

        assert not tree_runner(Silent(listing)).identity.explicit

    def test_a_runner_is_a_coroutine_function(self):
        assert is_async(tree_runner(Scripted(listing)))


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "error", "complaint"),
        [
            ({"layout": "../x"}, TreeError, "leaves the tree"),
            ({"layout": "{nam}"}, ValueError, "layout='{nam}' is no directory"),
            ({"prompt_template": "{x} {prompt}"}, ValueError, "cannot be filled in"),
            ({"prompt_template": "do it"}, ValueError, "lacks the field {prompt}"),
            ({"overlay": {"../x": ""}}, TreeError, "leaves the tree"),
            ({"answer_file": "/etc/passwd"}, TreeError, "absolute"),
            ({"timeout": 0}, ValueError, "timeout must be positive, got 0"),
            ({"frozen": "tests"}, TypeError, "frozen must be a list"),
            ({"fixtures": {"a": "b"}}, TypeError, "fixtures must be a function"),
            ({"isolation": Bubblewrap()}, TypeError, "runs in this very process"),
        ],
    )
    def test_arguments_are_checked_at_once(self, options, error, complaint):
        with pytest.raises(error, match=complaint):
            tree_runner(Scripted(listing), **options)

    def test_a_plain_completion_is_refused(self):
        with pytest.raises(TypeError, match=r"WorkspaceAgent, which has in_workspace\(path\)"):
            tree_runner(echo())


def test_a_tree_is_evolved_by_what_an_agent_reads_off_the_disk():
    tasks = [Task(str(n), f"Say {n}.", {"gold": f"{n}!"}) for n in range(30)]
    agent = Scripted(
        lambda path, prompt: (
            prompt.split()[1].rstrip(".") + ("!" if "!" in (path / "SKILL.md").read_text() else "")
        )
    )
    proposal = json.dumps({"edits": [{"path": "SKILL.md", "content": "Add a !"}]})

    result = evolve(
        tasks,
        lambda task, output: float(output == task.meta["gold"]),
        run=tree_runner(agent, layout="root"),
        propose=lambda *_: f"<EDITS>{proposal}</EDITS>",
        strategy=FileTree({"SKILL.md": "Be brief."}),
        n_workers=2,
        rounds=3,
    )

    assert json.loads(result.rendered)["files"] == {"SKILL.md": "Add a !"}
    assert left_behind() == []
