"""Splits by query, and the record of them in a model: which queries are held out.

A query's documents are never on two sides. A model's record has digests of the queries that it has
seen. A query is recognised by its id or by its text (see `normalised_text`), whatever file it is in
and whatever documents it has there. Eight bytes are kept of each.

Duplicate queries: spellings of one request, and queries with mostly the same judged documents.
Results of such queries are correlated. A test that treats them as independent finds differences
that do not exist, and a split that separates them measures memorized queries. Every query is in one
cluster; most clusters are of one query.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.arrays import Digests
from owpc_ltr.data.blocks import FactList, html_of
from owpc_ltr.data.judgments import CLICKS, JudgedQuery, machines_among
from owpc_ltr.data.options import TEST_SHARE, VALIDATION_SHARE
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.text import normalised_text

Codes = NDArray[np.int64]

MOSTLY = 0.5
"""The share of the judged documents of two queries together that both have: above it, they have
mostly the same."""
_COMMON = 0.2
"""A document that a larger share of the queries has judged does not characterize a query."""
_MOST_QUERIES = 200
_NOT_BY_CHANCE = 5
"""With so many documents and the same grades, two queries whose texts differ in digits are equal
requests, and not alike by chance."""
_WORDS = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_LONGEST_ENDING = 4


def clusters_of(queries: Any) -> Codes:
    """The number of each query's cluster, which is that of its first query.

    `queries` are a dataset, or a list of judged queries. Texts that differ in case, plural, or the
    order of words are one cluster, if their other parameters are the same; so are those that differ
    in digits and share a judged document, and queries whose judged documents are mostly the same.
    Documents that very many queries have judged link those that give all of them the same grades,
    and differ in digits.
    Of a folder of parts, texts alone are compared.
    """
    if isinstance(queries, Sequence):
        requests = [(_text_and_others(query.params), query.query_id) for query in queries]
        documents = _numbers(list(chain.from_iterable(query.doc_ids for query in queries)))
        offsets = np.append(0, np.cumsum([len(query.doc_ids) for query in queries]))
        grades = np.concatenate([np.zeros(0), *(query.grades for query in queries)])
        return linked_queries([_key(*request) for request in requests], documents, offsets, grades)
    ids, params = queries.query_ids.to_pylist(), queries.query_params
    given = [{}] * len(ids) if params is None else [_object(text) for text in params.to_pylist()]
    keys = [
        _key(_text_and_others(params_of_query), name)
        for params_of_query, name in zip(given, ids, strict=True)
    ]
    names = getattr(queries, "doc_ids", None)
    if names is None:
        return linked_queries(keys)
    codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return linked_queries(keys, codes, queries.offsets, queries.labels)


def linked_queries(
    keys: Sequence[str],
    documents: Codes | None = None,
    offsets: Codes | None = None,
    grades: NDArray[Any] | None = None,
) -> Codes:
    """The clusters of queries with these keys (see `_key`), '' where nothing is known.

    `documents` are numbers of the judged documents, query by query, cut at `offsets`; `grades` are
    theirs.
    """
    n = len(keys)
    links = [_linked(keys)]
    if documents is not None and offsets is not None and len(documents):
        patterns = [_without_digits(key) for key in keys]
        links += _by_documents(patterns, documents, offsets)
        if grades is not None:
            links.append(_judged_alike(patterns, documents, offsets, grades))
    rows, columns = (np.concatenate(side) for side in zip(*links, strict=True))
    if not len(rows):
        return np.arange(n)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), np.bool_), (rows, columns)), shape=(n, n))
    _, component = connected_components(graph, directed=False)
    _, first, inverse = np.unique(component, return_index=True, return_inverse=True)
    numbers: Codes = first[inverse].astype(np.int64)
    return numbers


def _text_and_others(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The typed text, and the parameters that do not repeat it."""
    name = "keywords" if "keywords" in params else "query"
    text = params.get(name)
    if not isinstance(text, str):
        return "", params
    return text, {key: value for key, value in params.items() if value != text}


