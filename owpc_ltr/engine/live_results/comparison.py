"""Live comparison: rankers by their results of the whole index, which are also evidence.

A dataset shows a model the judged documents only. Here it ranks whatever the query brings, by the
very request that an application sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.judgments import JUDGED_BY, JudgedQuery, importance_of, judges_of
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.client.engine import Engine, search_index
from owpc_ltr.engine.evidence import LIVE, Evidence, SearchConfiguration, now
from owpc_ltr.engine.live_queries import feature_warnings, graded_lists
from owpc_ltr.engine.live_results.rankers import LiveRanker, LiveRankers, answers_of, records_of
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.data_comparison import with_proxy_labels
from owpc_ltr.evaluation.judged_data import ChosenQueries, choose_queries, compared_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan, PerQueryResults, measure_lists
from owpc_ltr.evaluation.ranked_lists import RankedLists, mean_known, within_window
from owpc_ltr.evaluation.rules import (
    POOL,
    copied_label_warnings,
    recall_warnings,
    template_warnings,
    unnamed_judges,
)
from owpc_ltr.evaluation.significance import Outcome, ResultWarning, Verdict
from owpc_ltr.files.output import digest_of
from owpc_ltr.metrics import uneven

if TYPE_CHECKING:
    from owpc_ltr.arrays import Labels
    from owpc_ltr.engine.search.client_scoring import Served
    from owpc_ltr.evaluation.data_comparison import ComparisonRequest

_LOOKED_FOR = 1000
"""Judged documents that are looked for in an index."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LiveComparison(RankerComparison):
    """Rankers compared by their live results: also evidence for a switch.

    `configurations` has what users get by each ranker that is a query or a model, `judges` how many
    judgments each judge gave, `milliseconds` each ranker's median and 95th percentile of a search,
    by the engine's clock. `same_query` where models were measured with one query for all. `alias`
    is the one whose attempts it is counted among, if it is.
    """

    configurations: Mapping[str, SearchConfiguration] = field(default_factory=dict)
    judges: Mapping[str, int] = field(default_factory=dict)
    milliseconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    same_query: bool = False
    alias: str | None = None
    pool: str = ""
    """The command that writes a sheet of what is not judged; empty where none can be typed."""
    measured: str = field(default_factory=now)
    """When users would have got these results (ISO 8601)."""

    def evidence(self) -> Evidence:
        """The comparison as evidence. Raises UsageError unless it is one of a new model.

        It is of the headline: the first ranker against the second, or the baseline.
        """
        if len(self.rankers) != 2 or len(self.configurations) != 2:
            raise UsageError(
                "evidence compares what users will have with what they have: name two rankers, "
                "the new model and an alias"
            )
        names = [ranker.name for ranker in self.rankers]
        old = self.baseline or names[1]
        new = next(name for name in names if name != old)
        if self.configurations[new].model is None:
            raise UsageError(f"'{new}' is not a model, and no alias can be switched to it")
        pair = self.pair(new, old)
        pair = pair if pair.higher_is_better else pair.reversed()
        verdict = self.verdict(new, old)
        figures = {
            **pair.as_dict(),
            "n_queries": self.n_queries,
            "split": self.split,
            "weighted": self.weighted,
            "corrected": "; ".join(self.correction(always=True)),
            "earlier_comparisons": self.earlier_comparisons,
            "same_query": self.same_query,
            "warnings": list(self.warnings),
        }
        return Evidence(
            self.configurations[new],
            self.configurations[old],
            LIVE,
            verdict.as_dict(),
            figures,
            judges=self.judges,
            more=_more(verdict, self.pool),
            alias=self.alias,
            written=self.measured,
        )

    def as_dict(self) -> dict[str, Any]:
        """Every figure but those of most queries, as JSON; `verdict` is that of the headline."""
        return {**super().as_dict(), "milliseconds": dict(self.milliseconds)}

    @property
    def _live_lines(self) -> list[str]:
        """How long searches took."""
        times = [
            f"{name} {of['median']:g} ms, 95 % within {of['p95']:g} ms"
            for name, of in self.milliseconds.items()
        ]
        return [f"median of a search by the engine's clock: {'; '.join(times)}"] if times else []


def _more(verdict: Verdict, pool: str) -> list[str]:
    """How to get more evidence where it is not enough; `pool` is the command that makes a sheet."""
    if verdict.outcome is Outcome.BETTER:
        return []
    sheet = f"judge what users get: {pool}; then owpc-ltr judge merge" if pool else POOL
    advice = [warning.advice.replace(POOL, sheet) for warning in verdict.warnings]
    advice = advice or ["judge more queries, or let users decide (owpc-ltr experiment start)"]
    return list(dict.fromkeys(advice))


