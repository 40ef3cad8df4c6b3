"""Legs: the searches of a hybrid search, how each finds documents and how it scores them exactly.

A legs file is a feature set of two to five queries. A `knn` or `neural` query finds the k nearest
of each shard, and has no score for any other document. So a leg has two forms: as it searches, and
as a feature that scores every document, which for `knn` is a script over the same vectors. Where
the engine allows no scripts, or none has the field's space, it is the same `knn` among the
documents of given ids: an engine compares all documents of a filter that has k or fewer.

The candidates of a learned fusion come from one query: `bool.should` of all legs, where the nearest
documents lead. The best `window` for each leg of every shard are rescored; those of all shards
together where the client does so, because only it knows the ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.client.responses import EngineRefusal, Hit
from owpc_ltr.engine.index_fields import field_mapping
from owpc_ltr.engine.options import DEFAULT_WINDOW, IN_FLIGHT
from owpc_ltr.engine.stores import LARGEST_WINDOW
from owpc_ltr.engine.stores.feature_queries import keys_in, render
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import DOC_IDS, MUSTACHE, Feature, FeatureSet, load_featureset
from owpc_ltr.features.mustache import TO_JSON
from owpc_ltr.signatures import Progress
from owpc_ltr.text import ShortRepr
from owpc_ltr.version import parse_version

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json


FEWEST_LEGS, MOST_LEGS = 2, 5
LEAD = 1e6
"""What puts the nearest documents before all others; far above any text score."""
MOST_NEAREST = 10_000
"""The largest k that OpenSearch takes, and the most candidates that Elasticsearch does."""
_NEAREST = frozenset(("knn", "neural"))
_SHARD = "shard"
"""Under which key a hit has the number of its shard."""
_IDS = "{{#toJson}}" + DOC_IDS + "{{/toJson}}"
_WHOLE_VECTORS = (8, 18)
"""From which version on Elasticsearch's knn has `rescore_vector`."""
_RADIAL = ("max_distance", "min_score", "similarity")
"""Keys of a knn query that limits the distance in place of the count."""

# A constant source is compiled once. The formulas are those of the engines' own scores.
_OPENSEARCH = {
    "cosinesimil": "(1 + cosineSimilarity(params.q, doc[params.field])) / 2",
    "l2": "1 / (1 + l2Squared(params.q, doc[params.field]))",
    "innerproduct": "float s = innerProduct(params.q, doc[params.field]); "
    "return s < 0 ? 1 / (1 - s) : 1 + s",
}
_ELASTICSEARCH = {
    "cosine": "(1 + cosineSimilarity(params.q, params.field)) / 2",
    "dot_product": "(1 + dotProduct(params.q, params.field)) / 2",
    "l2_norm": "double d = l2norm(params.q, params.field); return 1 / (1 + d * d)",
    "max_inner_product": "double s = dotProduct(params.q, params.field); "
    "return s < 0 ? 1 / (1 - s) : 1 + s",
}


@dataclass(frozen=True, repr=False)
class Leg(ShortRepr):
    """One search: the query by which it finds documents, and the feature that scores any.

    `vector` is the parameter with the query's vector and the length that its field has, if known.
    """

    name: str
    search: dict[str, Any]
    feature: Feature
    is_nearest: bool = False
    vector: tuple[str, int] | None = None


@dataclass(frozen=True, repr=False)
class Legs(ShortRepr):
    """The legs of a hybrid search, and how many documents each brings.

    `shards` is of how many shards one window has the best documents: an engine rescores a window
    of each, the client one of all.
    """

    name: str
    legs: tuple[Leg, ...]
    window: int
    shards: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The legs' names, which are those of the features."""
        return tuple(leg.name for leg in self.legs)

    @property
    def featureset(self) -> FeatureSet:
        """The legs as features, each with a score for every document."""
        return FeatureSet(self.name, tuple(leg.feature for leg in self.legs))

    @property
    def request_window(self) -> int:
        """How many documents the one request rescores: of each shard, or of all for the client."""
        return min(self.window * len(self.legs) * self.shards, LARGEST_WINDOW)

    @property
    def query(self) -> dict[str, Any]:
        """The query whose best documents of each shard are the candidates."""
        clauses = [leg.search for leg in self.legs if not leg.is_nearest]
        clauses += [
            {"constant_score": {"filter": leg.search, "boost": LEAD}}
            for leg in self.legs
            if leg.is_nearest
        ]
        return {"bool": {"should": clauses}}

    @property
    def query_template(self) -> dict[str, Any]:
        """The search that a model rescores: its query, and how many documents it rescores."""
        return {"query": self.query, "rescore": {"window_size": self.request_window}}

    def check_vectors(self, queries: Sequence[JudgedQuery]) -> None:
        """Raise BadInput for a query whose vector is not as long as the field's."""
        for leg in self.legs:
            if leg.vector is None:
                continue
            name, length = leg.vector
            for query in queries:
                vector = query.params.get(name, ())
                if len(vector) != length:
                    raise BadInput(
                        f"leg '{leg.name}': its field has vectors of {length} numbers, and query "
                        f"'{query.query_id}' gives {len(vector) or 'none'} as '{name}': make both "
                        "with one model"
                    )


