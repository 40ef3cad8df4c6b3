"""A chat endpoint with faults: bias, latency, 429, broken answers, obedience to documents."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DOCUMENT = re.compile(r"<document ([0-9a-f]{16})>\n(.*)\n</document \1>", re.DOTALL)
QUERY = re.compile(r"^Query: (.*)$", re.MULTILINE)


@dataclass
class Stub:
    """What the endpoint was asked, and how it answers: `grade` gets the query and the document."""

    grade: Callable[[str, str], Any]
    fault: Callable[[int, str], bytes | int | None] = lambda _number, _document: None
    """The status or the body that the n-th call gets in place of a grade."""
    status: int = 200
    """Of the bodies of faults."""
    latency: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    documents: Counter[str] = field(default_factory=Counter)
    url: str = ""
    lock: Any = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes]:
        prompt = body["messages"][0]["content"]
        document, query = DOCUMENT.search(prompt), QUERY.search(prompt)
        assert document is not None
        assert query is not None
        with self.lock:
            self.requests.append(body)
            number = len(self.requests)
            self.documents[document[2]] += 1
        time.sleep(self.latency)
        fault = self.fault(number, document[2])
        if isinstance(fault, int):
            return fault, b'{"error": "later"}'
        if fault is not None:
            return self.status, fault
        grade = self.grade(query[1], document[2])
        text = json.dumps({"intent": "x", "match": 1, "trust": 1, "grade": grade})
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 20}
        return 200, answer_of(text, usage=usage)


def answer_of(text: str, *, end: str | None = "stop", **more: Any) -> bytes:
    """What an endpoint answers where the model said this."""
    choice = {"message": {"content": text, **more.pop("message", {})}, "finish_reason": end}
    return json.dumps({"choices": [choice], **more}).encode()


@contextmanager
def running(stub: Stub) -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet: a second one waits for the first, 40 ms

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.headers.append(dict(self.headers))
            status, content = stub.answer(body)
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
