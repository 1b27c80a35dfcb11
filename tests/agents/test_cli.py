"""Agents behind a command line, played by programs that stand in for them."""

import json

import anyio
import pytest

from agentdescent.agents.cli import WorkspaceAgent, claude_code, cli_agent, codex
from agentdescent.agents.cli_output import read_answer
from agentdescent.agents.completion import echo
from agentdescent.calls import Role, RunCalls, calls_of, working_as
from agentdescent.core.outcomes import StopReason
from agentdescent.core.reply import Reply, Tokens
from agentdescent.core.spend import Exhausted, Spend, Unit
from agentdescent.errors import (
    AgentError,
    BackendError,
    CommandFailed,
    CommandNotStarted,
    CommandTimeout,
    RunningLoopError,
)
from agentdescent.threads import is_async
from agentdescent.usage import Usage
from support.programs import Lifeline, Programs

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Paris\n",
    "usage": {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "server_tool_use": {"web_search_requests": 0},
    },
}
CLAUDE_TOKENS = Tokens(input=123, output=7, cache_read=100, cache_write=20)

CODEX = """\
Reading prompt from stdin...
{"type":"thread.started","thread_id":"1"}
{"type":"item.completed","item":{"id":"0","type":"reasoning","text":"Hm."}}
{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"I look it up."}}
{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"Paris"}}
{"type":"turn.completed","usage":{"input_tokens":50,"cached_input_tokens":40,"output_tokens":5}}
"""


@pytest.fixture
def program(tmp_path):
    return Programs(tmp_path)


@pytest.fixture
def install(program, tmp_path, monkeypatch):
    """Put a stand-in for a program on the search path."""

    def install(name, source):
        python, *args = program(source)
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\nexec {python} {" ".join(args)} "$@"\n')
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}:/usr/bin:/bin")

    return install


@pytest.mark.asyncio
class TestAnswer:
    async def test_the_prompt_is_the_last_argument(self, program):
        agent = cli_agent(program("print(sys.argv[1:], repr(sys.stdin.read()))", "--fast"))

        assert await agent("What?") == "['--fast', 'What?'] ''"

    async def test_the_prompt_may_come_by_standard_input(self, program):
        command = program("print(sys.argv[1:], repr(sys.stdin.read()))", "--fast")

        assert await cli_agent(command, via_stdin=True)("- a\0b") == r"['--fast'] '- a\x00b'"

    async def test_it_works_in_its_workspace(self, program, tmp_path):
        agent = cli_agent(program("print(os.getcwd())"), workspace=tmp_path)

        assert await agent("prompt") == str(tmp_path)

    async def test_in_another_workspace_it_is_another_agent(self, program, tmp_path):
        usage = Usage()
        agent = cli_agent(program("print(os.getcwd())"), workspace=tmp_path, usage=usage)
        (tmp_path / "other").mkdir()

        moved = agent.in_workspace(tmp_path / "other")

        assert await moved("prompt") == str(tmp_path / "other")
        assert await agent("prompt") == str(tmp_path)
        assert usage.calls == 2

    async def test_an_answer_that_is_too_long_is_cut(self, program):
        reply = await cli_agent(program("print('x' * (4 * 2**20 + 1))"))("prompt")

        assert isinstance(reply, Reply)
        assert reply.cut
        assert len(reply) == 4 * 2**20

    async def test_it_is_an_asynchronous_completion(self, program):
        assert is_async(cli_agent(["true"]))
        assert isinstance(cli_agent(["true"]), WorkspaceAgent)
        assert not isinstance(echo(), WorkspaceAgent)

    async def test_a_loop_that_runs_is_not_blocked(self, program):
        with pytest.raises(RunningLoopError, match=r"use `await agent\(prompt\)`"):
            cli_agent(["true"]).sync("prompt")


def test_a_script_need_not_await(program):
    agent = cli_agent(program("print(sys.argv[1].upper())"))

    assert [agent.sync(prompt) for prompt in ("one", "two")] == ["ONE", "TWO"]