def compare_rankers(
    request: ComparisonRequest,
    live: LiveRankers,
    in_flight: int,
    people: Sequence[JudgedQuery] | None = None,
    *,
    for_evidence: bool = False,
) -> LiveComparison:
    """The comparison of rankers by their live results of the judged queries of `live`.

    With human labels of a sample by `people`, those of `live` are proxy labels of all queries.
    Models are on trial only while they search. Raises NotAllowed where the account may not count
    the attempt of an alias, and the comparison is `for_evidence`.
    """
    plan, began, engine = request.plan, now(), live.cluster.engine
    rankers = {name: live.of(ranker) for name, ranker in request.rankers.items()}
    searched = {
        name: ranker.identified(engine)
        for name, ranker in rankers.items()
        if isinstance(ranker, LiveRanker)
    }
    windows = [ranker.search.window for ranker in searched.values()]
    depth = max(filter(None, windows), default=live.depth)
    for metric in plan.metrics:
        within_window(metric, depth)
    attempts = _attempts(live, rankers, plan.baseline, for_evidence=for_evidence)
    if attempts is not None:
        plan = replace(plan, attempts=attempts)
    chosen = choose_queries(records_of(rankers), live.judged, request.split)
    queries = [live.judged[number] for number in chosen.queries.tolist()]
    # A segment that there is not is told before anything is searched.
    _ = PerQueryResults({}, plan, compared_queries(queries, chosen)).segments
    ways = dict(rankers)
    for name, fold_of in chosen.folds.items():
        if name in searched:
            ways[name] = searched[name].measured(fold_of)
    # Judgments may contradict the query of the last one: that is asked alone, unless it was.
    last = next(reversed(searched), None)
    is_model = last is not None and searched[last].search.window is not None
    alone = [live.without_model(searched[last].search)] if last and is_model else []
    shared = SearchRequest("unasked", {}, {}, depth, depth)
    of_all = answers_of([*ways.values(), *alone], queries, shared, in_flight, plan.drawing.progress)
    lists = [[answer.doc_ids for answer in of_ranker] for of_ranker in of_all]
    for name, ranked in zip(rankers, lists, strict=False):
        if name in searched:
            _check_holds_judged(engine, searched[name].search.index, queries, ranked)
    documents = dict(zip(rankers, lists, strict=False))
    graded = queries if people is None else _among(people, queries)
    warnings = _feature_warnings(searched.values(), graded, in_flight, plan.drawing.seed)
    live.trials.close()
    of_template = any(ranker.of_template for ranker in searched.values())
    results = LiveResults(
        documents,
        queries,
        chosen,
        plan,
        live.query_template if of_template else "",
        depth=depth,
        alone=lists[-1] if alone else documents.get(last or ""),
        weighted=request.weighted,
        same_query=live.same_query,
    )
    comparison = results.compared() if people is None else results.compared_by_both(people)
    judged = queries if people is None else [*queries, *people]
    return LiveComparison(
        **comparison.with_warnings(warnings).facts,
        configurations={name: ranker.configuration for name, ranker in searched.items()},
        judges=judges_of(judged).get(JUDGED_BY, {}),
        milliseconds={
            name: _times(of) for name, of in zip(rankers, of_all, strict=False) if name in searched
        },
        same_query=live.same_query,
        measured=began,
        alias=None if attempts is None else attempts.alias,
    )


def _check_holds_judged(
    engine: Engine, index: str, queries: Sequence[JudgedQuery], ranked: Sequence[Sequence[str]]
) -> None:
    """Raise BadInput for an index without any judged document: every ranker would measure 0."""
    if any(
        not set(query.doc_ids).isdisjoint(listed)
        for query, listed in zip(queries, ranked, strict=True)
    ):
        return
    ids = list(dict.fromkeys(name for query in queries for name in query.doc_ids))
    some = np.random.default_rng(0).permutation(ids)[:_LOOKED_FOR].tolist()
    body = {"query": {"ids": {"values": some}}, "size": 1, "_source": False}
    if not search_index(engine, index, body).hits:
        raise BadInput(
            f"the index '{index}' has none of the judged documents ({len(some):,} looked for, "
            f"first '{some[0]}'), so nothing was compared: check `index`, and that the judgments' "
            "ids are the `_id` of documents"
        )


