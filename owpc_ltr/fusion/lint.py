"""`lint`: what in a search request, or in its search pipeline, spoils hybrid search.

A request's parts have their JSON paths. There is one function a trap, on the request alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Table, html_of, wrapped_text
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.fusion.engine_fusions import MAX_LEGS, WEIGHT_SLACK
from owpc_ltr.inspection.result import NOTE, WARNING, Severity
from owpc_ltr.signatures import Help, Reads, job
from owpc_ltr.text import ShortRepr, printable_lines

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

DEFAULT_SIZE = 10
"""How many hits an engine returns where the request does not say."""

PIPELINE_KEY = "phase_results_processors"
"""What a search pipeline that fuses has, and no request."""
PROCESSORS = ("normalization-processor", "score-ranker-processor")
FUSING_RETRIEVERS = ("rrf", "linear")
RERANKING_RETRIEVERS = ("text_similarity_reranker", "rescorer", "rule", "diversify", "pinned")
VECTOR_QUERIES = ("knn", "neural", "neural_sparse")

_NEURAL_K = 10
"""The k of OpenSearch's `neural` where the request does not say."""
USUAL_WINDOW = 100


@job
def lint(
    request: Annotated[
        Mapping[str, Any] | Path | str,
        Reads(
            "A search request (the body of _search), or a search pipeline, as JSON.",
            cli=Path,
            metavar="REQUEST.json",
        ),
    ],
    *,
    pipeline: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads(
            "The search pipeline that the request runs with, as GET /_search/pipeline/NAME "
            "answers it (JSON); default: the one in the request.",
            cli=Path,
        ),
    ] = None,
    strict: Annotated[bool, Help("Exit code 5 if there is a warning.")] = False,
) -> RequestLint:
    """Find what spoils hybrid search in a request or its search pipeline.

    Each finding says what happens, where (JSON path), what to do, and where that can be read:
    rescoring inside `hybrid`, windows of the size of the page, means that reward a missed
    document, weights, vector queries that find too little, licences. The request is not run, and no
    cluster is asked.

    Python: `request` and `pipeline` are also dictionaries.
    Raises BadInput for a file that is not a JSON object, and Refused, with the `result`, for a
    warning where that is `strict`.

    >>> import owpc_ltr as ltr
    >>> legs = [{"match": {"title": "red"}}, {"knn": {"v": {"vector": [1, 0], "k": 100}}}]
    >>> found = ltr.lint({"query": {"hybrid": {"queries": legs, "pagination_depth": 100}}})
    >>> [finding.check for finding in found.findings]
    ['no-pipeline']
    """
    from owpc_ltr.features.feature_set import load_featureset

    body = _read(request)
    if "featureset" in body:
        # Its own faults first, such as templates that are refused.
        name = load_featureset(json.dumps(body)).name
        raise BadInput(
            f"'{name}' is a feature set, not a search request: featureset push checks it"
        )
    search = SearchBody(body, None if pipeline is None else _read(pipeline))
    findings = [finding for check in CHECKS for finding in check(search)]
    result = RequestLint(tuple(sorted(findings, key=lambda each: each.severity != WARNING)))
    if strict and result.warnings:
        raise Refused(result.warnings[0].line).with_result(result)
    return result


