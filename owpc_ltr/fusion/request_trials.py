"""What an index says of a search request: what it refuses, and examples of what traps do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine, Identity, answer_if_found
from owpc_ltr.engine.client.responses import AnswerPart, EngineRefusal, check_complete, part_of
from owpc_ltr.fusion.engine_fusions import Z_SCORE_SINCE
from owpc_ltr.fusion.request_checks import (
    FUSING_RETRIEVERS,
    USUAL_WINDOW,
    VECTOR_QUERIES,
    Findings,
    Located,
    RequestFinding,
    SearchBody,
)
from owpc_ltr.inspection.result import WARNING
from owpc_ltr.text import check_index

SHOWN = 10
"""How many first hits an example compares."""

_NEURAL_SEARCH = "opensearch-neural-search"
_FUSES_BY_LICENCE = {"enterprise", "trial"}


@dataclass(frozen=True)
class IndexFacts:
    """An index as far as requests depend on it."""

    engine: Engine
    index: str
    identity: Identity
    shards: int
    fields: Mapping[str, Mapping[str, Any]]
    default_pipeline: str | None

    @classmethod
    def of(cls, engine: Engine, index: str) -> IndexFacts:
        """Ask the cluster. Raises NoSuchIndex."""
        what = f"the settings of '{index}'"
        answer = engine.request("GET", f"/{check_index(index)}/_settings")
        settings = [AnswerPart(part, what)["settings"]["index"].object for part in answer.values()]
        mappings = engine.request("GET", f"/{index}/_mapping")
        fields: dict[str, Mapping[str, Any]] = {}
        for part in mappings.values():
            mapping = part_of(part, "mappings", f"the mapping of '{index}'")
            fields |= _fields(mapping.get("properties", {}))
        search = settings[0].get("search", {}) if settings else {}
        return cls(
            engine,
            index,
            engine.identity(),
            shards=sum(int(part.get("number_of_shards", 1)) for part in settings),
            fields=fields,
            default_pipeline=search.get("default_pipeline"),
        )

    def __str__(self) -> str:
        several = "1 shard" if self.shards == 1 else f"{self.shards} shards"
        return f"'{self.index}' ({several}, {self.identity.distribution} {self.identity.version})"

    @property
    def version(self) -> tuple[int, ...]:
        """The engine's version, for comparisons."""
        numbers = self.identity.version.partition("-")[0].split(".")
        return tuple(int(number) for number in numbers if number.isdecimal())

    def stored_pipeline(self, name: str) -> dict[str, Any] | None:
        """The search pipeline of a name; None where there is none."""
        path, what = f"/_search/pipeline/{name}", f"the search pipeline '{name}'"
        answer = answer_if_found(self.engine, "GET", path, what)
        pipeline = None if answer is None else answer.object.get(name)
        return pipeline if isinstance(pipeline, dict) else None

    def hits(self, body: Mapping[str, Any], **params: str) -> list[tuple[str, float]]:
        """The ids and scores of a search's hits. Raises EngineRefusal."""
        path, sent = f"/{self.index}/_search", {**body, "_source": False}
        answer = self.engine.request("POST", path, body=sent, params=params)
        # A hybrid query without its pipeline has documents twice, which is shown here.
        check_complete(answer, body, f"a search of '{self.index}'")
        return [(hit["_id"], hit["_score"] or 0.0) for hit in answer["hits"]["hits"]]


def index_findings(facts: IndexFacts, search: SearchBody) -> list[RequestFinding]:
    """What this index, its plugins, version and licence make of the request."""
    checks = (_unknown_parts, _vectors, _shards, _by_version, _licence)
    return [finding for check in checks for finding in check(facts, search)]


def with_examples(
    facts: IndexFacts, search: SearchBody, findings: Sequence[RequestFinding]
) -> list[RequestFinding]:
    """The findings with what each does to this request; nothing where it has places to fill in."""
    if "{{" in str(search.body):
        return list(findings)
    with_example = []
    for finding in findings:
        trial = _TRIALS.get(finding.check)
        try:
            example = trial(facts, search) if trial else finding.example
        except EngineRefusal as refusal:
            example = f"the engine refuses it: {refusal.reason}"
        with_example.append(replace(finding, example=example))
    return with_example


