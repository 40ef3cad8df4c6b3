"""What an index says of a search request: what it refuses, and examples of what traps do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from owpc_ltr.engine.client.engine import Engine, Identity
from owpc_ltr.engine.client.responses import EngineRefusal, check_complete, part_of
from owpc_ltr.fusion.engine_fusions import Z_SCORE_SINCE
from owpc_ltr.fusion.request_checks import USUAL_WINDOW, Findings, RequestFinding
from owpc_ltr.fusion.search_body import FUSING_RETRIEVERS, Located, SearchBody
from owpc_ltr.inspection.result import WARNING
from owpc_ltr.names import check_index

SHOWN = 10
"""How many first hits an example compares."""

_NEURAL_SEARCH = "opensearch-neural-search"
_FUSES_BY_LICENCE = {"enterprise", "trial"}


@dataclass(frozen=True)
class LookedAt:
    """An index as far as requests depend on it."""

    engine: Engine
    index: str
    identity: Identity
    shards: int
    fields: Mapping[str, Mapping[str, Any]]
    default_pipeline: str | None

    @classmethod
    def at(cls, engine: Engine, index: str) -> LookedAt:
        """Ask the cluster. Raises NoSuchIndex."""
        what = f"the settings of '{index}'"
        answer = engine.request("GET", f"/{check_index(index)}/_settings")
        settings = [part_of(answer[name], "settings", what) for name in answer]
        own = [part_of(each, "index", what) for each in settings]
        mappings = engine.request("GET", f"/{index}/_mapping")
        fields: dict[str, Mapping[str, Any]] = {}
        for name in mappings:
            found = part_of(mappings[name], "mappings", f"the mapping of '{index}'")
            fields |= _fields(found.get("properties", {}))
        search = own[0].get("search", {}) if own else {}
        return cls(
            engine,
            index,
            engine.identity(),
            shards=sum(int(each.get("number_of_shards", 1)) for each in own),
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
        return tuple(int(each) for each in numbers if each.isdecimal())

    def stored_pipeline(self, name: str) -> dict[str, Any] | None:
        """The search pipeline of a name; None where there is none."""
        try:
            answer = self.engine.request("GET", f"/_search/pipeline/{name}")
        except EngineRefusal as refusal:
            if refusal.status == 404:
                return None
            raise
        found = answer.get(name)
        return found if isinstance(found, dict) else None

    def hits(self, body: Mapping[str, Any], **params: str) -> list[tuple[str, float]]:
        """The ids and scores of a search's hits. Raises EngineRefusal."""
        asked = {**body, "_source": False}
        answer = self.engine.request("POST", f"/{self.index}/_search", body=asked, params=params)
        # A hybrid query without its pipeline has documents twice, which is shown here.
        check_complete(answer, body, f"a search of '{self.index}'")
        return [(hit["_id"], hit["_score"] or 0.0) for hit in answer["hits"]["hits"]]


def index_findings(looked: LookedAt, search: SearchBody) -> list[RequestFinding]:
    """What this index, its plugins, version and licence make of the request."""
    checks = (_unknown_parts, _vectors, _shards, _by_version, _licence)
    return [finding for check in checks for finding in check(looked, search)]


def with_examples(
    looked: LookedAt, search: SearchBody, findings: Sequence[RequestFinding]
) -> list[RequestFinding]:
    """The findings with what each does to this request; nothing where it has places to fill in."""
    if "{{" in str(search.body):
        return list(findings)
    return [replace(each, example=_example(looked, search, each)) for each in findings]


def _example(looked: LookedAt, search: SearchBody, finding: RequestFinding) -> str:
    trial = _TRIALS.get(finding.check)
    try:
        return trial(looked, search) if trial else finding.example
    except EngineRefusal as refusal:
        return f"the engine refuses it: {refusal.reason}"


def _fields(properties: Any, prefix: str = "") -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        found[f"{prefix}{name}"] = field
        found |= _fields(field.get("properties", {}), f"{prefix}{name}.")
    return found