class TestRefusal:
    def test_an_empty_command(self):
        with pytest.raises(ValueError, match="command is empty"):
            cli_agent([])

    def test_text_for_a_command(self):
        with pytest.raises(TypeError, match=r"write \['claude', '-p', 'a b'\]"):
            cli_agent("claude -p 'a b'")

    @pytest.mark.parametrize("timeout", [0, -1.5])
    def test_no_time(self, timeout):
        with pytest.raises(ValueError, match=f"timeout must be positive, got {timeout}"):
            cli_agent(["true"], timeout=timeout)

    def test_an_unknown_output(self):
        with pytest.raises(ValueError, match="output must be 'text' or 'json', got 'xml'"):
            cli_agent(["true"], output="xml")


@pytest.mark.asyncio
class TestEnvironment:
    async def test_it_sees_its_home_and_what_is_named(self, program, monkeypatch):
        for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "WANTED"):
            monkeypatch.setenv(name, "value")
        monkeypatch.setenv("HOME", "/home/somebody")
        agent = cli_agent(
            program("print(*sorted(os.environ))"),
            env={"SET": "1"},
            env_passthrough=("WANTED", "UNSET"),
        )

        seen = set((await agent("prompt")).split())

        assert {"HOME", "PATH", "SET", "WANTED"} <= seen
        assert seen - {"HOME", "PATH", "SET", "WANTED"} <= {
            *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TEMP", "TMP", "TMPDIR")
        }

    async def test_each_tool_gets_its_own_keys_and_what_is_named(self, install, monkeypatch):
        names = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HTTPS_PROXY", "WANTED", "OTHER")
        for name in names:
            monkeypatch.setenv(name, "value")
        for tool in ("claude", "codex"):
            install(tool, f"print(*(name for name in {names} if name in os.environ))")

        claude = await claude_code(env_passthrough=("WANTED",))("prompt")
        other = await codex()("prompt")

        assert claude == "ANTHROPIC_API_KEY HTTPS_PROXY WANTED"
        assert other == "OPENAI_API_KEY HTTPS_PROXY"


@pytest.mark.asyncio
class TestFailure:
    async def test_a_missing_program_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        usage = Usage()

        with pytest.raises(
            CommandNotStarted, match=r"'claude'.*npm install -g @anthropic"
        ) as error:
            await claude_code(usage=usage)("prompt")

        assert isinstance(error.value, AgentError)
        assert error.value.attempts_made == 1
        assert (usage.calls, usage.failures) == (1, 1)

    async def test_any_other_missing_program_is_to_be_installed(self):
        with pytest.raises(CommandNotStarted, match=r"'no-such-agent'.*install it, or give"):
            await cli_agent(["no-such-agent"])("prompt")

    async def test_a_missing_workspace_is_named(self, tmp_path):
        agent = cli_agent(["true"], workspace=tmp_path / "nowhere")

        with pytest.raises(CommandNotStarted, match=r"no directory '.*nowhere' to run it in$"):
            await agent("prompt")

    @pytest.mark.parametrize("prompt", ["x" * 200_000, "a\0b"])
    async def test_a_prompt_that_is_no_argument_should_go_by_standard_input(self, prompt):
        with pytest.raises(CommandNotStarted, match="via_stdin=True"):
            await cli_agent(["true"])(prompt)

    async def test_a_status_is_told_with_the_first_words_of_the_error_stream(self, program):
        usage = Usage()
        agent = cli_agent(
            program("print('out'); print('e' * 500, file=sys.stderr); sys.exit(3)"), usage=usage
        )

        with pytest.raises(CommandFailed, match=rf"ended with status 3: {'e' * 400}$") as error:
            await agent("prompt")

        assert error.value.returncode == 3
        assert isinstance(error.value, BackendError)
        assert (usage.calls, usage.failures) == (1, 1)
        assert usage.seconds > 0

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("print('out'); print(file=sys.stderr); sys.exit(1)", "out"),
            ("os._exit(1)", "no output"),
        ],
    )
    async def test_without_an_error_stream_the_output_is_told(self, program, source, said):
        with pytest.raises(CommandFailed, match=f"ended with status 1: {said}$"):
            await cli_agent(program(source))("prompt")

    async def test_it_tells_no_secret(self, program, monkeypatch):
        monkeypatch.setenv("SOME_API_KEY", "sk-abcdef\n")
        source = """
for name in sys.argv[1:4]:
    print(os.environ[name].strip(), file=sys.stderr)
sys.exit("at https://me:pw@host/")
"""
        agent = cli_agent(
            program(source, "SOME_API_KEY", "DB_PASSWORD", "MODEL"),
            env={"DB_PASSWORD": "sk-abc", "SHORT_KEY": "m", "MODEL": "small"},
            env_passthrough=("SOME_API_KEY",),
        )

        with pytest.raises(CommandFailed) as error:
            await agent("prompt")

        assert str(error.value).partition(" status 1: ")[2] == (
            "[SOME_API_KEY]\n[DB_PASSWORD]\nsmall\nat https://***@host/"
        )

    async def test_a_late_one_is_told_with_the_timeout(self):
        usage = Usage()

        with pytest.raises(CommandTimeout, match=r"'sh' exceeded timeout=0\.2s"):
            await cli_agent(["sh", "-c", "sleep 60"], timeout=0.2, usage=usage)("prompt")

        assert (usage.calls, usage.failures) == (1, 1)

    async def test_cancelled_it_is_gone(self, program, tmp_path):
        line = Lifeline(tmp_path / "lifeline")
        usage = Usage()
        agent = cli_agent(program("hold(sys.argv[1]); time.sleep(60)", line.path), usage=usage)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent, "prompt")
            await line.taken()
            tasks.cancel_scope.cancel()

        assert await line.is_cut(within=0.5)
        assert (usage.calls, usage.failures) == (1, 0)
        line.close()