def _key(request: tuple[str, Mapping[str, Any]], query_id: str) -> str:
    """The words without case, plural and order, and the other parameters.

    '' where nothing is known, or the id of the query stands for its text.
    """
    text, others = request
    words = spelling(text)
    informative = (bool(words) and text != query_id) or bool(others)
    return f"{words}\n{json.dumps(others, sort_keys=True, default=str)}" if informative else ""


def _without_digits(key: str) -> str:
    """The key with 0 for each number among its words; the other parameters stay."""
    words, end, others = key.partition("\n")
    return f"{_DIGITS.sub('0', words)}{end}{others}"


def spelling(text: str) -> str:
    """The words of a text without case, plural and order.

    >>> spelling("Red  shoes"), spelling("shoe RED")
    ('red shoe', 'red shoe')
    """
    return " ".join(sorted(map(_singular, _WORDS.findall(normalised_text(text)))))


def _object(params: str | None) -> Mapping[str, Any]:
    """Parameters as an object; of other tools they may be anything."""
    value = json.loads(params or "null")
    return value if isinstance(value, dict) else {}


def _numbers(names: Sequence[str]) -> Codes:
    """A number for each name, the same for the same one."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _singular(word: str) -> str:
    """The word without a plural ending, of any English noun that is regular."""
    if len(word) < _LONGEST_ENDING or not word.isalpha() or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


def _linked(keys: Sequence[str]) -> tuple[Codes, Codes]:
    """Each query with the first one of its key; none where the key is empty."""
    first: dict[str, int] = {}
    pairs = [
        (number, earlier)
        for number, key in enumerate(keys)
        if key and (earlier := first.setdefault(key, number)) != number
    ]
    links = np.array(pairs, np.int64).reshape(-1, 2)
    return links[:, 0], links[:, 1]


def _judged_alike(
    patterns: Sequence[str], documents: Codes, offsets: Codes, grades: NDArray[Any]
) -> tuple[Codes, Codes]:
    """Queries that differ in digits alone and have the same documents and grades.

    However often these are judged; but a few may have the same grades by chance.
    """
    order = np.lexsort((documents, np.repeat(np.arange(len(patterns)), np.diff(offsets))))
    judged = np.stack([documents[order], grades[order]], axis=1).astype(np.float64)
    keys = [
        f"{judged[a:b].tobytes().hex()} {pattern}" if pattern and b - a >= _NOT_BY_CHANCE else ""
        for pattern, (a, b) in zip(patterns, pairwise(offsets.tolist()), strict=True)
    ]
    return _linked(keys)


def _by_documents(
    patterns: Sequence[str], documents: Codes, offsets: Codes
) -> list[tuple[Codes, Codes]]:
    """Pairs of queries with mostly the same documents, or one in common and other digits."""
    n, sizes = len(patterns), np.diff(offsets)
    of = np.repeat(np.arange(n), sizes)
    often = np.bincount(documents)[documents]
    informative = (often > 1) & (often <= max(2, min(_COMMON * n, _MOST_QUERIES)))
    if not informative.any():
        return []
    from scipy.sparse import csr_array, triu

    ones = np.ones(int(informative.sum()), np.int32)
    shape = (n, int(documents.max()) + 1)
    judged = csr_array((ones, (of[informative], documents[informative])), shape=shape)
    shared = triu(judged @ judged.T, k=1).tocoo()
    rows, columns = shared.row.astype(np.int64), shared.col.astype(np.int64)
    mostly = shared.data > MOSTLY * (sizes[rows] + sizes[columns] - shared.data)
    texts = np.array(patterns)
    linked = mostly | ((texts[rows] == texts[columns]) & (texts[rows] != ""))
    return [(rows[linked], columns[linked])]


SIDES = ("train", "validation", "test")


class JudgedQueries(Protocol):
    """Queries that can be split by their ids, as those of a dataset."""

    @property
    def query_ids(self) -> pa.StringArray:
        """One id a query."""

    @property
    def query_params(self) -> pa.StringArray | None:
        """The parameters of each query as JSON, if they are known."""

    @property
    def n_queries(self) -> int:
        """The number of queries."""

    @property
    def origin(self) -> Origin | None:
        """The split of which they are a side."""

    @property
    def fingerprint(self) -> str:
        """Digest of the data."""

    def on_side(self, split: HashSplit, side: str) -> Self:
        """The queries on one side of a split; there may be none."""

    def select(self, queries: NDArray[np.int64]) -> Self:
        """These queries, in this order."""

    def with_origin(self, origin: Origin | None) -> Self:
        """The same, marked as a side of a split."""


Data = TypeVar("Data", bound=JudgedQueries)


@dataclass(frozen=True)
class HashSplit:
    """Each query's side is decided by the hash of its id: stable when queries come and go.

    File order is biased in most judgment lists, so position decides nothing.
    """

    validation: float = VALIDATION_SHARE
    test: float = TEST_SHARE
    salt: str = "owpc-ltr"

    def __post_init__(self) -> None:
        # A share that is NaN is refused too.
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise UsageError(
                f"the validation share ({self.validation}) and the test share ({self.test}) must "
                "be 0 or more, and below 1 together, to leave queries to train on"
            )

    def sides(self, data: JudgedQueries) -> NDArray[np.str_]:
        """`train`, `validation` or `test` for each query; a cluster of them is on one side."""
        return self.sides_at(_cluster_positions(data, self.salt))

    def sides_of(self, query_ids: Iterable[str]) -> NDArray[np.str_]:
        """The same for queries of which only the ids are known."""
        return self.sides_at(positions_of(query_ids, self.salt))

    def sides_at(self, position: NDArray[np.float64]) -> NDArray[np.str_]:
        """The same for queries of which only the numbers in [0, 1) are known."""
        return np.where(
            position < self.test,
            "test",
            np.where(position < self.test + self.validation, "validation", "train"),
        )

    def part(self, data: Data, side: str) -> Data:
        """The queries of one side; the split is their origin, unless the data have one already.

        Raises BadInput if there is none.
        """
        part = data.on_side(self, side)
        if not part.n_queries:
            raise BadInput(
                f"no query falls on the {side} side: {data.n_queries} queries are too few for "
                f"shares of {self.validation} (validation) and {self.test} (test)"
            )
        # Two splits, one in the other, are no one split of the whole.
        whole = data.origin is None
        return part.with_origin(Origin(data.fingerprint, self, side) if whole else None)

    def as_dict(self) -> dict[str, Any]:
        """The split as JSON."""
        return {"validation": self.validation, "test": self.test, "salt": self.salt}


@dataclass(frozen=True)
class Origin:
    """The origin of queries: the fingerprint of the whole dataset, its split, and the side."""

    fingerprint: str
    split: HashSplit
    side: str

    def __str__(self) -> str:
        return (
            f"the {self.side} side of {self.fingerprint[:12]}, split by hash with "
            f"{self.split.validation:g} validation and {self.split.test:g} test"
        )

    def source(self) -> dict[str, Any]:
        """The origin in a model's record."""
        return {"fingerprint": self.fingerprint, "split": self.split.as_dict()}