def _read(source: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    """The object of a file, without the name that a cluster's answer has around a pipeline."""
    from owpc_ltr.files.strict_json import read_json_object

    content = dict(source) if isinstance(source, Mapping) else read_json_object(Path(source))
    inner = next(iter(content.values())) if len(content) == 1 else None
    if isinstance(inner, Mapping) and PIPELINE_KEY in inner:
        return dict(inner)
    return content


@dataclass(frozen=True, repr=False)
class RequestFinding(ShortRepr):
    """One trap in a search request.

    `place` is the JSON path, `message` what happens there, `advice` what to do, `source` where it
    can be read.
    """

    check: str
    severity: Severity
    place: str
    message: str
    advice: str
    source: str

    @property
    def line(self) -> str:
        """All of it, as one line."""
        return f"{self.message} ({self.place}): {self.advice} [{self.source}]"

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {**asdict(self), "line": self.line}


@dataclass(frozen=True, repr=False)
class RequestLint(ShortRepr):
    """The findings, warnings first."""

    findings: tuple[RequestFinding, ...]

    @property
    def warnings(self) -> tuple[RequestFinding, ...]:
        """The findings that are more than notes."""
        return tuple(finding for finding in self.findings if finding.severity == WARNING)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {"findings": [finding.as_dict() for finding in self.findings]}

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(wrapped_text(f"{finding.severity}: {finding.message}"))
            # A path is not broken: it is to be copied.
            lines.append(f"  at {finding.place}")
            lines.append(wrapped_text(f"  {finding.advice} [{finding.source}]"))
        return printable_lines("\n".join(lines or ["nothing was found"]))

    def _repr_html_(self) -> str:
        rows = [
            (part.severity, part.message, part.place, part.advice, part.source)
            for part in self.findings
        ]
        headers = ("", "what", "where", "what to do", "source")
        return html_of(["request", Table(headers, rows) if rows else "nothing was found"])


@dataclass(frozen=True)
class RequestValue:
    """A value of the request, and its JSON path."""

    place: str
    value: Any

    @property
    def kind(self) -> str:
        """The key that it stands under."""
        return self.place.rpartition(".")[2]

    def get(self, key: str) -> RequestValue | None:
        """What an object has under a key; None where it has not, or is no object."""
        if not isinstance(self.value, Mapping) or key not in self.value:
            return None
        return RequestValue(f"{self.place}.{key}", self.value[key])

    def at(self, *keys: str) -> RequestValue | None:
        """The same, several keys deep."""
        part: RequestValue | None = self
        for key in keys:
            part = part and part.get(key)
        return part

    @property
    def items(self) -> list[RequestValue]:
        """The elements of a list; an object is a list of itself, as engines have it."""
        if isinstance(self.value, Mapping):
            return [self]
        if not isinstance(self.value, list):
            return []
        return [
            RequestValue(f"{self.place}[{number}]", part) for number, part in enumerate(self.value)
        ]

    def all_of(self, *keys: str) -> Iterator[RequestValue]:
        """What stands under these keys, at any depth."""
        if isinstance(self.value, Mapping):
            for key in self.value:
                inner = RequestValue(f"{self.place}.{key}", self.value[key])
                if key in keys:
                    yield inner
                yield from inner.all_of(*keys)
        elif isinstance(self.value, list):
            for inner in self.items:
                yield from inner.all_of(*keys)


class SearchBody:
    """A search request (the body of `_search`), and the search pipeline that it runs with.

    `pipeline` is that of a file; without it, that of the request's `search_pipeline` where it
    stands there whole.
    """

    def __init__(self, body: Mapping[str, Any], pipeline: Mapping[str, Any] | None = None) -> None:
        if pipeline is None and PIPELINE_KEY in body:
            body, pipeline = {}, body
        self.root = RequestValue("$", body)
        self._pipeline = pipeline

    @cached_property
    def pipeline(self) -> RequestValue | None:
        """The search pipeline, where it is known."""
        if self._pipeline is not None:
            return RequestValue("pipeline $", self._pipeline)
        inline = self.root.get("search_pipeline")
        return inline if inline and isinstance(inline.value, Mapping) else None

    @property
    def pipeline_name(self) -> str | None:
        """The name of a stored pipeline that the request asks for; `_none` asks for none."""
        name = self.root.value.get("search_pipeline")
        return name if isinstance(name, str) and self._pipeline is None else None

    @cached_property
    def processors(self) -> list[RequestValue]:
        """The processors of the pipeline that fuse."""
        phase = self.pipeline and self.pipeline.get(PIPELINE_KEY)
        parts = [part.get(kind) for part in (phase.items if phase else []) for kind in PROCESSORS]
        return [processor for processor in parts if processor]

    @cached_property
    def hybrids(self) -> list[RequestValue]:
        """OpenSearch's `hybrid` queries."""
        query = self.root.get("query")
        hybrids = query.all_of("hybrid") if query else ()
        # A field may have that name too.
        return [hybrid for hybrid in hybrids if hybrid.get("queries")]

    @property
    def legs(self) -> list[RequestValue]:
        """The queries that `hybrid` fuses."""
        queries = self.hybrids[0].get("queries") if self.hybrids else None
        return queries.items if queries else []

    @cached_property
    def rescorers(self) -> list[RequestValue]:
        """The elements of `rescore`."""
        rescore = self.root.get("rescore")
        return rescore.items if rescore else []

    @cached_property
    def retrievers(self) -> list[RequestValue]:
        """Elasticsearch's retrievers that fuse or rerank, and the older `rank`."""
        names = FUSING_RETRIEVERS + RERANKING_RETRIEVERS
        parts = [self.root.get("retriever"), self.root.get("rank")]
        retrievers = (retriever for part in parts if part for retriever in part.all_of(*names))
        return [retriever for retriever in retrievers if isinstance(retriever.value, Mapping)]

    @property
    def first(self) -> int:
        """How many hits are skipped: `from`."""
        return whole_number(self.root.value.get("from")) or 0

    @property
    def size(self) -> int:
        """How many hits are shown."""
        size = whole_number(self.root.value.get("size"))
        return DEFAULT_SIZE if size is None else size

    @property
    def depth(self) -> int | None:
        """The `pagination_depth` of `hybrid`."""
        depth = self.hybrids[0].get("pagination_depth") if self.hybrids else None
        return whole_number(depth.value) if depth else None

    @property
    def window(self) -> int:
        """How many documents of each query, and shard, `hybrid` fuses."""
        return self.depth or self.first + self.size


def whole_number(value: Json) -> int | None:
    """A whole number of a request, or None for anything else: a place to fill in, say."""
    return value if type(value) is int else None


Findings = Iterator[RequestFinding]
Check = Callable[[SearchBody], Findings]


def _rescore_in_hybrid(search: SearchBody) -> Findings:
    if search.hybrids and search.rescorers:
        yield RequestFinding(
            "rescore-in-hybrid",
            WARNING,
            "$.rescore",
            "'rescore' changes the scores of each query of 'hybrid' before they are normalized, "
            "and not the fused list",
            advice="search with bool.should of the queries and one rescorer, or rescore the fused "
            "hits in the application",
            source="neural-search #914, PR #917",
        )


def _pagination_depth(search: SearchBody) -> Findings:
    source = "neural-search #325, PR #963"
    if not search.hybrids:
        return
    place, depth = search.hybrids[0].place, search.depth
    advice = f"set pagination_depth to the window, as {USUAL_WINDOW}"
    if depth is None and search.first:
        yield RequestFinding(
            "from-without-depth",
            WARNING,
            "$.from",
            "'hybrid' refuses 'from' without 'pagination_depth' (400)",
            advice=advice,
            source=source,
        )
    elif depth is None and "pagination_depth" not in search.hybrids[0].value:
        yield RequestFinding(
            "no-pagination-depth",
            WARNING,
            place,
            f"without 'pagination_depth' only the first {search.window} documents of each query "
            "and shard are fused, and another size changes the order",
            advice=advice,
            source=source,
        )
    elif depth is not None and depth < search.first + search.size:
        yield RequestFinding(
            "depth-below-page",
            WARNING,
            f"{place}.pagination_depth",
            f"the page ends at {search.first + search.size}, and only {depth} documents of each "
            "query and shard are fused",
            advice=advice,
            source=source,
        )


def _pipeline(search: SearchBody) -> Findings:
    """No processor that fuses, or a pipeline that only the cluster knows."""
    name = search.pipeline_name
    if not search.hybrids or search.processors:
        return
    if name not in {None, "_none"}:
        yield RequestFinding(
            "stored-pipeline",
            NOTE,
            "$.search_pipeline",
            f"the search pipeline '{name}' is stored in the cluster and was not checked",
            advice=f"save the answer of GET /_search/pipeline/{name} as a file, and give it with "
            f"`pipeline`",
            source="OpenSearch, search pipelines",
        )
        return
    where, advice = search.hybrids[0].place, "name a search pipeline that has one"
    if search.pipeline:
        where = search.pipeline.place
    elif name is None:
        advice += ", or give the default one of the index with `pipeline`"
    yield RequestFinding(
        "no-pipeline",
        WARNING,
        where,
        "without a normalization or score-ranker processor the hits of 'hybrid' are scores of "
        "single queries between markers such as -9549511700, with documents twice",
        advice=advice,
        source="neural-search, HybridQueryPhaseSearcher; OpenSearch 2.19.1",
    )


def _legs(search: SearchBody) -> Findings:
    if len(search.legs) > MAX_LEGS:
        yield RequestFinding(
            "too-many-queries",
            WARNING,
            f"{search.hybrids[0].place}.queries",
            f"'hybrid' refuses more than {MAX_LEGS} queries (400), here are {len(search.legs)}",
            advice="join some by bool.should",
            source="neural-search, HybridQueryBuilder",
        )


def _skipping_means(search: SearchBody) -> Findings:
    for processor in search.processors:
        technique = processor.at("combination", "technique")
        if technique and technique.value in {"geometric_mean", "harmonic_mean"}:
            yield RequestFinding(
                "skipping-mean",
                WARNING,
                technique.place,
                f"the {str(technique.value).replace('_', ' ')} leaves out a query that misses the "
                "document, with its weight: a document that one query found can pass one that all "
                "found",
                advice="use arithmetic_mean",
                source="neural-search, "
                f"{technique.value.title().replace('_', '')}ScoreCombinationTechnique",
            )


def _weights(search: SearchBody) -> Findings:
    source = "neural-search, ScoreCombinationUtil"
    for processor in search.processors:
        weights = processor.at("combination", "parameters", "weights")
        if weights is None or not isinstance(weights.value, list):
            continue
        values = [weight for weight in weights.value if isinstance(weight, int | float)]
        if len(values) < len(weights.value):
            continue  # places to fill in
        if any(not 0 <= weight <= 1 for weight in values) or abs(sum(values) - 1) > WEIGHT_SLACK:
            yield RequestFinding(
                "weights-sum",
                WARNING,
                weights.place,
                f"weights from 0 to 1 that sum to 1 are wanted (400), these sum to {sum(values):g}",
                advice="divide each by the sum",
                source=source,
            )
        if search.legs and len(values) != len(search.legs):
            yield RequestFinding(
                "weights-count",
                WARNING,
                weights.place,
                f"{len(values)} weights for {len(search.legs)} queries: the pipeline is stored, "
                "and every search is refused (400)",
                advice="give one weight a query",
                source=source,
            )


def _z_score(search: SearchBody) -> Findings:
    for processor in search.processors:
        technique = processor.at("normalization", "technique")
        if technique and technique.value == "z_score":
            yield RequestFinding(
                "z-score-raw",
                WARNING,
                technique.place,
                "a score that is the mean of its query, as that of a single hit, is not normalized "
                "and passes all others",
                advice="use min_max",
                source="neural-search, ZScoreNormalizationTechnique",
            )


def _k_below_window(search: SearchBody) -> Findings:
    for query in search.root.all_of(*VECTOR_QUERIES):
        window, what = _window_of(search, query)
        k, place = _nearest(query)
        if k is not None and k < window:
            yield RequestFinding(
                "k-below-window",
                WARNING,
                place,
                f"the vector query finds {k} documents a shard, and {what} is {window}",
                advice=f"set k to {window} or more",
                source="neural-search #1202; k-NN, query parameter k",
            )


def _nearest(query: RequestValue) -> tuple[int | None, str]:
    """The k of a vector query, and its place; None where it is not written as an engine has it."""
    inner: RequestValue | None = query
    # Elasticsearch names the field; in OpenSearch it is the key.
    if isinstance(query.value, Mapping) and not isinstance(query.value.get("field"), str):
        inner = query.get(next(iter(query.value), ""))
    if inner is None or not isinstance(inner.value, Mapping):
        return None, query.place
    by_distance = {"min_score", "max_distance"} & inner.value.keys()
    default = _NEURAL_K if query.kind == "neural" and not by_distance else None
    return whole_number(inner.value.get("k", default)), f"{inner.place}.k"


def _window_of(search: SearchBody, query: RequestValue) -> tuple[int, str]:
    if query.place.startswith("$.rescore"):
        return 0, ""
    if any(query.place.startswith(f"{hybrid.place}.") for hybrid in search.hybrids):
        return search.window, "the window that 'hybrid' fuses"
    around = [part for part in search.retrievers if query.place.startswith(f"{part.place}.")]
    if around:
        rank_window = around[-1].get("rank_window_size")
        window = whole_number(rank_window.value) if rank_window else DEFAULT_SIZE
        return window or 0, f"the window of '{around[-1].kind}'"
    return search.first + search.size, "the end of the page"


def _knn_rescorer(search: SearchBody) -> Findings:
    for rescorer in search.rescorers:
        for query in rescorer.all_of(*VECTOR_QUERIES):
            yield RequestFinding(
                "knn-rescorer",
                WARNING,
                query.place,
                f"'{query.kind}' as a rescorer scores its k nearest documents of the "
                "shard, and 0 all others of the window",
                advice="use script_score with the similarity, which scores every document",
                source="k-NN, approximate search; measured: the same first 10 in 11 % of queries",
            )


def _rank_window(search: SearchBody) -> Findings:
    source = "Elasticsearch, RankBuilder.DEFAULT_RANK_WINDOW_SIZE"
    for retriever in search.retrievers:
        rank_window = retriever.get("rank_window_size") or retriever.get("window_size")
        window = whole_number(rank_window.value) if rank_window else None
        advice = f"set rank_window_size to {USUAL_WINDOW}"
        if rank_window is None and retriever.kind not in {"rule", "pinned"}:
            yield RequestFinding(
                "rank-window-10",
                WARNING,
                retriever.place,
                f"without 'rank_window_size' '{retriever.kind}' takes {DEFAULT_SIZE} "
                "documents of each retriever",
                advice=advice,
                source=source,
            )
        elif rank_window is not None and window is not None and window < search.size:
            yield RequestFinding(
                "rank-window-below-page",
                WARNING,
                rank_window.place,
                f"a window of {window} is refused for a page of {search.size} (400)",
                advice=advice,
                source=source,
            )


def _licence(search: SearchBody) -> Findings:
    for retriever in search.retrievers:
        if retriever.kind in FUSING_RETRIEVERS:
            yield RequestFinding(
                "licence",
                NOTE,
                retriever.place,
                f"'{retriever.kind}' needs Elastic's Enterprise licence; others answer 403",
                advice="without one, search with bool.should of the queries and one rescorer",
                source="Elasticsearch, RRFRankPlugin",
            )


def _explain(search: SearchBody) -> Findings:
    responses = search.pipeline.get("response_processors") if search.pipeline else None
    has = responses and any(part.get("hybrid_score_explanation") for part in responses.items)
    if search.hybrids and search.processors and search.root.value.get("explain") and not has:
        yield RequestFinding(
            "explain-unfused",
            NOTE,
            "$.explain",
            "explanations are of the queries' own scores, not of the fused one",
            advice="add the response processor hybrid_score_explanation to the pipeline",
            source="neural-search, ExplanationResponseProcessor",
        )


CHECKS: tuple[Check, ...] = (
    _rescore_in_hybrid,
    _pipeline,
    _legs,
    _weights,
    _pagination_depth,
    _skipping_means,
    _z_score,
    _k_below_window,
    _knn_rescorer,
    _rank_window,
    _licence,
    _explain,
)
