"""A hub on the loopback device that behaves as badly as a test asks it to."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from agentdescent.dataloader import Backoff

QUICK = Backoff(attempts=3, first_wait_s=0.001)
TOKEN = "hf_SeCrEt0123"


class Server:
    """Hands out numbered rows, and files.

    Attributes:
        total: How many rows there are.
        files: Path to content.
        faults: What the next requests meet instead; each a function of the request's handler.
        queries: The query of every request, its path included.
        tokens: The Authorization header of every request.
        revision: Sent as X-Revision, if it is not None.
        extra: Added to the body of every page.
        edit: Changes an entry of a page.
    """

    def __init__(self):
        self.total, self.files, self.faults = 250, {}, deque()
        self.queries, self.tokens = [], []
        self.revision, self.extra, self.edit = None, {}, lambda entry: entry
        self.has_total = True
        self.released = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def offsets(self):
        return sorted(int(query["offset"]) for query in self.queries)

    def page(self, query):
        offset = int(query["offset"])
        rows = [
            self.edit({"row_idx": n, "row": {"n": n}, "truncated_cells": []})
            for n in range(offset, min(self.total, offset + int(query["length"])))
        ]
        body = {"features": [], "rows": rows, **self.extra}
        return json.dumps({"num_rows_total": self.total, **body} if self.has_total else body)

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                parts = urlsplit(self.path)
                query = {key: value for key, [value] in parse_qs(parts.query).items()}
                server.queries.append({"path": parts.path, **query})
                server.tokens.append(self.headers.get("Authorization"))
                if server.faults:
                    server.faults.popleft()(self)
                elif parts.path == "/rows":
                    self.answer(server.page(query).encode())
                elif parts.path in server.files:
                    self.answer(server.files[parts.path])
                else:
                    self.answer(b'{"error": "no such thing"}', 404)

            def answer(self, body, status=200, *, length=None, headers=None):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                if server.revision is not None:
                    self.send_header("X-Revision", server.revision)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def stall(self):
                server.released.wait(10)
                self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler


def numbered(n):
    return [{"n": number} for number in range(n)]


def status(code, body=b"", **headers):
    return lambda handler: handler.answer(body, code, headers=headers)


def cut_short(handler):
    handler.answer(b'{"rows": [', length=1000)
    handler.close_connection = True


def too_short_a_length(handler):
    handler.answer(b'{"num_rows_total": 250, "rows": []}', length=20)
    handler.close_connection = True


def hang_up(handler):
    handler.close_connection = True


def stall(handler):
    handler.stall()


def body(content):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda handler: handler.answer(content)