@pytest.mark.asyncio
class TestTools:
    async def test_claude_reads_the_prompt_from_its_input(self, install, tmp_path):
        install("claude", "print(sys.argv[1:], sys.stdin.read(), os.getcwd())")

        reply = await claude_code(tmp_path, ("--model", "haiku"))("prompt")

        assert reply == f"['-p', '--model', 'haiku'] prompt {tmp_path}"

    async def test_codex_does_too(self, install):
        install("codex", "print(sys.argv[1:], sys.stdin.read())")

        assert await codex(extra_args=["--oss"])("prompt") == "['exec', '--oss'] prompt"

    async def test_a_tool_can_be_handed_the_prompt_as_an_argument(self, install):
        install("claude", "print(sys.argv[1:])")

        assert await claude_code(via_stdin=False)("prompt") == "['-p', 'prompt']"

    async def test_json_of_claude_tells_text_and_tokens(self, install):
        install(
            "claude",
            "assert sys.argv[1:] == ['-p', '--output-format', 'json']\n"
            f"print({json.dumps(CLAUDE)!r})",
        )
        usage = Usage()

        reply = await claude_code(output="json", usage=usage)("prompt")

        assert reply == "Paris"
        assert reply.tokens == CLAUDE_TOKENS
        assert (usage.calls, usage.failures) == (1, 0)
        assert (usage.prompt_tokens, usage.completion_tokens) == (123, 7)
        assert usage.seconds == reply.seconds > 0

    async def test_json_of_codex_does_too(self, install):
        install("codex", f"assert sys.argv[1:] == ['exec', '--json']\nprint({CODEX!r})")
        usage = Usage()

        assert await codex(output="json", usage=usage)("prompt") == "Paris"
        assert (usage.prompt_tokens, usage.completion_tokens) == (50, 5)

    async def test_a_run_gets_the_tokens_if_no_account_is_named(self, install):
        install("claude", f"print({json.dumps(CLAUDE)!r})")
        run = RunCalls(Spend({}), Usage())

        with calls_of(run):
            await claude_code(output="json")("prompt")

        assert (run.usage.calls, run.usage.total_tokens) == (1, 130)

    async def test_a_run_pays_for_it_like_for_any_request(self, install):
        install("claude", f"print({json.dumps(CLAUDE)!r})")
        spend = Spend({Unit.ATTEMPT: (1, StopReason.MAX_ATTEMPTS)})
        heard = []
        run = RunCalls(spend, Usage(), [heard.append])

        with calls_of(run), working_as(Role.REFLECT):
            await claude_code(output="json")("prompt")
            with pytest.raises(Exhausted):
                await claude_code(output="json")("prompt")

        (call,) = heard
        assert (call.provider, call.model, call.role) == ("cli", "claude", Role.REFLECT)
        assert run.usage.provider_calls == run.usage.calls == 1

    async def test_an_error_in_json_is_a_failure_that_cost_tokens(self, install):
        install("claude", f"print({json.dumps(CLAUDE | {'is_error': True, 'result': 'No.'})!r})")
        usage = Usage()

        with pytest.raises(CommandFailed, match="'claude' ended with status 0: No"):
            await claude_code(output="json", usage=usage)("prompt")

        assert (usage.calls, usage.failures, usage.total_tokens) == (1, 1, 130)

    @pytest.mark.parametrize(
        ("source", "said"), [("print('Hi')", "Hi"), ("print('Oh', file=sys.stderr)", "Oh")]
    )
    async def test_no_json_is_a_failure(self, install, source, said):
        install("claude", source)
        usage = Usage()

        with pytest.raises(CommandFailed, match=f"status 0: no JSON result in: {said}"):
            await claude_code(output="json", usage=usage)("prompt")

        assert (usage.calls, usage.failures) == (1, 1)


