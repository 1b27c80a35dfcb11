"""How soon control is back: hostile agents, wrong and missing keys, a server with little room."""

import asyncio
import json
import os
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from _bench import Row, median, run_benchmark

from agentdescent import EvolutionResult, Task, async_evolve
from agentdescent.agents import openai_compatible
from agentdescent.calls import Stage, current_stage
from agentdescent.errors import ProviderAuthError
from agentdescent.ledger import MemoryLedger
from agentdescent.usage import Usage

CLAIM = "8 workers: control is back soon after a run is left, and no request is wasted"
WORKERS, TASKS, HELD_OUT = 8, 40, 16
FOREVER_S = 3_600.0
SHIELDED_S = 1.0
HOSTILE_BAR, LEAVING_BAR, WRONG_KEY_BAR = 2.0, 1.0, 0.1
ROOM, SERVICE_S = 50, 0.2
SCHEDULES = {"rounds": False, "barrier-free": True}

NO_KEY = "AGENTDESCENT_BENCH_NO_KEY"
"""The environment variable that would hold the key."""

Agent = Callable[[], Awaitable[None] | None]
Run = Callable[[str, Task], str | Awaitable[str]]


@dataclass
class World:
    """Evaluations take no time; rollouts do what the agent does, and none ever ends."""

    agent: Agent
    rolling: int = 0
    busy: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, rendered: str, task: Task) -> str:
        if current_stage() is Stage.ROLLOUT:
            self.begin()
            await self.agent()
        return rendered

    def begin(self) -> None:
        self.rolling += 1
        if self.rolling == WORKERS:
            self.busy.set()

    async def reward(self, task: Task, output: str) -> float:
        return 0.5

    async def propose(self, rendered: str, task: Task, output: str, reward: float) -> str:
        return "a line"


class InThreads(World):
    """The agent blocks, so it gets a thread."""

    def plain(self, loop: asyncio.AbstractEventLoop) -> Run:
        def run(rendered: str, task: Task) -> str:
            if current_stage() is Stage.ROLLOUT:
                loop.call_soon_threadsafe(self.begin)
                self.agent()
            return rendered

        return run


async def behaves() -> None:
    await asyncio.sleep(FOREVER_S)


async def swallows_a_cancellation() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(FOREVER_S)
    await asyncio.sleep(FOREVER_S)


async def shields_its_cleanup() -> None:
    try:
        await asyncio.sleep(FOREVER_S)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(SHIELDED_S)


async def left(world: World, *, asynchronous: bool) -> float:
    """Seconds from the cancellation of a run whose workers are all busy to its end."""
    loop = asyncio.get_running_loop()
    run = world.plain(loop) if isinstance(world, InThreads) else world.run
    evolving = asyncio.ensure_future(evolved(world, run, asynchronous=asynchronous))
    await world.busy.wait()
    began = time.perf_counter()
    evolving.cancel()
    with suppress(asyncio.CancelledError):
        await evolving
    return time.perf_counter() - began


async def evolved(world: World, run: Run, *, asynchronous: bool) -> EvolutionResult:
    return await async_evolve(
        [Task(f"t{number}", f"task {number}") for number in range(TASKS)],
        world.reward,
        run=run,
        propose=world.propose,
        held_out_frac=HELD_OUT / TASKS,
        n_workers=WORKERS,
        asynchronous=asynchronous,
        ledger=MemoryLedger(),
        **({"max_seconds": FOREVER_S} if asynchronous else {"max_concurrency": WORKERS}),
    )


def seconds_to_leave(agent: Agent | None, *, asynchronous: bool) -> float:
    """The same in a loop of its own; without an agent, one that blocks until it is let go."""

    async def measured() -> float:
        if agent is not None:
            return await left(World(agent), asynchronous=asynchronous)
        let_go = threading.Event()
        try:
            return await left(InThreads(lambda: _block(let_go)), asynchronous=asynchronous)
        finally:
            let_go.set()

    return asyncio.run(measured())


def _block(let_go: threading.Event) -> None:
    let_go.wait(FOREVER_S)


AGENTS: dict[str, tuple[Agent | None, float]] = {
    "behaves": (behaves, LEAVING_BAR),
    "swallows its cancellation once": (swallows_a_cancellation, HOSTILE_BAR),
    "blocks in a thread": (None, HOSTILE_BAR),
    "shields a second of cleanup": (shields_its_cleanup, HOSTILE_BAR),
}