def _among(people: Sequence[JudgedQuery], queries: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    """The human labels of these queries."""
    ids = {query.query_id for query in queries}
    return [query for query in people if query.query_id in ids]


def _times(answers: Sequence[Served]) -> dict[str, float]:
    took = [answer.took for answer in answers]
    return {"median": float(np.median(took)), "p95": float(np.percentile(took, 95))}


def _attempts(
    live: LiveRankers,
    rankers: Mapping[str, LiveRanker | TrecRun],
    baseline: str | None,
    *,
    for_evidence: bool,
) -> ClusterAttempts | None:
    """The attempts of the alias that users have, where a candidate may replace what it serves.

    None, with a warning, where they cannot be written: then the comparison is no evidence. Raises
    NotAllowed where it has to be.
    """
    searched = [
        (name, ranker) for name, ranker in rankers.items() if isinstance(ranker, LiveRanker)
    ]
    # The baseline, or the ranker that is named last, is what users have.
    in_use = sorted(searched, key=lambda item: item[0] == baseline)
    alias = next((ranker.alias for _, ranker in reversed(in_use) if ranker.alias), None)
    others = [ranker.configuration for _, ranker in searched if ranker.alias != alias]
    # What the alias serves beside the query alone is no attempt to replace it.
    if alias is None or all(other.model is None for other in others):
        return None
    sides = [digest_of(asdict(replace(ranker.configuration, name=""))) for _, ranker in searched]
    runs = sorted(rankers.keys() - {name for name, _ in searched})
    candidate = digest_of(sorted(sides) + runs)
    attempts = ClusterAttempts(live.cluster.engine, alias, candidate=candidate)
    return attempts if attempts.may_count(for_evidence=for_evidence) else None


def _feature_warnings(
    rankers: Iterable[LiveRanker], queries: Sequence[JudgedQuery], in_flight: int, seed: int
) -> list[ResultWarning]:
    """Warnings about the judgments from the features that the first ranker with a set reads."""
    for ranker in rankers:
        if ranker.features is not None:
            store, featureset = ranker.features
            return feature_warnings(
                store, featureset, ranker.search.index, queries, in_flight=in_flight, seed=seed
            )
    return []


@dataclass(frozen=True)
class LiveResults:
    """The documents that each ranker brings for each query, to be graded and compared.

    `alone` are those of the query without a model; None where all rankers are runs. Nothing beyond
    `depth` is looked at. Rankers that are models of the `query_template` are doubtful where that is
    None, a default query.
    """

    documents: Mapping[str, Sequence[Sequence[str]]]
    queries: Sequence[JudgedQuery]
    chosen: ChosenQueries
    plan: ComparisonPlan
    query_template: Any
    _: KW_ONLY
    depth: int
    alone: Sequence[Sequence[str]] | None = None
    weighted: bool = True
    same_query: bool = False

    def results(self) -> PerQueryResults:
        """Every ranker's values of the queries, by their grades."""
        lists = {name: self._graded(ranked) for name, ranked in self.documents.items()}
        # Whether most relevant documents are in nobody's window.
        recall = max(mean_known(of_ranker.recall) for of_ranker in lists.values())
        of = compared_queries(self.queries, self.chosen, notes=[*self._notes(recall)])
        warnings = (*template_warnings(self.query_template), *unnamed_judges(self.queries))
        low = recall_warnings(recall, self.depth, len(self.queries))
        of = replace(
            of,
            warnings=(*of.warnings, *warnings),
            messages=(*of.messages, *(warning.line for warning in low)),
            weights=of.weights if self.weighted else None,
        )
        rankers = {name: measure_lists(ranked, self.plan) for name, ranked in lists.items()}
        alone = None if self.alone is None else self._graded(self.alone)
        return PerQueryResults(rankers, self.plan, of, alone=alone)

    def _graded(self, ranked: Sequence[Sequence[str]]) -> RankedLists:
        return graded_lists(self.queries, ranked, self.depth)

    def _notes(self, recall: float) -> Iterator[str]:
        first = f"lists are of the whole index, their first {self.depth} documents"
        yield (
            first
            if np.isnan(recall)
            else (f"{first}, which have {recall:.0%} of the relevant ones (recall of the window)")
        )
        if self.same_query:
            yield (
                "the same query for every model: no evidence for a switch to another query template"
            )

    def compared(self) -> RankerComparison:
        """The comparison by the grades of these queries."""
        return compare_results(self.results())

    def compared_by_both(self, people: Sequence[JudgedQuery]) -> RankerComparison:
        """The comparison by human labels of a sample, with proxy labels of all queries."""
        by_id = {query.query_id: query for query in people}
        places = [number for number, query in enumerate(self.queries) if query.query_id in by_id]
        if len(places) < 2:
            raise Refused(
                f"{len(places)} of the {len(self.queries)} compared queries have human labels, "
                "and a comparison needs 2 at least: label a random sample of them "
                "(`judge_pool(sample=N)`)"
            )
        proxy = [self.queries[place] for place in places]
        human = [replace(by_id[query.query_id], importance=query.importance) for query in proxy]
        sample = replace(
            self,
            documents={name: [of[n] for n in places] for name, of in self.documents.items()},
            alone=None if self.alone is None else [self.alone[n] for n in places],
            queries=human,
            chosen=self.chosen._replace(queries=self.chosen.queries[places]),
        )
        copied = copied_label_warnings(*_common_grades(human, proxy))
        measured = sample.results()
        comparison = compare_results(measured).with_warnings(list(copied))
        weights = uneven(np.array([importance_of(query) for query in self.queries]))
        return with_proxy_labels(
            comparison,
            measured,
            self.results(),
            np.array(places, np.int64),
            weights if self.weighted else None,
        )


def _common_grades(
    human: Sequence[JudgedQuery], proxy: Sequence[JudgedQuery]
) -> tuple[Labels, Labels]:
    """Both grades of the documents that both judged."""
    common = [
        (grade, others[doc_id])
        for query, other in zip(human, proxy, strict=True)
        for others in [dict(zip(other.doc_ids, other.grades, strict=True))]
        for doc_id, grade in zip(query.doc_ids, query.grades, strict=True)
        if doc_id in others
    ]
    pairs: Labels = np.array(common, np.float32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