def read_legs(
    source: FeatureSet | Mapping[str, Any] | Path | str,
    engine: Engine,
    index: str,
    window: int = DEFAULT_WINDOW,
    name: str | None = None,
) -> Legs:
    """The legs of a file, or of a feature set, for an index that has their fields.

    Raises BadInput for a leg that cannot score every document, naming it and what to write instead.
    """
    if isinstance(source, Mapping):
        source = json.dumps(source)
    queries = source if isinstance(source, FeatureSet) else load_featureset(source, name)
    if not FEWEST_LEGS <= len(queries.features) <= MOST_LEGS:
        raise BadInput(
            f"'{queries.name}' has {len(queries.features)} legs: give {FEWEST_LEGS} to {MOST_LEGS} "
            "queries, one a feature"
        )
    elastic = engine.about().distribution == "elasticsearch"
    legs = tuple(_leg(part, engine, index, window, elastic=elastic) for part in queries.features)
    read = Legs(name or queries.name, legs, window)
    by_client = read.featureset.why_by_client
    return replace(read, shards=shards_of(engine, index)) if by_client else read


def _leg(feature: Feature, engine: Engine, index: str, window: int, *, elastic: bool) -> Leg:
    where = f"leg '{feature.name}'"
    if feature.template_language != MUSTACHE:
        raise BadInput(f"{where} is a {feature.template_language}: a leg is a query")
    query = _as_object(feature.template, where)
    kind = next(iter(query), "")
    if kind == "knn":
        return _knn(feature, query["knn"], engine, index, window, elastic=elastic)
    if kind not in _NEAREST:
        if not _NEAREST.isdisjoint(keys_in(query)):
            raise BadInput(
                f"{where} has a nearest-neighbour query inside another one, which scores only the "
                'documents that it finds: make it a leg of its own, as {"knn": {…}}'
            )
        return Leg(feature.name, query, feature)
    # The engine makes the vector: no script knows it, so that the largest k has to do.
    field, clause = _only(query["neural"], where)
    search, scored = ({"neural": {field: {**clause, "k": k}}} for k in (window, MOST_NEAREST))
    return Leg(feature.name, search, _with_template(feature, scored), is_nearest=True)


def _knn(
    feature: Feature, inner: Json, engine: Engine, index: str, window: int, *, elastic: bool
) -> Leg:
    where = f"leg '{feature.name}'"
    if elastic:
        clause = inner if isinstance(inner, dict) else {}
        field = clause.get("field")
    else:
        field, clause = _only(inner, where)
    vector = clause.get("query_vector" if elastic else "vector")
    tag = TO_JSON.fullmatch(vector.strip()) if isinstance(vector, str) else None
    limit = next((key for key in _RADIAL if key in clause), None)
    if tag is None or limit is not None or not isinstance(field, str):
        fault = f"it has '{limit}'" if limit else "its vector is not a parameter"
        raise BadInput(
            f"{where}: {fault}; write knn with a field, k and the query's vector as "
            "{{#toJson}}vector{{/toJson}}"
        )
    mapping = _vector_mapping(engine, index, field, where, elastic=elastic)
    filters = [{"exists": {"field": field}}, *([clause["filter"]] if "filter" in clause else [])]
    script = _script(engine, index, mapping, elastic=elastic)
    if script is None:
        among = {"bool": {"filter": [{"ids": {"values": _IDS}}, *filters]}}
        scored = _nearest(field, {**clause, "filter": among}, MOST_NEAREST, elastic=elastic)
        if elastic and _is_quantized(engine, mapping):
            scored["knn"]["rescore_vector"] = {"oversample": 1.0}
        feature = replace(feature, params=(*feature.params, DOC_IDS))
    else:
        content: dict[str, Any] = {
            "query": {"bool": {"filter": filters}},
            "script": {"source": script, "params": {"q": vector, "field": field}},
            **({"boost": clause["boost"]} if "boost" in clause else {}),
        }
        scored = {"script_score": content}
    length = mapping.get("dims" if elastic else "dimension")
    return Leg(
        feature.name,
        _nearest(field, clause, window, elastic=elastic),
        _with_template(feature, scored),
        is_nearest=True,
        vector=(tag[1], length) if isinstance(length, int) else None,
    )


