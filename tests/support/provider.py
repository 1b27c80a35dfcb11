"""A completion that asks its run for leave and tells it what it took, and a world that uses it."""

import anyio

from agentdescent.calls import ModelCall, current_role, current_run
from agentdescent.core.reply import Tokens
from agentdescent.pricing import Price
from support.worlds import World

PRICES = {"m1": Price(input=1.0, output=10.0)}
EACH = Tokens(80, 20)
USD_EACH = 280 / 1e6


class Provider:
    """Echoes; counts what reaches its server.

    Attributes:
        served: Requests so far.
        most: The most that were under way at once.
        tokens: What each takes, or None if it does not say.
        failing: How many of the next requests fail.
    """

    model, provider, endpoint = "m1", "acme", ""

    def __init__(self, *, tokens=EACH, seconds=0.1, max_tokens=None, failing=0):
        self.tokens = tokens
        self.seconds = seconds
        self.max_tokens = max_tokens
        self.failing = failing
        self.served = 0
        self.under_way = 0
        self.most = 0

    async def __call__(self, prompt):
        run = current_run()
        with await run.admit(provider=self.provider, model=self.model, max_tokens=self.max_tokens):
            fails = await self.serve()
            run.note(
                ModelCall(
                    provider=self.provider,
                    model=self.model,
                    endpoint=self.endpoint,
                    role=current_role(),
                    seconds=self.seconds,
                    tokens=None if fails else self.tokens,
                    error="ConnectionError: gone" if fails else "",
                )
            )
        if fails:
            raise ConnectionError("gone")
        return prompt

    async def serve(self):
        self.served += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        fails, self.failing = self.failing > 0, max(0, self.failing - 1)
        try:
            await anyio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        return fails


class Asking(World):
    """A world whose `run` and `propose` ask a provider."""

    def __init__(self, model=None, **settings):
        super().__init__(**settings)
        self.model = Provider() if model is None else model

    async def run(self, rendered, task):
        self.seen.append((rendered, task.id))
        self.calls.append(f"run {task.id}")
        return await self.model(rendered)

    async def propose(self, rendered, task, output, reward):
        self.calls.append(f"propose {task.id}")
        return await self.model(task.meta["rule"])