@dataclass(frozen=True, repr=False)
class DatasetSplits(Generic[Data]):
    """A dataset and its sides; iterating gives training, validation and test queries.

    A side whose share is 0 is not there. `source` is what a model's record says of where the
    queries are from.
    """

    everything: Data
    sides: Mapping[str, Data]
    source: Mapping[str, Any]

    @property
    def training(self) -> Data:
        """The queries to learn from."""
        return self._side("train")

    @property
    def validation(self) -> Data:
        """The queries to choose settings on. Raises UsageError where their share is 0."""
        return self._side("validation")

    @property
    def test(self) -> Data:
        """The queries to measure on. Raises UsageError where their share is 0."""
        return self._side("test")

    @property
    def optional_validation(self) -> Data | None:
        """The validation queries; None where there are none."""
        return self.sides.get("validation")

    @property
    def seen(self) -> Data:
        """The queries to learn from and to choose settings on, where they are of one dataset."""
        validation = self.optional_validation
        if validation is None or self.training is self.everything:
            return self.training
        ids = pa.concat_arrays([self.training.query_ids, validation.query_ids])
        seen = pc.is_in(self.everything.query_ids, value_set=ids)
        return self.everything.select(np.flatnonzero(seen))

    def __iter__(self) -> Iterator[Data]:
        """The sides that there are."""
        return (self.sides[side] for side in SIDES if side in self.sides)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part.n_queries} {side}" for side, part in self.sides.items())
        return f"DatasetSplits: {self.everything.n_queries} queries, by hash: {sizes}"

    def _repr_html_(self) -> str:
        rows = [(side, f"{part.n_queries:,} queries") for side, part in self.sides.items()]
        title = f"DatasetSplits: {self.everything.n_queries:,} queries, by hash"
        return html_of([title, FactList(rows)])

    def _side(self, side: str) -> Data:
        if side not in self.sides:
            raise UsageError(
                f"there are no {side} queries: their share is 0; give one, as in split({side}=0.2)"
            )
        return self.sides[side]


