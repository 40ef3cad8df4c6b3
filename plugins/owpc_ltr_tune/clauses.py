"""Scores of judged documents by the clauses of a query, from which every setting is scored here.

A query that is a sum or maximum of clauses, times their boosts, is computed from the scores of its
clauses: those are asked of the engine once. A clause that cannot be taken apart, as one whose words
or slop are tuned, is asked again for each of its forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.stores.feature_queries import named, render
from owpc_ltr.errors import Refused
from owpc_ltr.metrics import Metric, RankedQueries
from owpc_ltr_tune.numbers import NUMBER

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.signatures import Progress
    from owpc_ltr_tune.numbers import TunableQuery

Query = dict[str, Any]


class Scores(NamedTuple):
    """Scores of all documents, 0 where the query does not match."""

    values: Vector
    matched: NDArray[np.bool_]


Leaf = Callable[[Query], Scores]
_BATCH = 500
_TOGETHER = 32
"""Clauses of one search."""
_PROVED = 20
"""Queries of which the engine's own scores are compared."""


class OutOfSearches(Refused):
    """The next setting takes more searches than are left."""

    def __init__(self) -> None:
        super().__init__("`searches` are too few to score one setting: give more")


class LoggedClauses:
    """The judged documents of queries, and their scores by every clause that was asked for."""

    def __init__(
        self,
        engine: Engine,
        index: str,
        data: RankingDataset,
        metric: Metric,
        *,
        taken_apart: bool,
        most_searches: int,
        in_flight: int,
        progress: Progress,
    ) -> None:
        """Nothing is asked of the engine yet. `data` know their documents and parameters.

        Unless queries are `taken_apart`, each of them is one clause.
        """
        self._engine, self._index, self._metric = engine, index, metric
        self._data, self._in_flight, self._progress = data, in_flight, progress
        assert data.doc_ids is not None and data.query_params is not None  # noqa: S101, PT018
        ends = zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)
        documents = data.doc_ids.to_pylist()
        params = map(json.loads, data.query_params.to_pylist())
        self._rows = [(start, documents[start:end]) for start, end in ends]
        self._params: list[dict[str, Any]] = list(params)
        self._known: dict[str, Scores] = {}
        self._compute = score_of if taken_apart else _whole
        self.searches, self._most = 0, most_searches

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return self._data.n_queries

    def value(self, query: Query) -> float:
        """The mean of the metric where documents are ranked by this query; higher is better.

        A document that it does not match is not retrieved. Raises OutOfSearches.
        """
        scores, data = self.scores(query), self._data
        queries = RankedQueries(scores.values, data.labels, data.offsets, scores.matched)
        mean = self._metric.average(self._metric.of(queries), data.query_importance)
        return mean if self._metric.higher_is_better else -mean

    def scores(self, query: Query) -> Scores:
        """The scores of all documents by a query. Raises OutOfSearches."""
        lacking: dict[str, Query] = {}
        size = self._data.n_documents
        nothing = Scores(np.zeros(size), np.zeros(size, np.bool_))

        def look(leaf: Query) -> Scores:
            key = json.dumps(leaf, sort_keys=True)
            if key not in self._known:
                lacking[key] = leaf
            return self._known.get(key, nothing)

        scores = self._compute(query, look)
        while lacking:
            some = dict(list(lacking.items())[:_TOGETHER])
            self._ask(some)
            lacking.clear()
            scores = self._compute(query, look)
        return scores

    def difference(self, query: Query) -> float:
        """The largest difference to the engine's own scores (relative error for those above 1)."""
        scores, largest = self.scores(query), 0.0
        numbers = np.linspace(0, len(self._rows) - 1, min(_PROVED, len(self._rows))).astype(int)
        for number in numbers.tolist():
            start, documents = self._rows[number]
            batch = documents[:_BATCH]
            own = self._hits({"must": [render(query, self._params[number])]}, batch)
            engine = np.array([own.get(name, {"_score": np.nan})["_score"] for name in batch])
            local, matched = (part[start : start + len(batch)] for part in scores)
            if (np.isnan(engine) == matched).any():
                return float("inf")
            apart = np.abs(engine - local) / np.maximum(1.0, np.abs(local))
            largest = max(largest, float(apart[matched].max(initial=0.0)))
        return largest

    def _ask(self, clauses: Mapping[str, Query]) -> None:
        """Ask the engine for the scores of all documents by these clauses."""
        needed = sum(-(-len(documents) // _BATCH) for _, documents in self._rows)
        if self.searches + needed > self._most:
            raise OutOfSearches
        self.searches += needed
        table = np.full((len(clauses), self._data.n_documents), np.nan)
        places = {f"owpc-ltr-{place}": place for place in range(len(clauses))}

        def fill(number: int) -> None:
            start, documents = self._rows[number]
            should = [
                named(render(query, self._params[number]), name)
                for name, query in zip(places, clauses.values(), strict=True)
            ]
            for first in range(0, len(documents), _BATCH):
                batch = documents[first : first + _BATCH]
                hits = self._hits({"should": should}, batch)
                for row, document in enumerate(batch, start + first):
                    scores = hits[document].get("matched_queries", {}) if document in hits else {}
                    if not isinstance(scores, dict):
                        raise Refused(
                            "the engine names the matching queries without their scores: that "
                            "needs OpenSearch 2.13 or Elasticsearch 8.8 or later"
                        )
                    # A template may name its own queries, too.
                    for name in scores.keys() & places.keys():
                        table[places[name], row] = scores[name]

        def show(count: int) -> None:
            words = f"scores of judged documents, {count:,} of {len(self._rows):,} queries"
            self._progress(words, count / len(self._rows))

        with RequestThreads(min(self._in_flight, len(self._rows))) as workers:
            workers.map(fill, range(len(self._rows)), show)
        for key, row in zip(clauses, table, strict=True):
            self._known[key] = Scores(np.nan_to_num(row), ~np.isnan(row))

    def _hits(self, clauses: Query, documents: Sequence[str]) -> dict[str, Any]:
        """The hits among these documents by id."""
        among = {"ids": {"values": list(documents)}}
        query = {"bool": {"filter": [among], **clauses}}
        if "should" in clauses:
            # Only the named queries are scored.
            query = {"constant_score": {"filter": query}}
        body = {"query": query, "size": len(documents), "_source": False, "track_total_hits": True}
        named_scores = {"include_named_queries_score": "true"}
        answer = search_index(self._engine, self._index, body, "scores", params=named_scores)
        return {hit["_id"]: hit for hit in answer.hits}


def _whole(query: Query, leaf: Leaf) -> Scores:
    return leaf(query)


def searches_of(numbers: TunableQuery, *, taken_apart: bool) -> int:
    """How often each training query is searched, about, until no number moves: in two rounds."""
    known, rounds = set[str](), 0

    def look(leaf: Query) -> Scores:
        known.add(json.dumps(leaf, sort_keys=True))
        return Scores(np.zeros(1), np.ones(1, np.bool_))

    compute = score_of if taken_apart else _whole
    compute(numbers.query(numbers.now), look)
    for place, number in enumerate(numbers.numbers):
        for value in number.values:
            before = len(known)
            setting = (*numbers.now[:place], value, *numbers.now[place + 1 :])
            compute(numbers.query(setting), look)
            rounds += len(known) > before
    return 1 + 2 * rounds


def score_of(query: Query, leaf: Leaf) -> Scores:
    """The scores of a query from those of its leaves.

    `leaf` gives the scores of a query that cannot be taken apart, or need not be, without a boost.
    """
    if not isinstance(query, dict) or len(query) != 1:
        return leaf(query)
    ((kind, body),) = query.items()
    # The boost of a function_score is that of its query.
    plain, boost = (query, 1.0) if kind == "function_score" else _without_boost(query)
    parts = _PARTS.get(kind)
    scores = parts(plain[kind], leaf) if parts and isinstance(body, dict) else None
    return _times(leaf(plain) if scores is None else scores, boost)


def _times(scores: Scores, boost: Any) -> Scores:
    return scores if boost == 1.0 else scores._replace(values=scores.values * float(boost))


def _without_boost(query: Query) -> tuple[Query, float]:
    """A clause without the boost that its score is multiplied by, and that boost."""
    for kind, body in query.items():
        if not isinstance(body, dict):
            continue
        if isinstance(body.get("boost"), int | float):
            rest = {key: part for key, part in body.items() if key != "boost"}
            return {kind: rest}, body["boost"]
        for field, words in body.items() if len(body) == 1 else ():
            if isinstance(words, dict) and isinstance(words.get("boost"), int | float):
                rest = {key: part for key, part in words.items() if key != "boost"}
                return {kind: {field: rest}}, words["boost"]
    return query, 1.0


def _are_numbers(*values: Any) -> bool:
    """Whether none is a text, as of a parameter that only the application fills in."""
    return all(isinstance(value, int | float) for value in values)


def _sum(parts: Sequence[Scores]) -> Scores:
    """The sum of scores, for the documents that any part matches."""
    values, matched = parts[0]
    for part in parts[1:]:
        values, matched = values + part.values, matched | part.matched
    return Scores(values, matched)


def _only(values: Vector, kept: NDArray[np.bool_]) -> Scores:
    return Scores(np.where(kept, values, 0.0), kept)


def _bool(body: Query, leaf: Leaf) -> Scores | None:
    clauses = {key: body[key] for key in ("must", "should", "filter", "must_not") if key in body}
    must, should, filters, never = (
        [score_of(part, leaf) for part in (of if isinstance(of, list) else [of])]
        for of in (clauses.get(key, []) for key in ("must", "should", "filter", "must_not"))
    )
    needed = body.get("minimum_should_match", 0)
    unknown = body.keys() - clauses.keys() - {"minimum_should_match"}
    if unknown or not isinstance(needed, int) or needed < 0 or not (must or should):
        return None
    needed = max(min(needed, len(should)), int(not (must or filters)))
    kept = np.sum([part.matched for part in should], axis=0) >= needed
    for part in (*must, *filters):
        kept = kept & part.matched
    for part in never:
        kept = kept & ~part.matched
    return _only(_sum([*must, *should]).values, kept)


def _dis_max(body: Query, leaf: Leaf) -> Scores | None:
    queries, tie = body.get("queries"), body.get("tie_breaker", 0.0)
    unknown = body.keys() - {"queries", "tie_breaker"}
    if unknown or not queries or not isinstance(queries, list) or not _are_numbers(tie):
        return None
    parts = [score_of(part, leaf) for part in queries]
    (total, matched), best = _sum(parts), parts[0].values
    for part in parts[1:]:
        best = np.maximum(best, part.values)
    return Scores(best + tie * (total - best) if tie else best, matched)


_PER_FIELD = {"best_fields": "match", "most_fields": "match", "phrase": "match_phrase"}
"""Types of multi_match that ask each field for itself."""


def _multi_match(body: Query, leaf: Leaf) -> Scores | None:
    kind, fields = body.get("type", "best_fields"), body.get("fields")
    if kind not in _PER_FIELD or not isinstance(fields, list):
        return None
    parted = [str(text).partition("^") for text in fields]
    if any("*" in field or not NUMBER.fullmatch(boost or "1") for field, _, boost in parted):
        return None
    tie = body.get("tie_breaker", float(kind == "most_fields"))
    shared = {k: v for k, v in body.items() if k not in {"type", "fields", "tie_breaker"}}
    queries = []
    for field, _, boost in parted:
        words = {**shared, "boost": float(boost or 1.0)}
        queries.append({_PER_FIELD[kind]: {field: words}})
    return _dis_max({"queries": queries, "tie_breaker": tie}, leaf)


def _constant_score(body: Query, leaf: Leaf) -> Scores | None:
    if body.keys() != {"filter"}:
        return None
    matched = score_of(body["filter"], leaf).matched
    return Scores(matched.astype(np.float64), matched)


_MODES: dict[str, Callable[[Vector, Vector], Vector]] = {
    "multiply": lambda score, value: score * value,
    "replace": lambda _score, value: value,
    "sum": lambda score, value: score + value,
}


def _function_score(body: Query, leaf: Leaf) -> Scores | None:
    """A query and functions that are multiplied, or added up; the boost is that of the query."""
    how, mode = body.get("score_mode", "multiply"), body.get("boost_mode", "multiply")
    unknown = body.keys() - {"query", "functions", "score_mode", "boost_mode", "boost"}
    functions, boost = body.get("functions"), body.get("boost", 1.0)
    if unknown or how not in {"multiply", "sum"} or mode not in _MODES:
        return None
    if not isinstance(functions, list) or not all(isinstance(each, dict) for each in functions):
        return None
    if not _are_numbers(boost, *(function.get("weight", 1.0) for function in functions)):
        return None
    query = score_of(body.get("query", {"match_all": {}}), leaf)
    value = np.full(len(query.values), float(how == "multiply"))
    weights = np.zeros(len(value))
    for function in functions:
        own, weight = dict(function), float(function.get("weight", 1.0))
        own.pop("weight", None)
        applies = score_of(own.pop("filter", {"match_all": {}}), leaf).matched
        of_function: Any = weight
        if own:
            alone = {"query": {"match_all": {}}, "functions": [own], "boost_mode": "replace"}
            of_function = weight * leaf({"function_score": alone}).values
        if how == "multiply":
            value = np.where(applies, value * of_function, value)
        else:
            value, weights = value + applies * of_function, weights + applies * weight
    if how == "sum":
        # Engines take functions that weigh nothing together for none, and none for 1.
        value = np.where(weights == 0.0, 1.0, value)
    scores = _MODES[mode](query.values * float(boost), value)
    return _only(scores, query.matched)


_PARTS: dict[str, Callable[[Query, Leaf], Scores | None]] = {
    "bool": _bool,
    "dis_max": _dis_max,
    "multi_match": _multi_match,
    "constant_score": _constant_score,
    "function_score": _function_score,
}
