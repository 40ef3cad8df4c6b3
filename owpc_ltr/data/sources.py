"""Which queries a model has seen: digests in its record, by which other data's are recognised.

A query is recognised by its id or by its text (see `normalised_text`), whatever file it is in and
whatever documents it has there. Eight bytes are kept of each.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.queries import JudgedQuery, normalised_text, query_text
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import HashSplit, Origin

Data = RankingDataset | PartitionedDataset
Queries = Data | Sequence[JudgedQuery]
Digests = NDArray[np.uint64]
_SEEN = ("train", "validation")


@dataclass(frozen=True, eq=False)
class QueryDigests:
    """Digests of queries' ids and of their texts; 0 where a text is not known."""

    ids: Digests
    texts: Digests

    def by_id(self, seen: QueryDigests) -> NDArray[np.bool_]:
        """Which of these queries have the id of a query that was seen."""
        known: NDArray[np.bool_] = np.isin(self.ids, seen.ids)
        return known

    def by_text(self, seen: QueryDigests) -> NDArray[np.bool_]:
        """Which of these queries have the text of a query that was seen."""
        known: NDArray[np.bool_] = np.isin(self.texts, seen.texts[seen.texts != 0])
        return known

    def joined(self, other: QueryDigests) -> QueryDigests:
        """These queries and others."""
        return QueryDigests(
            *(np.union1d(*two) for two in zip(self._both, other._both, strict=True))
        )

    def as_dict(self) -> dict[str, str]:
        """The digests as a record has them: sorted, so that no order shows; no text, no key."""
        packed = {
            kind: base64.b64encode(np.unique(digests[digests != 0]).astype("<u8").tobytes())
            for kind, digests in zip(("ids", "texts"), self._both, strict=True)
        }
        return {kind: text.decode() for kind, text in packed.items() if text or kind == "ids"}

    @property
    def _both(self) -> tuple[Digests, Digests]:
        return self.ids, self.texts


def digests_of(queries: Queries) -> QueryDigests:
    """The digests of judged queries, in their order.

    Where no text is known, the id is one if there is a letter in it: click logs have such ids.
    """
    ids = _ids(queries)
    texts: Iterable[str] = ids
    if not isinstance(queries, Data):
        texts = (query_text(query.params) for query in queries)
    elif (params := queries.query_params) is not None:
        texts = (query_text(json.loads(one)) for one in params.to_pylist())
    words = (_words(query, text) for query, text in zip(ids, texts, strict=True))
    return QueryDigests(_hashes(ids), _hashes(words))