def split_queries(
    data: Data, split: HashSplit, name: str | None = None, wanted: Sequence[str] = SIDES
) -> DatasetSplits[Data]:
    """The sides of a dataset that are `wanted`; without held-out shares, all of it is for training.

    `name` is the file's, for the record. Raises BadInput where a wanted side would be empty.
    """
    source = _source(data, name)
    if split.validation == split.test == 0:
        return DatasetSplits(data, {"train": data}, source)
    shares = {"train": 1.0, "validation": split.validation, "test": split.test}
    parts = {side: split.part(data, side) for side in wanted if shares[side]}
    return DatasetSplits(data, parts, {**source, "split": split.as_dict()})


def with_validation(
    data: Data, validation: Data, name: str | None = None, validation_name: str | None = None
) -> DatasetSplits[Data]:
    """All queries of a dataset for training, and those of another for validation."""
    source = _source(data, name) | _source(
        validation, validation_name, "validation", "validation_fingerprint"
    )
    return DatasetSplits(data, {"train": data, "validation": validation}, source)


def _source(
    data: JudgedQueries, name: str | None, key: str = "data", digest: str = "fingerprint"
) -> dict[str, Any]:
    """The name of a dataset, if it has one, and its fingerprint."""
    return ({} if name is None else {key: name}) | {digest: data.fingerprint}


def _cluster_positions(data: JudgedQueries, salt: str) -> NDArray[np.float64]:
    """The position of each query, or of the first id in its cluster: spellings stay together.

    Parts are cut one by one, so that each query of a folder has a position of its own.
    """
    positions = query_positions(data, salt)
    if not hasattr(data, "offsets"):
        return positions
    clusters = clusters_of(data)
    codes = np.unique(clusters, return_inverse=True)[1]
    if int(codes.max(initial=-1)) + 1 == len(codes):
        return positions
    by_id = np.argsort(np.array(data.query_ids.to_pylist(), np.str_), kind="stable")
    _, first = np.unique(codes[by_id], return_index=True)
    return positions[by_id[first]][codes]