def _unknown_parts(looked: LookedAt, search: SearchBody) -> Findings:
    """What the engine has no word for: a query of the other engine, a plugin, a pipeline."""
    is_opensearch = looked.identity.distribution == "opensearch"
    if search.hybrids and not (is_opensearch and _NEURAL_SEARCH in looked.identity.plugins):
        yield RequestFinding(
            "missing-plugin", WARNING, search.hybrids[0].place,
            f"{looked.identity.distribution} {looked.identity.version} there has no query "
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
    if name and name != "_none" and looked.stored_pipeline(name) is None:
        yield RequestFinding(
            "missing-pipeline", WARNING, "$.search_pipeline",
            f"there is no search pipeline '{name}' (400)",
            advice="store it, or name one that there is", source="OpenSearch, search pipelines",
        )  # fmt: skip


def _vectors(looked: LookedAt, search: SearchBody) -> Findings:
    for query in search.vector_queries:
        field = looked.fields.get(query.field, {})
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


def _shards(looked: LookedAt, search: SearchBody) -> Findings:
    if looked.shards < 2 or not search.hybrids:
        return
    ranks = any(each.place.endswith("score-ranker-processor") for each in search.processors)
    by_shard = ranks and looked.version < (3, 5)
    what = "windows, k and ranks of RRF" if by_shard else "windows and k"
    yield RequestFinding(
        "ranks-by-shard" if by_shard else "windows-by-shard", WARNING, search.hybrids[0].place,
        f"{what} are those of each of {looked.shards} shards: another number of shards is "
        "another order",
        advice="compare on one shard, or set pagination_depth and k well above the page",
        source="neural-search #325; OpenSearch 2.19.1: the first 10 of one and three shards "
        "agreed in 14 % of queries",
    )  # fmt: skip


def _by_version(looked: LookedAt, search: SearchBody) -> Findings:
    """What a version reads elsewhere, or not at all."""
    for processor in search.processors:
        for keys, since, what in _SINCE:
            part = processor.at(*keys)
            if part and looked.version < since and _applies(processor, keys, part.value):
                said = ".".join(map(str, since))
                yield RequestFinding(
                    "needs-later-version", WARNING, part.place,
                    f"OpenSearch {looked.identity.version} {what}",
                    advice=f"leave it out, or use {said} or later",
                    source=f"neural-search {said}",
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
    return keys[0] == "normalization" or processor.place.endswith(_RANKER)


def _licence(looked: LookedAt, search: SearchBody) -> Findings:
    fusing = [
        each for each in search.retrievers if each.place.rpartition(".")[2] in FUSING_RETRIEVERS
    ]
    if not fusing or looked.identity.distribution != "elasticsearch":
        return
    answer = looked.engine.request("GET", "/_license")
    kind = str(answer.get("license", {}).get("type"))
    if kind in _FUSES_BY_LICENCE:
        return
    yield RequestFinding(
        "licence-refused", WARNING, fusing[0].place,
        f"the cluster's licence is '{kind}', and fusing retrievers need 'enterprise' (403)",
        advice="search with bool.should of the queries and one rescorer",
        source="Elasticsearch, GET _license",
    )  # fmt: skip


def _with_hybrid(search: SearchBody, **changed: Any) -> dict[str, Any]:
    """The request with other parameters of its `hybrid`, and its pipeline in it."""
    body = _as_it_is(search)
    return {**body, "query": {"hybrid": {**body["query"]["hybrid"], **changed}}}


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
    place, (one, other) = next(
        (each for each in pairs if each[1][0] != each[1][1]), (1, ("none", "none"))
    )
    stay = len(set(now) & set(then))
    return f"{stay} of the first {len(now)} stay; place {place}: '{one}' becomes '{other}'"


def _deeper(looked: LookedAt, search: SearchBody) -> str:
    if "hybrid" not in search.body["query"]:
        return ""
    now = _ids(looked.hits(_as_it_is(search)))
    deeper = _with_hybrid(search, pagination_depth=max(USUAL_WINDOW, search.first + search.size))
    return f"with a window of {USUAL_WINDOW}: {_difference(now, _ids(looked.hits(deeper)))}"


def _rescored_after(looked: LookedAt, search: SearchBody) -> str:
    """The fused list, rescored in its fused scores as the request means it."""
    now = _ids(looked.hits(_as_it_is(search)))
    plain = {key: value for key, value in _as_it_is(search).items() if key != "rescore"}
    fused = dict(looked.hits({**plain, "size": max(search.window, SHOWN)}))
    for rescorer in search.rescorers:
        query = rescorer.value.get("query", {})
        if "rescore_query" not in query:
            return ""
        first = sorted(fused, key=lambda each: -fused[each])
        window = first[: rescorer.value.get("window_size", SHOWN)]
        again = {"bool": {"filter": {"ids": {"values": window}}, "must": [query["rescore_query"]]}}
        scores = dict(looked.hits({"query": again, "size": len(window)}))
        for document in window:
            own = fused[document] * query.get("query_weight", 1)
            fused[document] = own + scores.get(document, 0) * query.get("rescore_query_weight", 1)
    then = sorted(fused, key=lambda each: -fused[each])
    return f"rescored after fusion: {_difference(now, then[: len(now)])}"


def _passed(looked: LookedAt, search: SearchBody) -> str:
    """A document that some query misses, above one that all find."""
    window = {"size": search.window}
    by_leg = [dict(looked.hits({"query": leg.value, **window})) for leg in search.legs]
    fused = looked.hits({**_as_it_is(search), "size": search.window})
    places = {document: place for place, (document, _) in enumerate(fused, 1)}
    misses = {
        document: [n for n, leg in enumerate(by_leg, 1) if document not in leg]
        for document in places
    }
    for document, place in places.items():
        below = [each for each in places if places[each] > place and not misses[each]]
        if misses[document] and len(misses[document]) < len(by_leg) and below:
            missing = " and ".join(map(str, misses[document]))
            return (
                f"'{document}', which query {missing} misses, has place {place}, above "
                f"'{below[0]}' ({places[below[0]]}), which all queries find"
            )
    return "on this request no document that a query misses passes one that all find"


def _beyond_k(looked: LookedAt, search: SearchBody) -> str:
    rescorer = search.rescorers[0]
    size = int(rescorer.value.get("window_size", SHOWN))
    plain = {key: value for key, value in search.body.items() if key != "rescore"}
    window = set(_ids(looked.hits({**plain, "from": 0, "size": size})))
    kind, query = next(
        (found.place.rpartition(".")[2], found.value)
        for found in rescorer.all_of("knn", "neural", "neural_sparse")
    )
    near = set(_ids(looked.hits({"query": {kind: query}, "size": size})))
    return f"{len(window - near)} of the {len(window)} documents in the window get 0"


def _more_neighbours(looked: LookedAt, search: SearchBody) -> str:
    for query in search.vector_queries:
        leg = next((each for each in search.legs if query.place.startswith(f"{each.place}.")), None)
        if leg is not None and query.k is not None and query.k < search.window:
            found = len(looked.hits({"query": leg.value, "size": search.window}))
            return f"it finds {found} documents"
    return ""


def _markers(looked: LookedAt, search: SearchBody) -> str:
    hits = looked.hits(search.body)
    lowest = min((score for _, score in hits), default=0.0)
    return f"{len(hits)} hits of {len(set(_ids(hits)))} documents, scores down to {lowest:.5g}"


def _first_of_shards(looked: LookedAt, search: SearchBody) -> str:
    first = []
    for shard in range(2):
        hits = looked.hits(
            {"query": search.legs[0].value, "size": 1}, preference=f"_shards:{shard}"
        )
        first += [f"'{document}' ({score:.4g})" for document, score in hits]
    return f"{' and '.join(first)} both have rank 1 of query 1" if len(first) == 2 else ""


def _answer(looked: LookedAt, search: SearchBody) -> str:
    """What comes: a refusal is told by the caller."""
    return f"it answers with {len(looked.hits(_as_it_is(search)))} hits"


_TRIALS: Mapping[str, Callable[[LookedAt, SearchBody], str]] = {
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