@dataclass
class Server:
    """An API on a loopback socket.

    Attributes:
        answer: Takes the text of a request and gives the status and the body of a reply.
        requests: How many came.
        answered: When the first was answered, by the performance counter.
    """

    answer: Callable[[str], Awaitable[tuple[int, dict[str, Any]]]]
    url: str = ""
    requests: int = 0
    answered: float | None = None

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = head.partition("content-length:")[2].partition("\r\n")[0]
        asked = json.loads(await reader.readexactly(int(length)))
        self.requests += 1
        status, reply = await self.answer(asked["messages"][-1]["content"])
        body = json.dumps(reply).encode()
        writer.write(
            f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        self.answered = self.answered or time.perf_counter()


@asynccontextmanager
async def serving(answer: Callable[[str], Awaitable[tuple[int, Any]]]) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0, backlog=1024)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()


async def refuse(text: str) -> tuple[int, dict[str, Any]]:
    await asyncio.sleep(SERVICE_S)
    return 401, {"error": {"message": "no such key"}}


@dataclass
class Narrow:
    """Answers so many at once and refuses the others.

    Attributes:
        refused: How many were.
    """

    inside: int = 0
    refused: int = 0

    async def __call__(self, text: str) -> tuple[int, dict[str, Any]]:
        if self.inside >= ROOM:
            self.refused += 1
            return 429, {"error": {"message": "too many"}}
        self.inside += 1
        await asyncio.sleep(SERVICE_S)
        self.inside -= 1
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return 200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


@dataclass(frozen=True)
class Refused:
    """What a run with a useless key came to.

    Attributes:
        seconds: From the first answer to the end; from the start if there was none.
        requests: How many there were.
    """

    seconds: float
    requests: int


async def refused(key: str | None, *, asynchronous: bool) -> Refused:
    """A run whose agent asks a server with this key, or without one."""
    async with serving(refuse) as server:
        complete = openai_compatible("m", base_url=server.url, api_key=key, api_key_env=NO_KEY)

        async def run(rendered: str, task: Task) -> str:
            return await complete(task.prompt)

        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that it stops early is meant
            result = await evolved(World(behaves), run, asynchronous=asynchronous)
        ended = time.perf_counter()
        assert ProviderAuthError.__name__ in (result.error or ""), result.error
        return Refused(ended - (server.answered or began), server.requests)


async def crowded(calls: int) -> tuple[int, int, float]:
    """How many calls at a narrow server succeed, how many extra attempts there are, seconds."""
    narrow, usage, replies = Narrow(), Usage(), dict[int, str]()
    async with (
        serving(narrow) as server,
        openai_compatible("m", base_url=server.url, api_key="k", usage=usage) as complete,
    ):

        async def ask(number: int) -> None:
            replies[number] = await complete(str(number))

        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(calls):
                group.start_soon(ask, number)
        seconds = time.perf_counter() - began
    assert server.requests == calls + narrow.refused
    return sum(replies[number] == str(number) for number in replies), narrow.refused, seconds


def measure(quick: bool) -> Iterable[Row]:
    os.environ.pop(NO_KEY, None)
    turns, calls = (1, 100) if quick else (5, 1_000)
    for name, (agent, bar) in AGENTS.items():
        for schedule, asynchronous in SCHEDULES.items():
            seconds = [seconds_to_leave(agent, asynchronous=asynchronous) for _ in range(turns)]
            yield {
                "left while its agent": name,
                "schedule": schedule,
                "seconds": median(seconds),
                "most": max(seconds),
                "bar": bar,
                "reached": max(seconds) <= bar,
            }
    for kind, key, requests in (("wrong", "wrong", HELD_OUT), ("missing", None, 0)):
        for schedule, asynchronous in SCHEDULES.items():
            ends = [asyncio.run(refused(key, asynchronous=asynchronous)) for _ in range(turns)]
            late, asked = max(end.seconds for end in ends), max(end.requests for end in ends)
            yield {
                "key": kind,
                "schedule": schedule,
                "seconds to the end": median([end.seconds for end in ends]),
                "most": late,
                "bar": WRONG_KEY_BAR,
                "requests": asked,
                "requests allowed": requests,
                "reached": late <= WRONG_KEY_BAR and asked <= requests,
            }
    succeeded, extra, seconds = asyncio.run(crowded(calls))
    yield {
        "calls": calls,
        "taken at once": ROOM,
        "succeeded": succeeded,
        "extra attempts": extra,
        "seconds": seconds,
        "ideal seconds": calls / ROOM * SERVICE_S,
        "reached": succeeded == calls,
    }


if __name__ == "__main__":
    run_benchmark(measure, CLAIM)