def _nearest(field: str, clause: dict[str, Any], k: int, *, elastic: bool) -> dict[str, Any]:
    """The query for the k nearest documents of each shard."""
    if not elastic:
        return {"knn": {field: {**clause, "k": k}}}
    # Elasticsearch has a k of its own from 8.15 on.
    its_k = {"k": k} if "k" in clause else {}
    candidates = max(k, int(clause.get("num_candidates", 0)))
    return {"knn": {**clause, **its_k, "num_candidates": candidates}}


def _vector_mapping(
    engine: Engine, index: str, field: str, where: str, *, elastic: bool
) -> dict[str, Any]:
    kind = "dense_vector" if elastic else "knn_vector"
    mapping = field_mapping(engine, index, field)
    if mapping.get("type") != kind:
        is_there = f"is a {mapping['type']}" if "type" in mapping else "is not there"
        plugin = "" if elastic else " (which needs the k-NN plugin)"
        raise BadInput(
            f"{where}: the field '{field}' of '{index}' {is_there}: name a {kind} field{plugin}"
        )
    return mapping


def _script(engine: Engine, index: str, mapping: Mapping[str, Any], *, elastic: bool) -> str | None:
    """The script that scores as the engine's own search of a field.

    None where the engine allows no scripts, or no script has the field's space.
    """
    if elastic:
        script = _ELASTICSEARCH.get(mapping.get("similarity", "cosine"))
    else:
        method = mapping.get("method", {})
        script = _OPENSEARCH.get(mapping.get("space_type") or method.get("space_type", "l2"))
    trial = {"script_score": {"query": {"match_all": {}}, "script": {"source": "1"}}}
    try:
        path = f"/{quote(index, safe='')}/_search"
        engine.request("POST", path, body={"query": trial, "size": 0})
    except EngineRefusal as refusal:
        if refusal.status != 400:
            raise
        return None
    return script


def _is_quantized(engine: Engine, mapping: Mapping[str, Any]) -> bool:
    """Whether Elasticsearch compares rounded vectors, unless it is told to compare whole ones."""
    kind = str(mapping.get("index_options", {}).get("type"))
    rounded = kind.startswith(("int8", "int4", "bbq"))
    return rounded and parse_version(engine.about().version) >= _WHOLE_VECTORS


def _only(content: Json, where: str) -> tuple[str, dict[str, Any]]:
    """The one field that a query names, and what it asks of it."""
    if isinstance(content, dict) and len(content) == 1:
        (field, clause), *_ = content.items()
        if isinstance(clause, dict):
            return str(field), clause
    raise BadInput(f'{where} names no one field: write {{"knn": {{"FIELD": {{…}}}}}}')


def _as_object(template: Json, where: str) -> dict[str, Any]:
    """The query with its tags in strings, as an application's query has them."""
    try:
        text = template if isinstance(template, str) else json.dumps(template)
        content = json.loads(TO_JSON.sub(lambda tag: json.dumps(tag[0]), text))
    except ValueError as error:
        raise BadInput(
            f"{where} is not JSON before its parameters are known: only "
            "{{#toJson}}name{{/toJson}} may stand outside of a string"
        ) from error
    if not isinstance(content, dict) or len(content) != 1:
        raise BadInput(f'{where} is no one query: write it as {{"match": {{…}}}}')
    return content


def _with_template(feature: Feature, query: dict[str, Any]) -> Feature:
    """The feature with another query, as the text in which lists can be inserted."""
    text = json.dumps(query, ensure_ascii=False)
    tags = {json.dumps(tag[0]): tag[0] for tag in TO_JSON.finditer(text)}
    for quoted, tag in tags.items():
        text = text.replace(quoted, tag)
    return replace(feature, template=text)


def shards_of(engine: Engine, index: str) -> int:
    """How many shards an index has; of those behind an alias, the most that one has."""
    path = f"/{quote(index, safe='')}/_settings"
    answer = engine.request("GET", path, params={"flat_settings": "true"})
    counts = (part["settings"]["index.number_of_shards"] for part in answer.values())
    return max(map(int, counts), default=1)


