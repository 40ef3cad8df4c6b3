"""The attempts of an alias as one document beside it: which candidate, by which metric, on what.

Each is counted once, whoever makes it: on a fresh machine, from a renamed file, with new ids. An
attempt is written under the condition that no other came between; where one did, it is counted
again. What cannot be read or written is an error: an attempt that nobody counts does not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.evidence import now
from owpc_ltr.engine.versioned_documents import (
    INDEX,
    Changed,
    VersionedDocument,
    VersionedDocuments,
)
from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr.evaluation.attempts import Pairs, Sketch, is_sketch, same_queries

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
        self.alias, self._candidate = alias, candidate
        self._documents = VersionedDocuments(engine, "the attempts of the alias", f"{_KEY}/")

    @property
    def place(self) -> str:
        """Where they are counted."""
        return f"in the cluster, for the alias '{self.alias}'"

    def made(self) -> list[CountedAttempt]:
        """The attempts so far, the oldest first. Raises BadInput for a damaged document."""
        return self._read()[0]

    def check_writable(self) -> None:
        """Write them as they are. Raises NotAllowed where the account may not."""
        attempts, stored = self._read()
        # Another attempt may come between.
        with suppress(Changed):
            self._write(attempts, stored)

    def count(self, queries: Sketch, metric: str, _pairs: Pairs, /) -> int:
        """How many other attempts on these queries came before; this one is written down.

        The same candidate, by the same metric on the same queries, is the same attempt. Raises
        EngineUnavailable where it cannot be counted now, BadInput where the document is damaged.
        """
        for _ in range(_WRITES):
            attempts, stored = self._read()
            for attempt in attempts:
                if (attempt.candidate, attempt.metric, attempt.queries) == (
                    self._candidate,
                    metric,
                    queries,
                ):
                    return attempt.earlier
            earlier = sum(same_queries(attempt.queries, queries) for attempt in attempts)
            new = CountedAttempt(self._candidate, metric, queries, now(), earlier)
            with suppress(Changed):
                self._write([*attempts, new], stored)
                return earlier
        raise EngineUnavailable(
            f"the attempts of the alias '{self.alias}' change all the time, and this one could "
            f"not be counted in {_WRITES} writes: try again"
        )

    def _read(self) -> tuple[list[CountedAttempt], VersionedDocument | None]:
        what, stored = self._documents.what(self.alias), self._documents.read(self.alias)
        if stored is None:
            return [], None
        try:
            content = stored.content[_KEY]
            if content["format"] != _FORMAT:
                raise BadInput(
                    f"{what} have the format {content['format']!r}, which a later version of "
                    "owpc-ltr wrote: use that one"
                )
            return [_attempt(part) for part in content["made"]], stored
        except (KeyError, TypeError) as error:
            raise BadInput(
                f"{what} are damaged (document {self._documents.id_of(self.alias)} of the index "
                f"{INDEX}), and nothing is compared without them: restore the document from a "
                "snapshot"
            ) from error

    def _write(self, attempts: Sequence[CountedAttempt], before: VersionedDocument | None) -> None:
        made = [asdict(attempt) for attempt in attempts[-_MOST:]]
        content = {_KEY: {"format": _FORMAT, "alias": self.alias, "made": made}}
        self._documents.replace(self.alias, content, before)


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
