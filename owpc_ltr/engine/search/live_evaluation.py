"""Live evaluation: what users get without and with a model, from the whole index.

A dataset shows a model the judged documents only. Here it ranks whatever the query brings, by the
very request that an application sends; each figure says what unjudged documents are taken for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.html import block, line, table
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.judgments.grouping import judges_by_document
from owpc_ltr.engine.evidence import LIVE, QUERY_ALONE, Evidence, SearchConfiguration
from owpc_ltr.engine.options import DEFAULT_WINDOW, IN_FLIGHT
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, serve_all
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.evaluation.attempts import ATTEMPTS_FILE, AttemptCounter
from owpc_ltr.evaluation.compared_pair import (
    ONCE,
    disagreement,
    outcome_in_words,
    small_gain_lines,
)
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.evaluation.query_choice import ChosenQueries, compared_queries
from owpc_ltr.evaluation.ranked_lists import (
    TOP,
    RankedLists,
    mean_known,
    ranked_lists,
    within_window,
)
from owpc_ltr.evaluation.results import ComparisonPlan, PerQueryResults, Resampling, measure_lists
from owpc_ltr.evaluation.rules import POOL, recall_warnings, template_warnings, unnamed_judges
from owpc_ltr.evaluation.significance import Outcome, ResultWarning, Verdict
from owpc_ltr.files.output import finite_json
from owpc_ltr.metrics import Metric
from owpc_ltr.signatures import Progress
from owpc_ltr.text import ShortRepr, text_table, wrapped_text

THE_MODEL = "the model"
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class LiveSearches(ShortRepr):
    """What is asked live: an application's query for every judged query, and how it is measured.

    Means and tests weigh queries by their importance unless `unweighted`. `query_template` is the
    template as it was given; None where the query is a default.
    """

    index: str
    query: dict[str, Any]
    queries: Sequence[JudgedQuery]
    metrics: Sequence[Metric]
    window: int = DEFAULT_WINDOW
    in_flight: int = IN_FLIGHT
    seed: int = 0
    unweighted: bool = False
    smallest_gain: float = 0.0
    query_template: Any = None
    filters: Mapping[str, Any] = field(default_factory=dict)

    def requests(self) -> list[SearchRequest]:
        """The request of each query."""
        shared = SearchRequest(
            self.index, self.query, {}, self.window, self.window, rest=self.filters
        )
        return requests_of(self.queries, shared)

    def of(self, numbers: NDArray[np.int64]) -> LiveSearches:
        """The searches of the queries of these numbers."""
        return replace(self, queries=[self.queries[number] for number in numbers.tolist()])

    def sample(self, count: int) -> LiveSearches:
        """The searches of so many of the queries, drawn by the seed."""
        order = np.random.default_rng(self.seed).permutation(len(self.queries))
        return self.of(np.sort(order[:count]))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LiveComparison(RankerComparison):
    """Rankers compared by their live results: also evidence for a switch.

    `configurations` has what users get by each ranker that is a query or a model, `judges` how many
    judgments each judge gave. `same_query` where models were measured with one query for all.
    `alias` is the one whose attempts it is counted among, if one of the rankers is what it serves.
    """

    configurations: Mapping[str, SearchConfiguration] = field(default_factory=dict)
    judges: Mapping[str, int] = field(default_factory=dict)
    same_query: bool = False
    alias: str | None = None
    pool: str = ""
    """The command that writes a sheet of what is not judged; empty where none can be typed."""

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
            raise UsageError(f"'{new}' is no model, and no alias can be switched to it")
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
            self.configurations[new], self.configurations[old], LIVE, verdict.as_dict(), figures,
            judges=self.judges, more=_more(verdict, self.pool), alias=self.alias,
        )  # fmt: skip


def _more(verdict: Verdict, pool: str) -> list[str]:
    """How to get more evidence where it is not enough; `pool` is the command that makes a sheet."""
    if verdict.outcome is Outcome.BETTER:
        return []
    sheet = f"judge what users get: {pool}; then owpc-ltr judge merge" if pool else POOL
    advice = [warning.advice.replace(POOL, sheet) for warning in verdict.warnings]
    advice = advice or ["judge more queries, or let users decide (owpc-ltr experiment start)"]
    return list(dict.fromkeys(advice))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LiveEvaluation(LiveComparison):
    """Every query served twice, over the whole index: the lists after compared with those before.

    Differences are gains. `before` and `after` are what was served, `lists` the same with grades,
    and those of the query alone.
    """

    question: LiveSearches
    before: tuple[Served, ...]
    after: tuple[Served, ...]
    lists: tuple[RankedLists, RankedLists, RankedLists]
    model: str = THE_MODEL
    """What the model is called: its uploaded name, or its file."""

    @cached_property
    def judged(self) -> tuple[float, float]:
        """The mean share of the first ten documents that is judged, before and after."""
        before, after, _ = self.lists
        return mean_known(before.judged_at(TOP)), mean_known(after.judged_at(TOP))

    @cached_property
    def recall(self) -> float:
        """The mean share of a query's relevant documents within the window of the query.

        No ranker of the window can bring the rest.
        """
        return mean_known(self.lists[2].recall)

    @property
    def recall_warnings(self) -> list[ResultWarning]:
        """Whether most relevant documents are beyond the window; live figures count these, too."""
        return list(recall_warnings(self.recall, self.question.window, self.n_queries))

    def bounds(self, number: int) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The means before and after with all unjudged documents irrelevant, and all relevant.

        None for a metric that unjudged documents beyond its cutoff can change.
        """
        metric = within_window(self.metrics[number], self.question.window)
        weights = self.importance
        bounds = [
            (
                metric.average(lists.unjudged_irrelevant(metric), weights),
                metric.average(best, weights),
            )
            for lists in self.lists[:2]
            if (best := lists.highest_possible(metric)) is not None
        ]
        return (bounds[0], bounds[1]) if bounds else None

    @property
    def milliseconds(self) -> dict[str, dict[str, float]]:
        """Median and 95th percentile of a search, by the engine's clock."""
        took = {"before": self.before, "after": self.after}
        times = {name: [answer.took for answer in answers] for name, answers in took.items()}
        return {
            name: {"median": float(np.median(of)), "p95": float(np.percentile(of, 95))}
            for name, of in times.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Every figure as JSON."""
        return {
            "model": self.model,
            "index": self.question.index,
            "window": self.question.window,
            "n_queries": self.n_queries,
            "split": self.split,
            **({"weighted": True} if self.weighted else {}),
            "n_independent": self.n_independent,
            "earlier_comparisons": self.earlier_comparisons,
            "metrics": [_metric_dict(self, number) for number in range(len(self.pairs))],
            "judged_at_10": {
                "before": finite_json(self.judged[0]),
                "after": finite_json(self.judged[1]),
            },
            "window_recall": finite_json(self.recall),
            "milliseconds": self.milliseconds,
            "losers": losers(self),
            "warnings": list(self.warnings),
        }

    def _repr_html_(self) -> str:
        """Figures as a table, the verdict above, warnings below."""
        return block(
            self._title,
            *map(line, self._verdict_lines),
            table(_HEADERS, [[_rounded(cell) for cell in row] for row in _rows(self)]),
            *map(line, [*_facts(self), *self._warning_lines]),
        )

    @property
    def _title(self) -> str:
        return (
            f"{self.model} on {self._queries} ({split_in_words(self.split)}), the whole of "
            f"'{self.question.index}', the best {self.question.window} of each rescored"
        )

    def _text_lines(self) -> Iterator[str]:
        yield wrapped_text(self._title)
        if self.weighted:
            yield "means are weighted by the importance of queries"
        yield text_table(_HEADERS, _rows(self))
        yield from map(wrapped_text, (*self._verdict_lines, *_facts(self)))
        yield from loser_lines(self)
        yield from map(wrapped_text, self._warning_lines)

    @property
    def _verdict_lines(self) -> list[str]:
        """Whether users get better results: once where no metric can tell, else by each."""
        verdicts = [pair.verdict for pair in self.pairs]
        if verdicts[0].warnings and len({verdict.reason for verdict in verdicts}) == 1:
            return [str(verdicts[0])]
        lines = []
        for pair, verdict in zip(self.pairs, verdicts, strict=True):
            why = disagreement(pair.comparison, pair.p_holm, self.split)
            words = str(verdict) if verdict.warnings else outcome_in_words(
                verdict, pair.smallest_gain
            )  # fmt: skip
            lines.append(f"{pair.metric}: {words}{why and f'; interval and test disagree: {why}'}")
        once = [] if self.weighted else [f"{ONCE}: nothing tells how often users ask it"]
        return [*lines, *once, *small_gain_lines(self.pairs)]


def measure_live(
    question: LiveSearches,
    before: Serve,
    after: Serve,
    progress: Progress | None = None,
    *,
    alone: Serve | None = None,
    names: tuple[str, str] = (QUERY_ALONE, THE_MODEL),
    chosen: ChosenQueries | None = None,
    attempts: AttemptCounter | None = ATTEMPTS_FILE,
) -> LiveEvaluation:
    """Serve every query in both ways and compare them.

    `alone` is how the query without a model is served, where `before` is another way. `chosen` says
    why these queries, and what rankers have seen of them. Raises UsageError for metrics that cannot
    be measured live, Refused where the engine's answers cannot be compared.
    """
    for metric in question.metrics:
        within_window(metric, question.window)
    if len(question.queries) < 2:
        raise Refused(
            f"a comparison needs 2 queries at least, and there is {len(question.queries)}: give "
            "more judgments"
        )
    ways = (before, after) if alone is None else (before, after, alone)
    answers = serve_all(ways, question.requests(), question.in_flight, progress)
    old, new, *alone_lists = (_lists(question, served) for served in answers)
    plan = ComparisonPlan(
        tuple(question.metrics),
        baseline=names[0],
        drawing=Resampling(question.seed),
        smallest_gain=question.smallest_gain,
        attempts=attempts,
    )
    without_model = alone_lists[0] if alone_lists else old
    comparison = compare_lists(
        {names[1]: new, names[0]: old},
        question.queries,
        chosen or ChosenQueries(np.arange(len(question.queries)), "all"),
        plan,
        query_template=question.query_template,
        unweighted=question.unweighted,
        alone=without_model,
    )
    evaluation = LiveEvaluation(
        **comparison.facts,
        question=question,
        before=answers[0],
        after=answers[1],
        lists=(old, new, without_model),
    )
    warnings = (*evaluation.recall_warnings, *evaluation.pairs[0].verdict.warnings)
    lines = (*evaluation.warnings, *(warning.line for warning in warnings))
    return replace(evaluation, warnings=lines)


def losers(comparison: RankerComparison) -> list[dict[str, Any]]:
    """The queries in which the first ranker loses most to the second, the worst first."""
    new, old = (ranker.name for ranker in comparison.rankers)
    return [
        {
            "query_id": row["query_id"],
            "keywords": row["query"] or "",
            "old": row["b"],
            "new": row["a"],
        }
        for row in comparison.worst(new, old, n=_SHOWN)
    ]


def loser_lines(comparison: RankerComparison) -> list[str]:
    """The same as a table; nothing where no query loses."""
    rows = [tuple(loser.values()) for loser in losers(comparison)]
    return [text_table(["LOSES MOST", "KEYWORDS", "OLD", "NEW"], rows)] if rows else []


def compare_lists(
    lists: Mapping[str, RankedLists],
    queries: Sequence[JudgedQuery],
    chosen: ChosenQueries,
    plan: ComparisonPlan,
    *,
    query_template: Any,
    unweighted: bool,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    alone: RankedLists | None = None,
) -> RankerComparison:
    """The comparison of rankers by their live lists of these queries.

    The results are those of the `query_template`; None, a default query, makes them doubtful.
    """
    results = results_of_lists(
        lists, queries, chosen, plan, query_template=query_template, unweighted=unweighted,
        notes=notes, warnings=warnings, alone=alone,
    )  # fmt: skip
    return compare_results(results)


def results_of_lists(
    lists: Mapping[str, RankedLists],
    queries: Sequence[JudgedQuery],
    chosen: ChosenQueries,
    plan: ComparisonPlan,
    *,
    query_template: Any,
    unweighted: bool,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    alone: RankedLists | None = None,
) -> PerQueryResults:
    """Every ranker's values of these queries by its live lists."""
    of = compared_queries(queries, chosen, notes=notes)
    of = replace(
        of,
        warnings=(*of.warnings, *template_warnings(query_template), *unnamed_judges(queries)),
        messages=(*of.messages, *warnings),
        weights=None if unweighted else of.weights,
    )
    rankers = {name: measure_lists(ranked, plan) for name, ranked in lists.items()}
    return PerQueryResults(rankers, plan, of, alone=alone)


def lists_of(question: LiveSearches, serve: Serve, progress: Progress | None = None) -> RankedLists:
    """The lists that one way to serve gives."""
    (answers,) = serve_all((serve,), question.requests(), question.in_flight, progress)
    return _lists(question, answers)


def requests_of(queries: Sequence[JudgedQuery], shared: SearchRequest) -> list[SearchRequest]:
    """The request of each query, whose other parts they share."""
    return [replace(shared, params=dict(q.params), query_id=q.query_id) for q in queries]


def graded_lists(
    queries: Sequence[JudgedQuery], ranked: Sequence[Sequence[str]], window: int
) -> RankedLists:
    """The lists of documents, query by query, with the grades of those that are judged."""
    grades = [dict(zip(q.doc_ids, map(float, q.grades), strict=True)) for q in queries]
    judges = [dict(zip(q.doc_ids, judges_by_document(q), strict=True)) for q in queries]
    return ranked_lists(ranked, grades, window, judges)


def _lists(question: LiveSearches, answers: Sequence[Served]) -> RankedLists:
    ranked = [answer.doc_ids for answer in answers]
    return graded_lists(question.queries, ranked, question.window)


def _metric_dict(live: LiveEvaluation, number: int) -> dict[str, Any]:
    """The figures of a metric as JSON; the comparison's `a` is with the model, `b` without."""
    pair, bounds = live.pairs[number], live.bounds(number)
    treatments = {
        "unjudged_irrelevant": pair.comparison,
        "condensed": pair.left_out,
        "as_judged": pair.as_judged,
    }
    return {
        "metric": pair.metric,
        "convention": live.metrics[number].convention,
        **{name: by and by.as_dict() for name, by in treatments.items()},
        "bounds": bounds and {"before": list(bounds[0]), "after": list(bounds[1])},
        "p_corrected": pair.p_holm,
        "verdict": pair.verdict.as_dict(),
    }


_HEADERS = ("METRIC", "UNJUDGED ARE", "BEFORE", "AFTER", "DIFFERENCE", "95 % INTERVAL", "P")


def _rows(live: LiveEvaluation) -> list[tuple[Any, ...]]:
    return [
        (pair.metric, unjudged, by.mean_b, by.mean_a, by.mean_difference,
         f"[{by.low:+.4f}, {by.high:+.4f}]", by.p_permutation)
        for pair in live.pairs
        for unjudged, by in (
            ("irrelevant", pair.comparison),
            ("left out", pair.left_out),
            ("as judged", pair.as_judged),
        )
        # Where all is judged, the three are one.
        if by is not None and (by is not pair.comparison or unjudged == "irrelevant")
    ]  # fmt: skip


def _facts(live: LiveEvaluation) -> Iterator[str]:
    """Bounds of the metrics, judged shares, recall of the window, and milliseconds."""
    for number, metric in enumerate(live.metrics):
        bounds = live.bounds(number)
        if bounds is not None:
            before, after = (f"{low:.4f} to {high:.4f}" for low, high in bounds)
            yield (
                f"{metric} with all unjudged irrelevant to all relevant: {before} before, "
                f"{after} after"
            )
    yield from live.correction(always=False)
    before, after = (_share(share) for share in live.judged)
    yield f"judged among the first {TOP}: {before} before, {after} after"
    yield (
        f"recall of the window: {_share(live.recall)} of the relevant documents are among the "
        f"first {live.question.window} of the query; no ranker can bring the rest"
    )
    for name, times in live.milliseconds.items():
        words = "median {median:g} ms, 95 % within {p95:g} ms"
        yield f"{name}: {words.format(**times)}, by the engine's clock"


def _share(share: float) -> str:
    return "nothing found" if np.isnan(share) else f"{share:.0%}"


def _rounded(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value