@dataclass(frozen=True)
class FoundDocuments:
    """What the searches of a query bring: by leg, and by the one request, best first in a shard.

    `shards` has the shard of each document.
    """

    by_leg: tuple[tuple[str, ...], ...]
    by_request: tuple[str, ...]
    shards: Mapping[str, int]

    @property
    def documents(self) -> list[str]:
        """All of them: those of the request first."""
        return list(dict.fromkeys([*self.by_request, *(id_ for leg in self.by_leg for id_ in leg)]))


def find_candidates(
    engine: Engine,
    index: str,
    legs: Legs,
    queries: Sequence[JudgedQuery],
    shards: int,
    in_flight: int,
    progress: Progress,
) -> list[FoundDocuments]:
    """The documents of every query, searched in each shard by itself.

    An engine takes the window, and k, of each shard. Raises Refused, naming the leg and the query;
    BadInput for a leg that finds nothing for any query, and for vectors of another length.
    """
    legs.check_vectors(queries)
    searches = [(f"leg '{leg.name}'", leg.search, legs.window) for leg in legs.legs]
    searches.append(("the query of all legs", legs.query, legs.request_window))

    def hits_of(what: str, template: dict[str, Any], size: int, query: JudgedQuery) -> list[Hit]:
        hits: list[Hit] = []
        try:
            body = {"query": render(template, query.params), "size": size, "_source": False}
            for shard in range(shards):
                params = {"preference": f"_shards:{shard}"} if shards > 1 else {}
                answer = search_index(engine, index, body, what, params=params, scored=True)
                hits += [{**hit, _SHARD: shard} for hit in answer.hits]
        except (EngineRefusal, BadInput) as refusal:
            kind = BadInput if isinstance(refusal, BadInput) else Refused
            raise kind(f"{what} cannot search for query '{query.query_id}': {refusal}") from refusal
        return hits

    def find(query: JudgedQuery) -> FoundDocuments:
        *of_legs, of_request = by_search = [hits_of(*search, query) for search in searches]
        at = {hit["_id"]: hit[_SHARD] for hits in by_search for hit in hits}
        if legs.shards > 1:
            # As the engine merges them: of equal scores those of the first shard come first.
            of_request = sorted(of_request, key=lambda hit: -hit["_score"])[: legs.request_window]
        by_leg = tuple(tuple(hit["_id"] for hit in hits) for hits in of_legs)
        return FoundDocuments(by_leg, tuple(hit["_id"] for hit in of_request), at)

    def show(count: int) -> None:
        progress(f"candidates of {count} of {len(queries)} queries", count / len(queries))

    with RequestThreads(min(in_flight, max(1, len(queries)))) as threads:
        candidates = threads.map(find, queries, show)
    for number, name in enumerate(legs.names):
        if not any(of_query.by_leg[number] for of_query in candidates):
            raise BadInput(
                f"leg '{name}' returns nothing for any of the {len(queries)} queries: check its "
                "fields and parameters"
            )
    return candidates


def candidates_as_judgments(judged: Judgments, candidates: Sequence[FoundDocuments]) -> Judgments:
    """The candidates of each query, those without a judgment having the grade 0.

    Queries without a candidate are left out.
    """

    def as_judged(query: JudgedQuery, documents: list[str]) -> JudgedQuery:
        def of_documents(values: NDArray[np.float32], default: float) -> NDArray[np.float32]:
            values_by_id = dict(zip(query.doc_ids, values, strict=True))
            return np.array([values_by_id.get(name, default) for name in documents], np.float32)

        grades = of_documents(query.grades, 0.0)
        weights = None if query.weights is None else of_documents(query.weights, 1.0)
        return replace(query, doc_ids=documents, grades=grades, weights=weights, judged_by=None)

    return Judgments(
        [
            as_judged(query, brought.documents)
            for query, brought in zip(judged.queries, candidates, strict=True)
            if brought.documents
        ]
    )


def brought_by_legs(
    engine: Engine,
    source: FeatureSet | Mapping[str, Any] | Path | str,
    judged: Judgments,
    index: str,
    window: int | None,
    progress: Progress,
) -> Judgments:
    """The candidates of each judged query, those without a judgment having the grade 0."""
    legs = read_legs(source, engine, index, DEFAULT_WINDOW if window is None else window)
    shards = shards_of(engine, index)
    candidates = find_candidates(
        engine, index, legs, judged.queries, shards=shards, in_flight=IN_FLIGHT, progress=progress
    )
    return candidates_as_judgments(judged, candidates)
