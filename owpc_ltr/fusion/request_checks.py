"""What in a search request spoils fusion: one function a trap, on the request alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.fusion.engine_fusions import MAX_LEGS, WEIGHT_SLACK
from owpc_ltr.fusion.search_body import (
    DEFAULT_SIZE,
    FUSING_RETRIEVERS,
    VECTOR_QUERIES,
    SearchBody,
    VectorQuery,
    whole,
)
from owpc_ltr.inspection.result import NOTE, WARNING, Severity
from owpc_ltr.plain_text import ShortRepr

USUAL_WINDOW = 100


@dataclass(frozen=True, repr=False)
class RequestFinding(ShortRepr):
    """One trap in a search request.

    `place` is the JSON path, `message` what happens there, `advice` what to do, `source` where it
    can be read, `example` what it does to this request on the index that was looked at.
    """

    check: str
    severity: Severity
    place: str
    message: str
    advice: str
    source: str
    example: str = ""

    @property
    def line(self) -> str:
        """All of it but the example, as one line."""
        return f"{self.message} ({self.place}): {self.advice} [{self.source}]"

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


Findings = Iterator[RequestFinding]
Check = Callable[[SearchBody], Findings]


def request_findings(search: SearchBody) -> list[RequestFinding]:
    """What all checks find in the request, warnings first."""
    found = [finding for check in CHECKS for finding in check(search)]
    return sorted(found, key=lambda finding: finding.severity != WARNING)


def _rescore_in_hybrid(search: SearchBody) -> Findings:
    if search.hybrids and search.rescorers:
        yield RequestFinding(
            "rescore-in-hybrid", WARNING, "$.rescore",
            "'rescore' changes the scores of each query of 'hybrid' before they are normalized, "
            "and not the fused list",
            advice="search with bool.should of the queries and one rescorer, or rescore the fused "
            "hits in the application",
            source="neural-search #914, PR #917",
        )  # fmt: skip


def _pagination_depth(search: SearchBody) -> Findings:
    source = "neural-search #325, PR #963"
    if not search.hybrids:
        return
    place, depth = search.hybrids[0].place, search.depth
    advice = f"set pagination_depth to the window, as {USUAL_WINDOW}"
    if depth is None and search.first:
        yield RequestFinding(
            "from-without-depth", WARNING, "$.from",
            "'hybrid' refuses 'from' without 'pagination_depth' (400)",
            advice=advice, source=source,
        )  # fmt: skip
    elif depth is None and "pagination_depth" not in search.hybrids[0].value:
        yield RequestFinding(
            "no-pagination-depth", WARNING, place,
            f"without 'pagination_depth' only the first {search.window} documents of each query "
            "and shard are fused, and another size changes the order",
            advice=advice, source=source,
        )  # fmt: skip
    elif depth is not None and depth < search.first + search.size:
        yield RequestFinding(
            "depth-below-page", WARNING, f"{place}.pagination_depth",
            f"the page ends at {search.first + search.size}, and only {depth} documents of each "
            "query and shard are fused",
            advice=advice, source=source,
        )  # fmt: skip


def _pipeline(search: SearchBody) -> Findings:
    """No processor that fuses, in a pipeline that is known or not named at all."""
    if not search.hybrids or search.processors:
        return
    if search.pipeline_name not in {None, "_none"}:
        return
    where = search.pipeline.place if search.pipeline else search.hybrids[0].place
    yield RequestFinding(
        "no-pipeline", WARNING, where,
        "without a normalization or score-ranker processor the hits of 'hybrid' are scores of "
        "single queries between markers such as -9549511700, with documents twice",
        advice="name a search pipeline that has one",
        source="neural-search, HybridQueryPhaseSearcher; OpenSearch 2.19.1",
    )  # fmt: skip


def _legs(search: SearchBody) -> Findings:
    if len(search.legs) > MAX_LEGS:
        yield RequestFinding(
            "too-many-queries", WARNING, f"{search.hybrids[0].place}.queries",
            f"'hybrid' refuses more than {MAX_LEGS} queries (400), here are {len(search.legs)}",
            advice="join some by bool.should", source="neural-search, HybridQueryBuilder",
        )  # fmt: skip


def _skipping_means(search: SearchBody) -> Findings:
    for processor in search.processors:
        technique = processor.at("combination", "technique")
        if technique and technique.value in {"geometric_mean", "harmonic_mean"}:
            yield RequestFinding(
                "skipping-mean", WARNING, technique.place,
                f"the {str(technique.value).replace('_', ' ')} leaves out a query that misses the "
                "document, with its weight: a document that one query found can pass one that all "
                "found",
                advice="use arithmetic_mean",
                source="neural-search, "
                f"{technique.value.title().replace('_', '')}ScoreCombinationTechnique",
            )  # fmt: skip


def _weights(search: SearchBody) -> Findings:
    source = "neural-search, ScoreCombinationUtil"
    for processor in search.processors:
        weights = processor.at("combination", "parameters", "weights")
        if weights is None or not isinstance(weights.value, list):
            continue
        values = [each for each in weights.value if isinstance(each, int | float)]
        if len(values) < len(weights.value):
            continue  # places to fill in
        if any(not 0 <= each <= 1 for each in values) or abs(sum(values) - 1) > WEIGHT_SLACK:
            yield RequestFinding(
                "weights-sum", WARNING, weights.place,
                f"weights from 0 to 1 that sum to 1 are wanted (400), these sum to {sum(values):g}",
                advice="divide each by the sum", source=source,
            )  # fmt: skip
        if search.legs and len(values) != len(search.legs):
            yield RequestFinding(
                "weights-count", WARNING, weights.place,
                f"{len(values)} weights for {len(search.legs)} queries: the pipeline is stored, "
                "and every search is refused (400)",
                advice="give one weight a query", source=source,
            )  # fmt: skip


def _z_score(search: SearchBody) -> Findings:
    for processor in search.processors:
        technique = processor.at("normalization", "technique")
        if technique and technique.value == "z_score":
            yield RequestFinding(
                "z-score-raw", WARNING, technique.place,
                "a score that is the mean of its query, as that of a single hit, is not normalized "
                "and passes all others",
                advice="use min_max", source="neural-search, ZScoreNormalizationTechnique",
            )  # fmt: skip


def _k_below_window(search: SearchBody) -> Findings:
    for query in search.vector_queries:
        window, what = _window_of(search, query)
        if query.k is not None and query.k < window:
            yield RequestFinding(
                "k-below-window", WARNING, query.k_place,
                f"the vector query finds {query.k} documents a shard, and {what} is {window}",
                advice=f"set k to {window} or more",
                source="neural-search #1202; k-NN, query parameter k",
            )  # fmt: skip


def _window_of(search: SearchBody, query: VectorQuery) -> tuple[int, str]:
    if query.place.startswith("$.rescore"):
        return 0, ""
    if any(query.place.startswith(f"{hybrid.place}.") for hybrid in search.hybrids):
        return search.window, "the window that 'hybrid' fuses"
    around = [each for each in search.retrievers if query.place.startswith(f"{each.place}.")]
    if around:
        given = around[-1].get("rank_window_size")
        window = whole(given.value) if given else DEFAULT_SIZE
        return window or 0, f"the window of '{_kind(around[-1].place)}'"
    return search.first + search.size, "the end of the page"


def _kind(place: str) -> str:
    return place.rpartition(".")[2]


def _knn_rescorer(search: SearchBody) -> Findings:
    for rescorer in search.rescorers:
        for found in rescorer.all_of(*VECTOR_QUERIES):
            yield RequestFinding(
                "knn-rescorer", WARNING, found.place,
                f"'{_kind(found.place)}' as a rescorer scores its k nearest documents of the "
                "shard, and 0 all others of the window",
                advice="use script_score with the similarity, which scores every document",
                source="k-NN, approximate search; measured: the same first 10 in 11 % of queries",
            )  # fmt: skip


def _rank_window(search: SearchBody) -> Findings:
    source = "Elasticsearch, RankBuilder.DEFAULT_RANK_WINDOW_SIZE"
    for retriever in search.retrievers:
        given = retriever.get("rank_window_size") or retriever.get("window_size")
        window = whole(given.value) if given else None
        advice = f"set rank_window_size to {USUAL_WINDOW}"
        if given is None and _kind(retriever.place) not in {"rule", "pinned"}:
            yield RequestFinding(
                "rank-window-10", WARNING, retriever.place,
                f"without 'rank_window_size' '{_kind(retriever.place)}' takes {DEFAULT_SIZE} "
                "documents of each retriever",
                advice=advice, source=source,
            )  # fmt: skip
        elif given is not None and window is not None and window < search.size:
            yield RequestFinding(
                "rank-window-below-page", WARNING, given.place,
                f"a window of {window} is refused for a page of {search.size} (400)",
                advice=advice, source=source,
            )  # fmt: skip


def _licence(search: SearchBody) -> Findings:
    for retriever in search.retrievers:
        if _kind(retriever.place) in FUSING_RETRIEVERS:
            yield RequestFinding(
                "licence", NOTE, retriever.place,
                f"'{_kind(retriever.place)}' needs Elastic's Enterprise licence; others answer 403",
                advice="without one, search with bool.should of the queries and one rescorer",
                source="Elasticsearch, RRFRankPlugin",
            )  # fmt: skip


def _explain(search: SearchBody) -> Findings:
    responses = search.pipeline.get("response_processors") if search.pipeline else None
    has = responses and any(each.get("hybrid_score_explanation") for each in responses.items)
    if search.hybrids and search.processors and search.root.value.get("explain") and not has:
        yield RequestFinding(
            "explain-unfused", NOTE, "$.explain",
            "explanations are of the queries' own scores, not of the fused one",
            advice="add the response processor hybrid_score_explanation to the pipeline",
            source="neural-search, ExplanationResponseProcessor",
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (
    _rescore_in_hybrid, _pipeline, _legs, _weights, _pagination_depth, _skipping_means, _z_score,
    _k_below_window, _knn_rescorer, _rank_window, _licence, _explain,
)  # fmt: skip
