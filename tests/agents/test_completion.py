import threading

import anyio
import pytest

from agentdescent.agents.completion import Reply, asking, echo, from_callable, metered
from agentdescent.errors import ContractError
from agentdescent.threads import is_async
from agentdescent.usage import Usage


def test_from_callable_gives_the_callable_itself():
    complete = str.upper

    assert from_callable(complete) is complete


@pytest.mark.parametrize("wrong", ["a model's name", lambda: "no prompt", lambda a, b: "two"])
def test_from_callable_refuses_what_takes_no_prompt(wrong):
    with pytest.raises(TypeError, match=r"completion\(prompt\)"):
        from_callable(wrong)


def test_echo_replies_the_prompt_or_what_is_made_of_it():
    assert echo()("prompt") == "prompt"
    assert echo(str.upper)("prompt") == "PROMPT"


def test_a_reply_is_text_that_knows_whether_it_was_cut():
    assert Reply("half a ru", cut=True) == "half a ru"
    assert Reply("half a ru", cut=True).cut
    assert not Reply("a whole rule").cut


class TestMetered:
    def test_a_synchronous_completion_stays_synchronous(self):
        usage = Usage()

        assert metered(str.upper, usage)("prompt") == "PROMPT"
        assert (usage.calls, usage.failures, usage.total_tokens) == (1, 0, 0)
        assert usage.seconds > 0

    @pytest.mark.asyncio
    async def test_an_asynchronous_completion_stays_asynchronous(self):
        usage = Usage()

        async def complete(prompt):
            await anyio.sleep(0)
            return prompt

        measured = metered(complete, usage)

        assert is_async(measured)
        assert await measured("prompt") == "prompt"
        assert (usage.calls, usage.failures) == (1, 0)
        assert usage.seconds > 0

    @pytest.mark.asyncio
    async def test_an_awaitable_reply_is_measured_until_it_is_there(self):
        usage = Usage()

        async def later(prompt):
            return prompt

        def complete(prompt):
            return later(prompt)

        reply = metered(complete, usage)("prompt")
        assert usage.calls == 0

        assert await reply == "prompt"
        assert usage.calls == 1

    def test_a_failure_is_recorded_and_raised(self):
        usage = Usage()

        with pytest.raises(ZeroDivisionError):
            metered(lambda prompt: 1 / 0, usage)("prompt")

        assert (usage.calls, usage.failures) == (1, 1)

    @pytest.mark.asyncio
    async def test_an_asynchronous_failure_is_recorded_and_raised(self):
        usage = Usage()

        async def fail(prompt):
            raise TimeoutError

        with pytest.raises(TimeoutError):
            await metered(fail, usage)("prompt")

        assert (usage.calls, usage.failures) == (1, 1)

    def test_threads_lose_no_call(self):
        usage = Usage()
        complete = metered(str.upper, usage)

        def many():
            for _ in range(500):
                complete("prompt")

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert usage.calls == 2000

    def test_it_keeps_the_name_of_what_it_measures(self):
        assert metered(str.upper, Usage()).__name__ == "upper"


@pytest.mark.asyncio
class TestAsking:
    async def test_a_synchronous_completion_is_called_in_a_thread(self):
        ask = asking(lambda prompt: threading.current_thread().name)

        assert await ask("prompt") == "agentdescent"

    async def test_an_asynchronous_completion_is_called_on_the_loop(self):
        async def complete(prompt):
            return threading.current_thread().name

        assert await asking(complete)("prompt") == "MainThread"

    async def test_an_awaitable_reply_of_a_plain_completion_is_awaited(self):
        async def later():
            return "reply"

        def complete(prompt):
            return later()

        assert await asking(complete)("prompt") == "reply"

    async def test_no_reply_is_an_empty_one(self):
        assert await asking(lambda prompt: None)("prompt") == ""

    async def test_an_object_instead_of_text_breaks_the_contract(self):
        class Message:
            content = "the text"

        with pytest.raises(ContractError, match="must return text; this one returned Message"):
            await asking(lambda prompt: Message())("prompt")