def _fields(properties: Any, prefix: str = "") -> dict[str, Mapping[str, Any]]:
    fields: dict[str, Mapping[str, Any]] = {}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        fields[f"{prefix}{name}"] = field
        fields |= _fields(field.get("properties", {}), f"{prefix}{name}.")
    return fields


def _unknown_parts(facts: IndexFacts, search: SearchBody) -> Findings:
    """What the engine has no word for: a query of the other engine, a plugin, a pipeline."""
    is_opensearch = facts.identity.distribution == "opensearch"
    if search.hybrids and not (is_opensearch and _NEURAL_SEARCH in facts.identity.plugins):
        yield RequestFinding(
            "missing-plugin", WARNING, search.hybrids[0].place,
            f"{facts.identity.distribution} {facts.identity.version} there has no query "
            "'hybrid' (400)",
            advice="install OpenSearch's neural-search plugin, or search with bool.should of "
            "the queries and one rescorer",
            source="neural-search",
        )  # fmt: skip
    retriever = search.root.get("retriever")
    if retriever and is_opensearch:
        yield RequestFinding(
            "missing-retriever", WARNING, retriever.place,
            "OpenSearch has no retrievers (400)", advice="write the queries as 'hybrid'",
            source="OpenSearch, search request body",
        )  # fmt: skip
    name = search.pipeline_name
    if name and name != "_none" and facts.stored_pipeline(name) is None:
        yield RequestFinding(
            "missing-pipeline", WARNING, "$.search_pipeline",
            f"there is no search pipeline '{name}' (400)",
            advice="store it, or name one that there is", source="OpenSearch, search pipelines",
        )  # fmt: skip


def _vectors(facts: IndexFacts, search: SearchBody) -> Findings:
    for query in search.vector_queries:
        field = facts.fields.get(query.field, {})
        length = field.get("dimension", field.get("dims"))
        if field.get("type") not in {"knn_vector", "dense_vector"}:
            what = f"is a {field['type']}" if "type" in field else "is not there"
            yield RequestFinding(
                "no-vector-field", WARNING, query.place,
                f"the field '{query.field}' {what}, and not a vector (400)",
                advice="name a field of vectors", source="the index's mapping",
            )  # fmt: skip
        elif query.length is not None and length is not None and query.length != length:
            yield RequestFinding(
                "vector-length", WARNING, query.place,
                f"the query's vector has {query.length} numbers, and those of "
                f"'{query.field}' {length} (400)",
                advice="make both by the same model", source="the index's mapping",
            )  # fmt: skip


def _shards(facts: IndexFacts, search: SearchBody) -> Findings:
    if facts.shards < 2 or not search.hybrids:
        return
    ranks = any(processor.kind == _RANKER for processor in search.processors)
    by_shard = ranks and facts.version < (3, 5)
    what = "windows, k and ranks of RRF" if by_shard else "windows and k"
    yield RequestFinding(
        "ranks-by-shard" if by_shard else "windows-by-shard", WARNING, search.hybrids[0].place,
        f"{what} are those of each of {facts.shards} shards: another number of shards is "
        "another order",
        advice="compare on one shard, or set pagination_depth and k well above the page",
        source="neural-search #325; OpenSearch 2.19.1: the first 10 of one and three shards "
        "agreed in 14 % of queries",
    )  # fmt: skip


def _by_version(facts: IndexFacts, search: SearchBody) -> Findings:
    """What a version reads elsewhere, or not at all."""
    for processor in search.processors:
        for keys, since, what in _SINCE:
            part = processor.at(*keys)
            if part and facts.version < since and _applies(processor, keys, part.value):
                release = ".".join(map(str, since))
                yield RequestFinding(
                    "needs-later-version", WARNING, part.place,
                    f"OpenSearch {facts.identity.version} {what}",
                    advice=f"leave it out, or use {release} or later",
                    source=f"neural-search {release}",
                )  # fmt: skip


