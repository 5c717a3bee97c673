"""A local server that speaks OpenAI's chat completion API, as well or as badly as a test wants."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | int | None  # what the model says, an HTTP status, or None: the connection is cut


class OpenAI(ThreadingHTTPServer):
    """``answers`` are given in order, then ``answer(note)`` for good; ``calls`` counts by title."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answers: list[Answer] = []
        self.answer: Callable[[str], Answer] = questions_about
        self.headers: dict[str, str] = {}  # sent with an error
        self.message = "something is wrong"  # said with an error
        self.release = threading.Event()  # nobody is answered before
        self.release.set()
        self.lock = threading.Lock()
        self.most_at_once = self.at_once = 0

    @property
    def notes(self) -> list[str]:
        """What the model was asked about, in order."""
        return [request["messages"][-1]["content"] for request in self.requests]

    @property
    def calls(self) -> Counter[str]:
        return Counter(title_of(note) for note in self.notes)


def title_of(note: str) -> str:
    found = re.search(r"<note>\n(.*?)\.\s", note, re.DOTALL)
    return found[1] if found else ""


def questions_about(note: str) -> str:
    """Five questions that only this note answers."""
    title = title_of(note)
    return "\n".join(f"{i}. What is point {i} of {title}?" for i in range(1, 6))


class _Handler(BaseHTTPRequestHandler):
    server: OpenAI

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append(body)
            server.keys.append(self.headers.get("Authorization"))
            answer = server.answers.pop(0) if server.answers else None
            scripted = answer is not None
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        server.release.wait()
        with server.lock:
            server.at_once -= 1
        if not scripted:
            answer = server.answer(body["messages"][-1]["content"])
        if answer in (None, "cut"):
            self.close_connection = True
            self.connection.close()
            return
        if isinstance(answer, int):
            self._send(answer, {"error": {"message": server.message, "code": str(answer)}})
            return
        message = {"role": "assistant", "content": answer}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        self._send(
            200,
            {
                "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": choices, "usage": usage,
            },
        )  # fmt: skip

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(status)
            for name, header in (self.server.headers if status != 200 else {}).items():
                self.send_header(name, header)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has been killed
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[OpenAI]:
    server = OpenAI()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
