"""The client of a cluster: JSON in, JSON out; which HTTP statuses and faults are retried."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from owpc_ltr.engine.http.address import split_url
from owpc_ltr.engine.http.connection import ConnectionSettings, find_settings
from owpc_ltr.engine.http.identity import About, Identity, about, identify
from owpc_ltr.engine.http.pace import Pace, Turn
from owpc_ltr.engine.http.protocol_probe import told_protocol
from owpc_ltr.engine.http.refusals import EngineRefusal, NoSuchIndex, NotAllowed, cause, one_line
from owpc_ltr.engine.http.retry import RetryBudget, Retrying, TransientError, seconds_asked
from owpc_ltr.engine.http.wire import Answer, Wire
from owpc_ltr.errors import BadInput, EngineUnavailable

__all__ = ["Engine", "EngineRefusal", "Identity", "connect"]

_BUSY = {429, 502, 503, 504}
_PATH = re.compile(r"/[A-Za-z0-9_.@%/-]*")
_PATIENCE = 3.0
"""Seconds for the first connection to an engine."""


class Engine:
    """A cluster that answers requests; safe to share between threads."""

    def __init__(self, settings: ConnectionSettings, retrying: Retrying | None = None) -> None:
        self.settings = settings
        self._retrying = retrying or Retrying(RetryBudget())
        self._wire = Wire(settings)
        self._met = self._probed = False
        self._pace: Pace | None = None

    def __repr__(self) -> str:
        return f"Engine({self.settings.url!r})"

    def at_pace(self, pace: Pace) -> Engine:
        """The same cluster over the same connections; each of its searches waits for a turn."""
        paced = copy.copy(self)
        paced._pace = pace
        return paced

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        ndjson: Iterable[Any] | None = None,
        idempotent: bool = True,
        deadline: float | None = None,
    ) -> Any:
        """The decoded JSON of the answer; None for HEAD.

        `path` is percent-encoded by the caller. `ndjson` is a body of one JSON value a line. An
        `idempotent` request (a search is one) may be sent again after its answer was lost.
        `deadline` is in seconds, for all attempts together.

        Raises EngineUnavailable where no whole answer comes in time or the credentials do not
        do, and EngineRefusal where the engine says no.
        """
        if not _PATH.fullmatch(path) or "/../" in f"{path}/":
            raise ValueError(f"not a path of an engine: {path!r}")
        content, content_type = _encoded(body, ndjson)
        texts = {name: _text(value) for name, value in (params or {}).items()}
        attempts = 0

        def attempt(left: float, turn: Turn | None) -> Any:
            nonlocal attempts
            attempts += 1
            seconds = min(left, self.settings.timeout)
            begun = time.monotonic()
            try:
                answer = self._wire.exchange(method, path, texts, content, content_type, seconds)
            except TransientError as fault:
                if turn is not None:
                    turn.missed()
                self._check_protocol(fault)
                # A wrong address or a forgotten start is told at once, an outage is waited for.
                if fault.unreachable and not self._met and time.monotonic() > started + _PATIENCE:
                    raise given_up(fault) from fault
                raise
            self._met = True
            if turn is not None:
                turn.saw(answer.status, time.monotonic() - begun)
            return self._understood(method, path, answer)

        def given_up(fault: TransientError) -> EngineUnavailable:
            times = "once" if attempts == 1 else f"{attempts} times"
            return EngineUnavailable(
                f"{self.settings.url} did not do {method} {path}: {fault}; tried {times} in "
                f"{time.monotonic() - started:.1f} s{self._hint(fault)}"
            )

        seconds = min(deadline or self.settings.deadline, self.settings.longest)
        # The deadline is the engine's: it begins with the turn.
        with self._turn(path) as turn:
            started = time.monotonic()
            try:
                return self._retrying.run(
                    lambda left: attempt(left, turn), seconds, idempotent=idempotent
                )
            except TransientError as fault:
                raise given_up(fault) from fault

    def identity(self) -> Identity:
        """Which cluster this is, as it says itself."""
        return identify(self, self.settings.url)

    def about(self) -> About:
        """The same without its plugins, which are a right of their own to ask for."""
        return about(self, self.settings.url)

    def close(self) -> None:
        """End the idle connections."""
        self._wire.close()

    def _turn(self, path: str) -> AbstractContextManager[Turn | None]:
        # What is held in the engine is given back without a turn.
        if self._pace is None or not path.endswith("/_search"):
            return nullcontext()
        return self._pace.turn()

    def _check_protocol(self, fault: TransientError) -> None:
        """Tell an address of the wrong scheme at once, where the first connection breaks."""
        if self._met or self._probed or fault.unreachable:
            return
        self._probed = True
        told = told_protocol(split_url(self.settings.url))
        if told:
            raise EngineUnavailable(f"{self.settings.url} {told}") from fault

    def _understood(self, method: str, path: str, answer: Answer) -> Any:
        status = answer.status
        if 200 <= status < 300:
            return None if method == "HEAD" else self._decoded(answer)
        if 300 <= status < 400:
            raise EngineUnavailable(
                f"{self.settings.url} sends {path} on to another address ({status}), which is not "
                "followed: give the engine's own address"
            )
        content = _json_or_none(answer.body)
        if content is None and answer.body and "json" in answer.headers.get("content-type", ""):
            # Half a refusal is none: what it is about may be in the other half.
            raise TransientError("it answered with what is not whole JSON")
        kind, reason = cause(content)
        if status in _BUSY and not _is_about_moments(path, kind, reason):
            raise TransientError(
                _busy(status, reason),
                not_executed=status == 429,
                wait=seconds_asked(answer.headers.get("retry-after")),
            )
        # The LTR plugin's own breaker refuses writes with a plain 500, before it stores anything.
        if status == 500 and "memory circuit is broken" in reason:
            raise TransientError("the LTR plugin is short of memory", not_executed=True)
        if status == 401 or (status == 403 and "block" not in kind):
            unauthorised = NotAllowed if status == 403 else EngineUnavailable
            raise unauthorised(self._unauthorised(status, reason))
        refusal = NoSuchIndex if kind == "index_not_found_exception" else EngineRefusal
        raise refusal(f"{method} {path}", status, kind, reason or _start(answer.body))

    def _decoded(self, answer: Answer) -> Any:
        content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if answer.body and content_type and "json" not in content_type:
            raise EngineUnavailable(
                f"{self.settings.url} answers with {one_line(content_type)} in place of JSON: is "
                "this the engine's own address?"
            )
        try:
            return json.loads(answer.body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            # An answer whose end is marked by closing the connection can be cut unnoticed.
            what = "nothing" if not answer.body else "what is not whole JSON"
            raise TransientError(f"it answered with {what}") from error

    def _unauthorised(self, status: int, reason: str) -> str:
        url, credentials = self.settings.url, self.settings.credentials
        because = f" ({reason})" if reason else ""
        if credentials is None:
            return (
                f"{url} wants to know who asks ({status}): set OWPC_LTR_USER and "
                "OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY"
            )
        if status == 401:
            return f"{url} does not accept the credentials (401): check {credentials.source}"
        return (
            f"{url} does not allow this{because} (403): the credentials of {credentials.source} "
            "need more rights"
        )

    def _hint(self, fault: TransientError) -> str:
        if "refused" in str(fault) and self.settings.url.startswith("http://127.0.0.1:"):
            or_else = "" if self.settings.given else ", or give --url"
            return f"; start a local node: owpc-ltr engine start{or_else}"
        return ""


def connect(
    url: str | None = None,
    *,
    ca: Path | None = None,
    insecure: bool = False,
    caution: Callable[[str], None] | None = None,
) -> Engine:
    """The cluster of this call, the environment or the configuration file, else the local node.

    `caution` is told what the user must be told on each run.
    """
    settings = find_settings(url, ca=ca, insecure=insecure)
    for line in settings.cautions:
        if caution is not None:
            caution(line)
    return Engine(settings)


def _is_about_moments(path: str, kind: str, reason: str) -> bool:
    """Whether no pause helps: others have filled the cluster with points in time, or ours is gone.

    A search without an index in its path is of a point in time, which the one node that had its
    shard takes along.
    """
    gone = path == "/_search" and kind == "no_shard_available_action_exception"
    return gone or "too many Point In Time" in reason


def _encoded(body: Any, ndjson: Iterable[Any] | None) -> tuple[bytes | None, str]:
    try:
        if ndjson is not None:
            return "".join(f"{_dumped(line)}\n" for line in ndjson).encode(), "application/x-ndjson"
        return (None if body is None else _dumped(body).encode()), "application/json"
    except UnicodeEncodeError as error:
        raise BadInput(
            "a request holds half a character (a lone surrogate), which no engine takes: mend the "
            "text it comes from"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"a request cannot be written as JSON: {error}") from error


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _busy(status: int, reason: str) -> str:
    return f"it is busy or not there ({status}{': ' if reason else ''}{reason})"


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _start(body: bytes) -> str:
    return one_line(body[:200].decode("utf-8", "replace"))


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