_RANKER = "score-ranker-processor"
_SINCE: tuple[tuple[tuple[str, ...], tuple[int, int], str], ...] = (
    (("combination", "rank_constant"), (3, 1), "ignores a rank constant here, and takes 60: up to "
     "3.0 it belongs under 'parameters'"),
    (("combination", "parameters", "weights"), (3, 1), "refuses weights of RRF (400)"),
    (("normalization", "technique"), Z_SCORE_SINCE, "has no z_score (400)"),
    (("normalization", "parameters", "lower_bounds"), (3, 0), "ignores lower bounds"),
    (("normalization", "parameters", "upper_bounds"), (3, 2), "does not take upper bounds"),
)  # fmt: skip


def _applies(processor: Located, keys: tuple[str, ...], value: Any) -> bool:
    if keys[-1] == "technique":
        return bool(value == "z_score")
    return keys[0] == "normalization" or processor.kind == _RANKER


def _licence(facts: IndexFacts, search: SearchBody) -> Findings:
    fusing = [part for part in search.retrievers if part.kind in FUSING_RETRIEVERS]
    if not fusing or facts.identity.distribution != "elasticsearch":
        return
    answer = facts.engine.request("GET", "/_license")
    kind = str(answer.get("license", {}).get("type"))
    if kind in _FUSES_BY_LICENCE:
        return
    yield RequestFinding(
        "licence-refused", WARNING, fusing[0].place,
        f"the cluster's licence is '{kind}', and fusing retrievers need 'enterprise' (403)",
        advice="search with bool.should of the queries and one rescorer",
        source="Elasticsearch, GET _license",
    )  # fmt: skip


def _as_it_is(search: SearchBody) -> dict[str, Any]:
    body = search.body
    if search.pipeline is not None:
        body["search_pipeline"] = search.pipeline.value
    return body


def _ids(hits: Sequence[tuple[str, float]]) -> list[str]:
    return [document for document, _ in hits]


def _difference(now: Sequence[str], then: Sequence[str]) -> str:
    """How many of the first hits stay, and the first place that another document takes."""
    now, then = now[:SHOWN], then[:SHOWN]
    if list(now) == list(then):
        return f"on this request the first {len(now)} stay as they are"
    pairs = enumerate(zip(now, then, strict=False), 1)
    place, (before, after) = next(
        (pair for pair in pairs if pair[1][0] != pair[1][1]), (1, ("none", "none"))
    )
    stay = len(set(now) & set(then))
    return f"{stay} of the first {len(now)} stay; place {place}: '{before}' becomes '{after}'"


def _deeper(facts: IndexFacts, search: SearchBody) -> str:
    if "hybrid" not in search.body["query"]:
        return ""
    body, depth = _as_it_is(search), max(USUAL_WINDOW, search.first + search.size)
    deeper = {"hybrid": {**body["query"]["hybrid"], "pagination_depth": depth}}
    now, then = _ids(facts.hits(body)), _ids(facts.hits({**body, "query": deeper}))
    return f"with a window of {USUAL_WINDOW}: {_difference(now, then)}"


def _rescored_after(facts: IndexFacts, search: SearchBody) -> str:
    """The fused list, rescored in its fused scores as the request means it."""
    now = _ids(facts.hits(_as_it_is(search)))
    plain = {key: value for key, value in _as_it_is(search).items() if key != "rescore"}
    fused = dict(facts.hits({**plain, "size": max(search.window, SHOWN)}))
    for rescorer in search.rescorers:
        query = rescorer.value.get("query", {})
        if "rescore_query" not in query:
            return ""
        first = sorted(fused, key=lambda document: -fused[document])
        window = first[: rescorer.value.get("window_size", SHOWN)]
        again = {"bool": {"filter": {"ids": {"values": window}}, "must": [query["rescore_query"]]}}
        scores = dict(facts.hits({"query": again, "size": len(window)}))
        for document in window:
            added = scores.get(document, 0) * query.get("rescore_query_weight", 1)
            fused[document] = fused[document] * query.get("query_weight", 1) + added
    then = sorted(fused, key=lambda document: -fused[document])
    return f"rescored after fusion: {_difference(now, then[: len(now)])}"


