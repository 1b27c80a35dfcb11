"""A model API on a loopback socket that does what real ones do on bad days."""

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from anyio.from_thread import start_blocking_portal

from agentdescent.agents.providers import claude, openai_compatible

KEY = "sk-not-for-your-eyes-0123456789"
WHEN = datetime(2030, 1, 1, tzinfo=UTC)


def openai_reply(text="fine", *, reason="stop", usage=(3, 1), **message):
    return {
        "choices": [
            {"message": {"role": "assistant", "content": text, **message}, "finish_reason": reason}
        ],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]},
    }


def claude_reply(text="fine", *, reason="end_turn", usage=(3, 1), blocks=()):
    return {
        "content": [*blocks, {"type": "text", "text": text}],
        "stop_reason": reason,
        "usage": {"input_tokens": usage[0], "output_tokens": usage[1]},
    }


@dataclass(frozen=True)
class Flavour:
    """One of the two kinds of API, and a completion that asks it."""

    name: str
    make: object
    reply: object
    length: str
    nothing: dict  # a reply without a message in it

    def complete(self, server, **given):
        options = {"api_key": KEY, "base_url": server.url, "backoff": 0.001, **given}
        return self.make(model=options.pop("model", "m-1"), **options)


OPENAI = Flavour(
    "openai_compatible", openai_compatible, openai_reply, "length", {"choices": [], "usage": {}}
)
CLAUDE = Flavour("claude", claude, claude_reply, "max_tokens", {"usage": {}})
FLAVOURS = [OPENAI, CLAUDE]


@dataclass
class Request:
    path: str
    headers: dict
    body: dict


@dataclass
class Server:
    """Plays its script, one act per request; the last act is repeated."""

    acts: list
    url: str = ""
    requests: list = field(default_factory=list, repr=False)
    connections: int = 0
    tasks: list = field(default_factory=list, repr=False)

    async def connected(self, reader, writer):
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            writer.close()

    async def _serve_one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(first.split()[1], headers, json.loads(body))
        self.requests.append(request)
        act = self.acts[min(len(self.requests), len(self.acts)) - 1]
        return await act(writer, request)


@asynccontextmanager
async def serving(*acts):
    server = Server(list(acts))
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)


@contextmanager
def serving_in_a_thread(*acts):
    """For those who block."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(*acts)) as server,
    ):
        yield server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def head(status, length=None, *, kind="application/json", extra=()):
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {kind}", *extra]
    if length is not None:
        lines.append(f"content-length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def says(data, *, status=200, kind="application/json", extra=()):
    """Answer in full, and keep the connection."""

    async def act(writer, _):
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        writer.write(head(status, len(body), kind=kind, extra=extra) + body)
        await writer.drain()
        return True

    return act


def refuses(status, *, extra=(), **error):
    """An error whose message repeats the credentials it was sent."""

    async def act(writer, request):
        sent = request.headers.get("x-api-key") or request.headers.get("authorization")
        said = {"error": {"message": f"no, not even for {sent}", **error}}
        return await says(said, status=status, extra=extra)(writer, request)

    return act


def resets():
    async def act(writer, _):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False

    return act


def hangs_up():
    async def act(*_):
        return False

    return act


def mumbles():
    async def act(writer, _):
        writer.write(b"220 mail.example ready\r\n\r\n")
        await writer.drain()
        return False

    return act


def cuts(data, *, claims_all):
    """Half a body, under the length of the whole or of the half."""

    async def act(writer, _):
        body = json.dumps(data).encode()
        half = body[: len(body) // 2]
        writer.write(head(200, len(body if claims_all else half)) + half)
        await writer.drain()
        return False

    return act


def drips(data, pause=0.02):
    async def act(writer, _):
        body = json.dumps(data).encode()
        writer.write(head(200, len(body)))
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(pause)
        return False

    return act


def hangs():
    async def act(*_):
        await asyncio.Event().wait()

    return act


def streams(*lines, cut=False):
    """Server-sent events in chunks; `cut` ends the connection before the body's end."""

    async def act(writer, _):
        writer.write(head(200, kind="text/event-stream", extra=["transfer-encoding: chunked"]))
        for line in lines:
            text = (line if isinstance(line, str) else f"data: {json.dumps(line)}") + "\n\n"
            writer.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
            await writer.drain()
        if not cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not cut

    return act


def in_an_hour():
    """A Retry-After date, an hour from the date that the reply itself bears."""
    return [
        f"date: {format_datetime(WHEN, usegmt=True)}",
        f"retry-after: {format_datetime(WHEN + timedelta(hours=1), usegmt=True)}",
    ]
