"""The attempts of an alias as one document beside it: which candidate, by which metric, on what.

Each is counted once, whoever makes it: on a fresh machine, from a renamed file, with new ids. An
attempt is written under the condition that no other came between; where one did, it is counted
again. What cannot be read or written is an error: an attempt that nobody counts does not happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.evidence import BY_USERS, now
from owpc_ltr.engine.versioned_documents import (
    INDEX,
    Changed,
    VersionedDocument,
    VersionedDocuments,
)
from owpc_ltr.errors import BadInput, EngineUnavailable, give_warnings
from owpc_ltr.evaluation.attempts import (
    Pairs,
    Sketch,
    corrected_for,
    is_sketch,
    same_queries,
    sketch_of,
)
from owpc_ltr.evaluation.significance import LEVEL

_KEY = "attempts"
_FORMAT = 1
_MOST = 1_000
"""Older attempts are forgotten: after 446 on the same queries, no p is small enough."""
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

    def may_count(self, *, for_evidence: bool) -> bool:
        """Whether the account may write them, which is tried: they are written as they are.

        A comparison that is not counted is no evidence, and a warning says so. Raises NotAllowed
        where it is `for_evidence`.
        """
        attempts, stored = self._read()
        try:
            # Another attempt may come between.
            with suppress(Changed):
                self._write(attempts, stored)
        except NotAllowed as refusal:
            why = f"the comparison cannot be counted among the attempts of '{self.alias}'"
            if for_evidence:
                raise NotAllowed(
                    f"{why}, which evidence needs: {refusal}; use an account that may "
                    f"write the index {INDEX}, or leave out `out`"
                ) from refusal
            give_warnings([f"{why}, and is no evidence for a switch: {refusal}"])
            return False
        return True

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

    def level_by_users(self) -> float:
        """The level of a test by users: 5 % for all that the alias ever has; this one is counted.

        Without it, one candidate in a hundred that is not better would be promoted by chance.
        """
        import pyarrow as pa

        earlier = self.count(sketch_of(pa.array([BY_USERS])), BY_USERS, {})
        return LEVEL / corrected_for(earlier)

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


def _attempt(content: Mapping[str, Any]) -> CountedAttempt:
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