def _passed(facts: IndexFacts, search: SearchBody) -> str:
    """A document that some query misses, above one that all find."""
    window = {"size": search.window}
    by_leg = [dict(facts.hits({"query": leg.value, **window})) for leg in search.legs]
    fused = facts.hits({**_as_it_is(search), "size": search.window})
    places = {document: place for place, (document, _) in enumerate(fused, 1)}
    misses = {
        document: [n for n, leg in enumerate(by_leg, 1) if document not in leg]
        for document in places
    }
    for document, place in places.items():
        below = [lower for lower in places if places[lower] > place and not misses[lower]]
        if misses[document] and len(misses[document]) < len(by_leg) and below:
            missing = " and ".join(map(str, misses[document]))
            return (
                f"'{document}', which query {missing} misses, has place {place}, above "
                f"'{below[0]}' ({places[below[0]]}), which all queries find"
            )
    return "on this request no document that a query misses passes one that all find"


def _beyond_k(facts: IndexFacts, search: SearchBody) -> str:
    rescorer = search.rescorers[0]
    size = int(rescorer.value.get("window_size", SHOWN))
    plain = {key: value for key, value in search.body.items() if key != "rescore"}
    window = set(_ids(facts.hits({**plain, "from": 0, "size": size})))
    query = next(rescorer.all_of(*VECTOR_QUERIES))
    near = set(_ids(facts.hits({"query": {query.kind: query.value}, "size": size})))
    return f"{len(window - near)} of the {len(window)} documents in the window get 0"


def _more_neighbours(facts: IndexFacts, search: SearchBody) -> str:
    for query in search.vector_queries:
        leg = next((part for part in search.legs if query.place.startswith(f"{part.place}.")), None)
        if leg is not None and query.k is not None and query.k < search.window:
            n_found = len(facts.hits({"query": leg.value, "size": search.window}))
            return f"it finds {n_found} documents"
    return ""


def _markers(facts: IndexFacts, search: SearchBody) -> str:
    hits = facts.hits(search.body)
    lowest = min((score for _, score in hits), default=0.0)
    return f"{len(hits)} hits of {len(set(_ids(hits)))} documents, scores down to {lowest:.5g}"


def _first_of_shards(facts: IndexFacts, search: SearchBody) -> str:
    first = []
    for shard in range(2):
        hits = facts.hits({"query": search.legs[0].value, "size": 1}, preference=f"_shards:{shard}")
        first += [f"'{document}' ({score:.4g})" for document, score in hits]
    return f"{' and '.join(first)} both have rank 1 of query 1" if len(first) == 2 else ""


def _answer(facts: IndexFacts, search: SearchBody) -> str:
    """What comes: a refusal is told by the caller."""
    return f"it answers with {len(facts.hits(_as_it_is(search)))} hits"


_TRIALS: Mapping[str, Callable[[IndexFacts, SearchBody], str]] = {
    "no-pagination-depth": _deeper,
    "depth-below-page": _deeper,
    "rescore-in-hybrid": _rescored_after,
    "skipping-mean": _passed,
    "knn-rescorer": _beyond_k,
    "k-below-window": _more_neighbours,
    "no-pipeline": _markers,
    "ranks-by-shard": _first_of_shards,
    **dict.fromkeys(
        (
            "from-without-depth", "too-many-queries", "weights-sum", "weights-count",
            "missing-plugin", "missing-retriever", "missing-pipeline", "no-vector-field",
            "vector-length", "needs-later-version", "licence-refused",
        ),
        _answer,
    ),
}  # fmt: skip
