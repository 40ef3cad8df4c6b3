"""A proxy between a command and a real node, which goes wrong at a chosen request.

    with FaultProxy(node_url) as proxy:
        proxy.plan = Plan(act=busy(503), on=is_search, first=3)

Whatever is not planned passes through as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from tests.engine.fake_engine import Asked, FakeEngine, Reply

Forward = Callable[[Asked], Reply]
"""Asks the node itself."""
Act = Callable[[Asked, Forward], Reply]
"""What goes wrong with a request: it may ask the node, before, after, otherwise, or not at all."""
FOR_EVER = 10**9
_ENDS_HERE = {"connection", "content-length", "transfer-encoding", "content-type", "host"}


@dataclass
class Plan:
    """The `times` requests from the `first` on (counted from 1) that `on` chooses go wrong."""

    act: Act
    on: Callable[[Asked], bool] = lambda _: True
    first: int = 1
    times: int = 1
    onwards: bool = False
    """Whether from the first such request on every request goes wrong, chosen or not."""
    struck: int = field(default=0, init=False)
    """How many requests have gone wrong."""
    _met: int = field(default=0, init=False)

    def strikes(self, asked: Asked) -> bool:
        """Whether this request goes wrong; called once for each, one at a time."""
        chosen = self.on(asked)
        self._met += chosen
        begun = self._met >= self.first
        wrong = begun and self.struck < self.times and (chosen or self.onwards)
        self.struck += wrong
        return wrong


class FaultProxy(FakeEngine):
    """A server on 127.0.0.1 that passes requests on to a node, and fails as planned."""

    def __init__(self, upstream: str, certificate: Path | None = None) -> None:
        super().__init__(certificate)
        self.plan: Plan | None = None
        self.elsewhere = "http://127.0.0.1:9"
        """Another host, to which nobody must be sent on."""
        self._upstream = upstream
        self._pool = urllib3.PoolManager(maxsize=64, retries=False)
        self._planning = threading.Lock()

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        self._pool.clear()

    def answer(self, asked: Asked) -> Reply:
        """The node's answer, or what is planned in its place."""
        with self._planning:
            self.requests.append(asked)
            plan = self.plan
            wrong = plan is not None and plan.strikes(asked)
        return plan.act(asked, self.forward) if plan and wrong else self.forward(asked)

    def forward(self, asked: Asked) -> Reply:
        """The node's own answer."""
        kept = {k: v for k, v in asked.headers.items() if k not in _ENDS_HERE}
        if asked.raw:
            kept["content-type"] = asked.headers.get("content-type", "application/json")
        answer = self._pool.request(
            asked.method, f"{self._upstream}{asked.target}", body=asked.raw or None, headers=kept
        )
        content_type = answer.headers.get("content-type", "application/json")
        return Reply(answer.data, answer.status, content_type=content_type)

    def stop_listening(self) -> None:
        """From now on new connections are refused by the system."""
        self._server.shutdown()
        self._server.server_close()
