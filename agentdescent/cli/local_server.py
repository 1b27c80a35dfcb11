"""Serves one GGUF file on loopback in the form of the OpenAI API, and counts what it serves.

Started as ``python -m agentdescent.cli.local_server MODEL.gguf PORT``. It says on stdout, as one
JSON line, where it listens, and ends when its stdin is closed: it never outlives its parent.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from selectors import EVENT_READ, DefaultSelector
from time import perf_counter
from typing import IO, Any, Protocol, cast

from agentdescent.threads import Lock

ENGINE = "xllamacpp"
HOST = "127.0.0.1"
NAME = "local"
SLOTS = 4
CONTEXT = 8192
"""Tokens for all slots together."""


class Model(Protocol):
    """What the server asks; xllamacpp's server is one."""

    def handle_chat_completions(self, request: Mapping[str, Any], /) -> Any:
        """The reply to one request, both in the form of the OpenAI API."""
        ...


@dataclass(slots=True)
class Counts:
    """What was served so far.

    Attributes:
        calls: Requests that reached the model.
        failed: How many of them it refused.
        prompt_tokens: As the model counted them.
        completion_tokens: As the model counted them.
        seconds: What each call took, in the order in which they ended.
    """

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: list[float] = field(default_factory=list[float])


class LocalServer(ThreadingHTTPServer):
    """An HTTP server around one model."""

    daemon_threads = True

    request_queue_size = 128
    """Connections that may wait to be taken; beyond, a client would try again after a second."""

    def __init__(self, model: Model, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.model = model
        self.counts = Counts()
        self._counting = Lock()

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://{HOST}:{self.server_port}/v1"

    def answer(self, request: Mapping[str, Any], began: float) -> tuple[int, Any]:
        """The status and the body of the reply to one chat request, which came in at `began`."""
        reply: dict[str, Any] = self.model.handle_chat_completions({**request, "stream": False})
        error: Any = reply.get("error")
        usage: dict[str, int] = reply.get("usage") or {}
        with self._counting:
            counts = self.counts
            counts.seconds.append(perf_counter() - began)
            counts.calls += 1
            counts.failed += error is not None
            counts.prompt_tokens += usage.get("prompt_tokens", 0)
            counts.completion_tokens += usage.get("completion_tokens", 0)
        return HTTPStatus.OK if error is None else HTTPStatus.BAD_REQUEST, reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # headers and body in one packet, not one that waits for the other
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        server = cast("LocalServer", self.server)
        if self.path == "/counts":
            self._reply(HTTPStatus.OK, asdict(server.counts))
        elif self.path == "/v1/models":
            self._reply(HTTPStatus.OK, {"object": "list", "data": [{"id": NAME}]})
        else:
            self._reply(HTTPStatus.NOT_FOUND, {"error": {"message": f"there is no {self.path}"}})

    def do_POST(self) -> None:
        began = perf_counter()
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/v1/chat/completions":
            self._reply(HTTPStatus.NOT_FOUND, {"error": {"message": f"there is no {self.path}"}})
            return
        try:
            request = json.loads(body)
        except ValueError:
            self._reply(HTTPStatus.BAD_REQUEST, {"error": {"message": "the body is no JSON"}})
            return
        self._reply(*cast("LocalServer", self.server).answer(request, began))

    def _reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Requests are counted, not logged."""


def load(path: str) -> Model:
    """The model in `path`, on one thread.

    More threads make it far slower as soon as they share their cores with anything else, and a
    prompt cache in memory would grow with every new prompt.
    """
    engine: Any = import_module(ENGINE)
    params = engine.CommonParams()
    params.model.path = path
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = SLOTS
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.use_jinja = True
    params.verbosity = -1
    return engine.Server(params)


def main(path: str, port: int) -> None:
    """Serve `path` until stdin is closed."""
    server = LocalServer(load(path), port)
    _say(sys.stdout, {"base_url": server.base_url})
    serve(server, sys.stdin, sys.stdout)
    os._exit(0)  # the model's own threads would keep the process


def serve(server: LocalServer, orders: IO[str], answers: IO[str]) -> None:
    """Answer requests until `orders` is at its end; whatever comes from there asks for the counts.

    They are one line of JSON.
    """
    with server, DefaultSelector() as ready:
        ready.register(server, EVENT_READ)
        ready.register(orders, EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is server:
                    server.handle_request()
                elif os.read(key.fd, 1024):
                    _say(answers, asdict(server.counts))
                else:
                    return


def _say(answers: IO[str], what: Any) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
