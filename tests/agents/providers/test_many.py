"""A thousand calls at a server that takes fifty at once."""

import asyncio
import gc
import threading
import time

import anyio
import httpx
import pytest

from agentdescent.usage import Usage
from support.apis import OPENAI, says, serving

ROOM = 50
SERVICE_S = 0.2
TURNS = 40


class Narrow:
    """Takes 50 at once and answers 429 beyond."""

    def __init__(self):
        self.inside = self.most = 0
        self.refused = []
        self.began = None

    async def __call__(self, writer, request):
        self.began = self.began or time.perf_counter()
        if self.inside >= ROOM:
            self.refused.append(time.perf_counter() - self.began)
            return await says({"error": {"message": "too many"}}, status=429)(writer, request)
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(TURNS):  # of the loop, so that a busy machine delays both sides alike
            await asyncio.sleep(SERVICE_S / TURNS)
        self.inside -= 1
        said = request.body["messages"][0]["content"]
        return await says(OPENAI.reply(said))(writer, request)


@pytest.mark.alone
@pytest.mark.timeout(240)
@pytest.mark.asyncio
async def test_all_succeed_with_few_extra_attempts_no_thread_and_one_pool():
    act, replies, usage = Narrow(), {}, Usage()
    threads = threading.active_count()
    before = {id(it) for it in gc.get_objects() if isinstance(it, httpx.AsyncClient)}
    async with serving(act) as server, OPENAI.complete(server, usage=usage) as complete:

        async def ask(number):
            replies[number] = await complete(f"{number}")

        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(ask, number)
        clients = [it for it in gc.get_objects() if isinstance(it, httpx.AsyncClient)]

        assert replies == {number: f"{number}" for number in range(1000)}
        assert threading.active_count() == threads
        assert len([it for it in clients if id(it) not in before]) == 1
        late = [at for at in act.refused if at > 20 * SERVICE_S]
        assert len(late) <= 100
        assert usage.provider_calls == 1000 + len(act.refused) == len(server.requests)
        assert act.refused
        assert act.most == ROOM
        assert server.connections <= 4 * ROOM