class TestReadAnswer:
    def test_a_list_is_read_to_its_result(self):
        printed = json.dumps([{"type": "system"}, "text", {"type": "assistant"}, CLAUDE])

        answer = read_answer(printed)

        assert (answer.text, answer.tokens, answer.error) == ("Paris\n", CLAUDE_TOKENS, "")

    def test_tokens_of_several_turns_are_added(self):
        answer = read_answer(CODEX + CODEX)

        assert answer.text == "Paris"
        assert answer.tokens == Tokens(input=100, output=10, cache_read=80)

    def test_without_usage_the_tokens_are_not_known(self):
        assert read_answer('{"result": "Paris"}').tokens is None

    @pytest.mark.parametrize("count", [-1, 10**400])
    def test_nonsense_about_tokens_is_no_knowledge_of_them(self, count):
        printed = json.dumps({"result": "Paris", "usage": {"input_tokens": count}})

        assert read_answer(printed).tokens is None

    @pytest.mark.parametrize(
        ("printed", "error"),
        [
            ('{"type": "result", "subtype": "error_max_turns"}', "error_max_turns"),
            ('{"type": "result", "is_error": true}', "an error it does not name"),
            ('{"type": "turn.failed", "error": {"message": "quota"}}', "quota"),
        ],
    )
    def test_an_error_needs_no_result(self, printed, error):
        assert read_answer(printed).error == error

    @pytest.mark.parametrize("printed", ["", "Paris", "[]", "{}", '{"result": 5}', "[" * 100_000])
    def test_anything_else_is_no_answer(self, printed):
        with pytest.raises(ValueError, match="no JSON result"):
            read_answer(printed)


class TestIdentity:
    def test_it_is_the_command_with_its_variables(self):
        agent = cli_agent(["agent", "two words"], env={"B": "2", "A": "1"}, workspace="/somewhere")

        assert agent.identity == "cli: A=1 B=2 agent 'two words'"
        assert agent.in_workspace("/elsewhere").identity == agent.identity
        assert repr(agent) == f"<agent {agent.identity}>"

    def test_it_names_the_tool(self):
        assert (
            claude_code(extra_args=("--model", "haiku")).identity == "cli: claude -p --model haiku"
        )

    def test_it_has_no_secrets(self):
        agent = cli_agent(
            [
                *("agent", "--api-key", "k1", "--token=k2", "--max-tokens", "100"),
                *("--password", "--fast", "ACCESS_TOKEN=k3", "use k4-long", "http://me:k5@host"),
            ],
            env={"THE_KEY": "k4-long"},
        )

        assert agent.identity == (
            "cli: 'THE_KEY=***' agent --api-key '***' '--token=***' --max-tokens 100 "
            "--password --fast 'ACCESS_TOKEN=***' 'use [THE_KEY]' 'http://***@host'"
        )