def source_of(
    training: Data,
    validation: Data | None,
    given: Mapping[str, Any] | None = None,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a record says of the queries: where they are from, and which they are.

    Where they are from is as `given`; else the split that they are sides of, if there is one.
    `base` is the record of a model that is part of the new one: what it has seen, is seen.
    """
    origin = training.origin
    if given is None and origin is not None and _one_split(origin, validation):
        given = origin.source()
    seen = {"train": digests_of(training)}
    if validation is not None:
        seen["validation"] = digests_of(validation)
    seen = _union([seen, _recorded(base or {}) or {}])
    return {**(given or {}), "queries": _as_dict(seen)}


def joint_source(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which queries any of several models has seen; nothing where one does not tell."""
    told = [_recorded(record) for record in records]
    known = [seen for seen in told if seen is not None]
    return {"queries": _as_dict(_union(known))} if len(known) == len(told) else {}


def known_sides(
    record: Mapping[str, Any], queries: Queries, digests: QueryDigests | None = None
) -> NDArray[np.str_] | None:
    """The side that each query was on when a model was trained, by its record; None: nobody knows.

    `test` are the queries that the model neither learned from nor was chosen on. Models of before
    have a split without digests: then the hash of the id decides. `digests` are the queries' own,
    where they were made before.
    """
    seen = _recorded(record)
    if seen is None:
        return _older_sides(record, queries)
    digests = digests or digests_of(queries)
    split = (record.get("source") or {}).get("split")
    others = np.full(len(digests.ids), "test", dtype="<U10")
    if split is not None and is_own(record, queries):
        # Validation queries are none to measure on, although the model was not chosen on them.
        others = HashSplit(**split).sides_of(_ids(queries))
    on = [digests.by_id(seen[side]) | digests.by_text(seen[side]) for side in _SEEN if side in seen]
    return np.select(on, _SEEN[: len(on)], others)


def is_own(record: Mapping[str, Any], queries: Queries) -> bool:
    """Whether these are the data that a model's split is of, or a side of them."""
    if not isinstance(queries, Data):
        return False
    whole = () if queries.origin is None else (queries.origin.fingerprint,)
    return (record.get("source") or {}).get("fingerprint") in {*whole, queries.fingerprint}


def tells_queries(record: Mapping[str, Any]) -> bool:
    """Whether a record has the digests of the queries that its model has seen."""
    return _recorded(record) is not None


def known_by_id_alone(record: Mapping[str, Any], digests: QueryDigests) -> int:
    """How many queries have the id of a query that was seen, and a text that none of these has."""
    known = (_recorded(record) or {}).values()
    by_id = np.any([digests.by_id(seen) & bool(seen.texts.size) for seen in known], axis=0)
    by_text = np.any([digests.by_text(seen) for seen in known], axis=0)
    return int(np.sum(by_id & ~by_text & (digests.texts != 0)))


def _ids(queries: Queries) -> list[str]:
    if isinstance(queries, Data):
        return queries.query_ids.to_pylist()  # type: ignore[no-any-return]
    return [query.query_id for query in queries]


def _words(query: str, text: str) -> str:
    """The normal form of a query's text; none where a mere number stands in its place."""
    text = text or query
    if text == query and not any(map(str.isalpha, text)):
        return ""
    return normalised_text(text)


def _hashes(texts: Iterable[str]) -> Digests:
    """A number for each text, 0 for none."""
    digests = (
        hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        if text
        else bytes(8)
        for text in texts
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _recorded(record: Mapping[str, Any]) -> dict[str, QueryDigests] | None:
    """What a record tells of the queries on each side; None where it tells nothing."""
    try:
        sides = record["source"]["queries"]
        return {
            side: QueryDigests(*(_unpacked(sides[side].get(kind, "")) for kind in ("ids", "texts")))
            for side in _SEEN
            if side == "train" or side in sides
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        # Older models have none or others, and a record that somebody changed knows nothing.
        return None


def _union(several: Iterable[Mapping[str, QueryDigests]]) -> dict[str, QueryDigests]:
    joined: dict[str, QueryDigests] = {}
    for seen in several:
        for side, digests in seen.items():
            joined[side] = joined[side].joined(digests) if side in joined else digests
    return joined


def _as_dict(seen: Mapping[str, QueryDigests]) -> dict[str, dict[str, str]]:
    return {side: seen[side].as_dict() for side in _SEEN if side in seen}


def _older_sides(record: Mapping[str, Any], queries: Queries) -> NDArray[np.str_] | None:
    """The sides as a record without digests has them: by its split, or of exactly the same data."""
    source = record.get("source") or {}
    if source.get("split") is not None:
        return HashSplit(**source["split"]).sides_of(_ids(queries))
    if not isinstance(queries, Data):
        return None
    for known, side in (
        (source.get("fingerprint"), "train"),
        (record.get("fingerprint"), "train"),
        (source.get("validation_fingerprint"), "validation"),
    ):
        if known and known == queries.fingerprint:
            return np.full(queries.n_queries, side)
    return None


def _one_split(origin: Origin, validation: Data | None) -> bool:
    """Whether these are the sides `train` and `validation` of one split."""
    if origin.side != "train" or validation is None:
        return origin.side == "train"
    return validation.origin == Origin(origin.fingerprint, origin.split, "validation")


def _unpacked(text: Any) -> Digests:
    return np.frombuffer(base64.b64decode(text, validate=True), "<u8").astype(np.uint64)
