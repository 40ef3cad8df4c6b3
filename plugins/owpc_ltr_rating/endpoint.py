"""Calls of a chat endpoint in OpenAI's form, with grades out of its answers.

An answer that cannot be read is a failure, never a grade.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import urllib3

from owpc_ltr.engine.client.settings import Secret, is_loopback
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.signatures import option_name
from owpc_ltr.text import shortened

KEY = "OWPC_LTR_ENDPOINT_KEY"
"""The environment variable of the endpoint's key."""
BEST_GRADE = 3
_LARGEST = 1 << 20
_SECONDS = 120.0
_TRIES = 5
_GRADE = {"type": "integer", "enum": list(range(BEST_GRADE + 1))}
_SCHEMA = {
    "type": "object",
    "properties": {"intent": {"type": "string"}, "match": _GRADE, "trust": _GRADE, "grade": _GRADE},
    "required": ["intent", "match", "trust", "grade"],
    "additionalProperties": False,
}


class Unanswered(Exception):
    """A call that brought no grade; its text says why."""


@dataclass(frozen=True)
class Answer:
    """The grade of an answer, and the tokens that the endpoint counted, in and out."""

    grade: int
    tokens: tuple[int, int] = (0, 0)


class ChatEndpoint:
    """An endpoint and a model; calls wait for their turn where there is a rate limit.

    Calls are repeated after 429 and 5xx, as `Retry-After` says. Raises UsageError for an address
    that is none, or that would show the key to the network.
    """

    def __init__(self, url: str, model: str, per_minute: int | None = None, at_once: int = 1):
        parts = urlsplit(url)
        key = os.environ.get(KEY, "")
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise UsageError(
                f"{option_name('endpoint')}: '{url.rpartition('@')[2]}' is no address of an "
                "endpoint: "
                f"give https://HOST/v1, and its key by the environment ({KEY})"
            )
        if key and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UsageError(
                f"{option_name('endpoint')}: {KEY} would cross the network unencrypted: use https"
            )
        self.host, self.model = parts.netloc, model
        path = url.rstrip("/")
        self._url = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = Secret(f"Bearer {key}")
        self._pause = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()
        retries = urllib3.Retry(
            _TRIES,
            status_forcelist=(429, 500, 502, 503, 504),
            allowed_methods=None,
            backoff_factor=0.5,
            redirect=0,
            raise_on_status=False,
        )
        self._pool = urllib3.PoolManager(
            maxsize=at_once, retries=retries, timeout=urllib3.Timeout(_SECONDS)
        )

    def ask(self, prompt: str) -> Answer:
        """The grade of a prompt.

        Raises Unanswered where there is none, Refused where no call can succeed: the key, the
        address or the model's name is wrong.
        """
        self._wait()
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "seed": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "grade", "strict": True, "schema": _SCHEMA},
            },
        }
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=json.dumps(body).encode(),
                headers=self._headers,
                preload_content=False,
            )
            content = response.read(_LARGEST + 1)
            response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            # The client's own words end with those of the system.
            why = str(getattr(error, "reason", None) or error).rpartition(": ")[2]
            raise Unanswered(f"no answer: {shortened(why)}") from error
        if response.status in {401, 403, 404}:
            raise Refused(
                f"the endpoint {self.host} refuses the call ({response.status}): "
                f"{_reason(content)}; check {KEY}, the address and the model's name"
            )
        if response.status != 200:
            raise Unanswered(f"status {response.status}: {_reason(content)}")
        return _answer(content)

    def _wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._pause
        time.sleep(turn - now)


def _answer(content: bytes) -> Answer:
    """The grade of an answer. Raises Unanswered for everything that is not exactly one."""
    try:
        answer = json.loads(content)
        choice = answer["choices"][0]
        text = choice["message"]["content"]
        grade = json.loads(text)["grade"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Unanswered(f"an answer that cannot be read: {_reason(content)}") from error
    if type(grade) is not int or not 0 <= grade <= BEST_GRADE:
        raise Unanswered(f"the grade {shortened(repr(grade))} is not one of 0 to {BEST_GRADE}")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    sent, received = (count if type(count) is int else 0 for count in counts)
    return Answer(grade, (sent, received))


def _reason(content: bytes) -> str:
    return shortened(content[:400].decode("utf-8", "replace")) or "no reason given"
