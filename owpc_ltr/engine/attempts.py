"""The attempts of an alias as one document beside it: which candidate, by which metric, on what.

Each is counted once, whoever makes it: on a fresh machine, from a renamed file, with new ids. An
attempt is written under the condition that no other came between; where one did, it is counted
again. What cannot be read or written is an error: an attempt that nobody counts does not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, check_written
from owpc_ltr.engine.deployment.deployment_record import (
    INDEX,
    Version,
    document_path,
    prepare,
    read_versioned,
)
from owpc_ltr.engine.evidence import now
from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr.evaluation.attempts import Pairs, Sketch, is_sketch, same_queries
from owpc_ltr.text import check_name

_KEY = "attempts"
_FORMAT = 1
_MOST = 1_000
"""Older attempts are forgotten: after 445 on the same queries, no p is small enough."""
_WRITES = 100


@dataclass(frozen=True)
class CountedAttempt:
    """A candidate that was compared on queries; `earlier` attempts on the same ones came before."""

    candidate: str
    metric: str
    queries: Sketch
    time: str
    earlier: int


class ClusterAttempts:
    """The attempts of an alias, of which a comparison of a candidate is the next one.

    `candidate` is a digest of all that makes it: model, query template, window.
    """

    def __init__(self, engine: Engine, alias: str, *, candidate: str) -> None:
        """Count beside the alias in the cluster behind `engine`."""
        self._engine, self.alias, self._candidate = engine, alias, candidate
        # Names have no slash, so that no alias has the id of its attempts.
        self._id = f"{_KEY}/{check_name('model', alias)}"

    @property
    def place(self) -> str:
        """Where they are counted."""
        return f"in the cluster, for the alias '{self.alias}'"

    def made(self) -> list[CountedAttempt]:
        """The attempts so far, the oldest first. Raises BadInput for a damaged document."""
        return self._read()[0]

    def check_writable(self) -> None:
        """Write them as they are. Raises NotAllowed where the account may not."""
        attempts, version = self._read()
        try:
            self._write(attempts, version)
        except EngineRefusal as refusal:
            # Another attempt came between.
            if refusal.status != 409:
                raise

    def count(self, queries: Sketch, metric: str, _pairs: Pairs, /) -> int:
        """How many other attempts on these queries came before; this one is written down.

        The same candidate, by the same metric on the same queries, is the same attempt. Raises
        EngineUnavailable where it cannot be counted now, BadInput where the document is damaged.
        """
        for _ in range(_WRITES):
            attempts, version = self._read()
            for one in attempts:
                if (one.candidate, one.metric, one.queries) == (self._candidate, metric, queries):
                    return one.earlier
            earlier = sum(same_queries(one.queries, queries) for one in attempts)
            new = CountedAttempt(self._candidate, metric, queries, now(), earlier)
            try:
                self._write([*attempts, new], version)
            except EngineRefusal as refusal:
                # Another attempt came between, or this one, whose answer was lost.
                if refusal.status != 409:
                    raise
            except EngineUnavailable:
                # The answer may be all that was lost.
                if new not in self.made():
                    raise
                return earlier
            else:
                return earlier
        raise EngineUnavailable(
            f"the attempts of the alias '{self.alias}' change all the time, and this one could "
            f"not be counted in {_WRITES} writes: try again"
        )

    def _read(self) -> tuple[list[CountedAttempt], Version]:
        what = f"the attempts of the alias '{self.alias}'"
        stored = read_versioned(self._engine, document_path(self._id), what)
        if stored is None:
            return [], {"op_type": "create"}
        try:
            content = stored[0].object[_KEY]
            if content["format"] != _FORMAT:
                raise BadInput(
                    f"{what} have the format {content['format']!r}, which a later version of "
                    "owpc-ltr wrote: use that one"
                )
            return [_attempt(part) for part in content["made"]], stored[1]
        except (KeyError, TypeError) as error:
            raise BadInput(
                f"{what} are damaged (document {self._id} of the index {INDEX}), and nothing is "
                "compared without them: restore the document from a snapshot"
            ) from error

    def _write(self, attempts: Sequence[CountedAttempt], version: Version) -> None:
        prepare(self._engine)
        made = [asdict(one) for one in attempts[-_MOST:]]
        # It may be sent again: the version then is another one.
        answer = self._engine.request(
            "PUT",
            document_path(self._id),
            params=version,
            body={_KEY: {"format": _FORMAT, "alias": self.alias, "made": made}},
        )
        what = f"the attempts of the alias '{self.alias}'"
        check_written(answer, what, self._id, "created", "updated")


def _attempt(content: Any) -> CountedAttempt:
    """An attempt as it was written. Raises KeyError or TypeError where it is damaged."""
    attempt = CountedAttempt(
        **{field.name: content[field.name] for field in fields(CountedAttempt)}
    )
    texts = (attempt.candidate, attempt.metric, attempt.time)
    if not all(isinstance(text, str) for text in texts) or type(attempt.earlier) is not int:
        raise TypeError("attempt")
    if not is_sketch(attempt.queries):
        raise TypeError("queries")
    return attempt