def query_positions(data: JudgedQueries, salt: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each query, from the hash of its id."""
    return positions_of(data.query_ids.to_pylist(), salt)


def positions_of(query_ids: Iterable[str], salt: str) -> NDArray[np.float64]:
    """The same for queries of which only the ids are known."""
    return hashes_of(query_ids, salt) / 2**64


def hashes_of(query_ids: Iterable[str], salt: str) -> Digests:
    """The hash of each id, of which the position is the share of all hashes below it."""
    return _hashes((f"{salt}\0{query}".encode() for query in query_ids), ">u8")


def _hashes(contents: Iterable[bytes], kind: str) -> Digests:
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(b"".join(digests), kind).astype(np.uint64)


def fold_of_queries(data: JudgedQueries, folds: int, salt: str) -> NDArray[np.int64]:
    """A fold number for each query; of sizes that differ by one at most, but for clusters."""
    positions, codes = np.unique(_cluster_positions(data, salt), return_inverse=True)
    if not 2 <= folds <= len(positions):
        raise BadInput(f"cannot cut {len(positions)} independent queries into {folds} folds")
    return codes % folds


Queries = JudgedQueries | Sequence[JudgedQuery]
_SEEN = ("train", "validation")


@dataclass(frozen=True, eq=False)
class QueryDigests:
    """Digests of queries' ids and of the spellings of their texts; 0 where a text is not known."""

    ids: Digests
    texts: Digests

    def by_id(self, seen: QueryDigests) -> NDArray[np.bool_]:
        """Which of these queries have the id of a query that was seen."""
        return np.isin(self.ids, seen.ids)

    def by_text(self, seen: QueryDigests) -> NDArray[np.bool_]:
        """Which of these queries have the text of a query that was seen."""
        return np.isin(self.texts, seen.texts[seen.texts != 0])

    def joined(self, other: QueryDigests) -> QueryDigests:
        """These queries and others."""
        return QueryDigests(np.union1d(self.ids, other.ids), np.union1d(self.texts, other.texts))

    def as_dict(self) -> dict[str, str]:
        """The digests as a record has them: sorted, so that no order shows; no text, no key."""
        packed = {
            kind: base64.b64encode(np.unique(digests[digests != 0]).astype("<u8").tobytes())
            for kind, digests in (("ids", self.ids), ("texts", self.texts))
        }
        return {kind: text.decode() for kind, text in packed.items() if text or kind == "ids"}


def digests_of(queries: Queries) -> QueryDigests:
    """The digests of judged queries, in their order.

    Where no text is known, the id is one if there is a letter in it: click logs have such ids.
    """
    ids = _ids(queries)
    texts: Iterable[str] = ids
    if isinstance(queries, Sequence):
        texts = (query_text(query.params) for query in queries)
    elif (params := queries.query_params) is not None:
        texts = (query_text(json.loads(text)) for text in params.to_pylist())
    typed = [_words(query, text) for query, text in zip(ids, texts, strict=True)]
    # A text without a word, as of signs alone, is its own spelling.
    spellings = [spelling(text) or text for text in typed]
    return QueryDigests(_text_hashes(ids), _text_hashes(spellings))


def source_of(
    training: JudgedQueries,
    validation: JudgedQueries | None,
    source: Mapping[str, Any] | None = None,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The entry of a record on the queries: their origin, and their digests.

    Their origin is `source`; without it, the split of which they are sides, if there is one.
    `base` is the record of a model that is part of the new one: what it has seen, is seen.
    """
    origin = training.origin
    if source is None and origin is not None and origin.side == "train":
        other_side = replace(origin, side="validation")
        if validation is None or validation.origin == other_side:
            source = origin.source()
    seen = {"train": digests_of(training)}
    if validation is not None:
        seen["validation"] = digests_of(validation)
    seen = _union([seen, _recorded(base or {}) or {}])
    models = [name for name in machines_among(training) if name != CLICKS]
    return {
        **(source or {}),
        "queries": _as_dict(seen),
        **({"judging_models": models} if models else {}),
    }


def seen_queries(queries: Queries) -> dict[str, Any]:
    """The entry of a record for a model that was trained by other software, on these queries."""
    return {"queries": _as_dict({"train": digests_of(queries)})}


def joint_source(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The queries that any of several models has seen; nothing if one record does not say."""
    recorded = [_recorded(record) for record in records]
    complete = [seen for seen in recorded if seen is not None]
    return {"queries": _as_dict(_union(complete))} if len(complete) == len(recorded) else {}


def known_sides(
    record: Mapping[str, Any], queries: Queries, digests: QueryDigests | None = None
) -> NDArray[np.str_] | None:
    """The side that each query was on when a model was trained, by its record; None: nobody knows.

    `test` are the queries that the model neither learned from nor was chosen on. `digests` are the
    queries' own, where they were made before.
    """
    seen = _recorded(record)
    if seen is None:
        return None
    digests = digests or digests_of(queries)
    split = (record.get("source") or {}).get("split")
    defaults = np.full(len(digests.ids), "test", dtype="<U10")
    if split is not None and _is_own(record, queries):
        # Validation queries are none to measure on, although the model was not chosen on them.
        defaults = HashSplit(**split).sides(queries)  # type: ignore[arg-type]
    on = [digests.by_id(seen[side]) | digests.by_text(seen[side]) for side in _SEEN if side in seen]
    return np.select(on, _SEEN[: len(on)], defaults)


def _is_own(record: Mapping[str, Any], queries: Queries) -> bool:
    """Whether these are the data that a model's split is of, or a side of them."""
    if isinstance(queries, Sequence):
        return False
    whole = () if queries.origin is None else (queries.origin.fingerprint,)
    return (record.get("source") or {}).get("fingerprint") in {*whole, queries.fingerprint}


def tells_queries(record: Mapping[str, Any]) -> bool:
    """Whether a record has the digests of the queries that its model has seen."""
    return _recorded(record) is not None


def known_by_id_alone(record: Mapping[str, Any], digests: QueryDigests) -> int:
    """The number of queries with the id of a seen query and a text that no seen query has."""
    sides = (_recorded(record) or {}).values()
    by_id = np.any([digests.by_id(seen) & bool(seen.texts.size) for seen in sides], axis=0)
    by_text = np.any([digests.by_text(seen) for seen in sides], axis=0)
    return int(np.sum(by_id & ~by_text & (digests.texts != 0)))


def _ids(queries: Queries) -> list[str]:
    if isinstance(queries, Sequence):
        return [query.query_id for query in queries]
    return queries.query_ids.to_pylist()  # type: ignore[no-any-return]


def _words(query: str, text: str) -> str:
    """The normal form of a query's text; none where a mere number stands in its place."""
    text = text or query
    is_number = text == query and not any(map(str.isalpha, text))
    return "" if is_number else normalised_text(text)


def query_text(params: Mapping[str, Any]) -> str:
    """The words of a query; all its parameters where none is called so.

    >>> query_text({"keywords": "alien 3", "year": 1992})
    'alien 3'
    """
    return str(params.get("keywords", params.get("query", ", ".join(map(str, params.values())))))


def _text_hashes(texts: Sequence[str]) -> Digests:
    """A number for each text, 0 for none."""
    hashes = _hashes((text.encode(errors="surrogatepass") for text in texts), "<u8")
    hashes[[not text for text in texts]] = 0
    return hashes


def _recorded(record: Mapping[str, Any]) -> dict[str, QueryDigests] | None:
    """The digests of the queries on each side in a record; None if it has none."""
    try:
        sides = record["source"]["queries"]
        return {
            side: QueryDigests(*(_unpacked(sides[side].get(kind, "")) for kind in ("ids", "texts")))
            for side in _SEEN
            if side == "train" or side in sides
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        # A model of other software has none, and a record that somebody changed knows nothing.
        return None


def _union(several: Iterable[Mapping[str, QueryDigests]]) -> dict[str, QueryDigests]:
    joined: dict[str, QueryDigests] = {}
    for side, digests in chain.from_iterable(seen.items() for seen in several):
        joined[side] = joined[side].joined(digests) if side in joined else digests
    return joined


def _as_dict(seen: Mapping[str, QueryDigests]) -> dict[str, dict[str, str]]:
    return {side: seen[side].as_dict() for side in _SEEN if side in seen}


def _unpacked(text: str) -> Digests:
    return np.frombuffer(base64.b64decode(text, validate=True), "<u8").astype(np.uint64)
