"""Live evaluation: what users get without and with a model, from the whole index.

A dataset shows a model the judged documents only. Here it ranks whatever the query brings, by the
very request that an application sends; each figure says what unjudged documents are taken for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import share_by_clicks
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.data.judgments.grouping import importance_of
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.options import DEFAULT_WINDOW, IN_FLIGHT
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, serve_all
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.compared_pair import disagreement
from owpc_ltr.evaluation.live_lists import (
    TOP,
    LiveLists,
    list_doubts,
    live_lists,
    mean_known,
    recall_doubts,
    within_window,
)
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.evaluation.query_choice import repeated_doubts
from owpc_ltr.evaluation.significance import Comparison, Doubt, Verdict, compare_paired, holm
from owpc_ltr.metrics import Metric, uneven
from owpc_ltr.plain_text import ShortRepr, text_table, wrapped_text

Progress = Callable[[str, float | None], None]
QUERY_ALONE = "the query alone"
THE_MODEL = "the model"
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class LiveQuestion(ShortRepr):
    """What is asked live: an application's query for every judged query, and how it is measured.

    Means and tests weigh queries by their importance unless `unweighted`.
    """

    index: str
    query: dict[str, Any]
    queries: Sequence[JudgedQuery]
    metrics: Sequence[Metric]
    window: int = DEFAULT_WINDOW
    in_flight: int = IN_FLIGHT
    seed: int = 0
    unweighted: bool = False

    @property
    def weights(self) -> Vector | None:
        """The importance of the queries; None where none weighs more."""
        if self.unweighted:
            return None
        return uneven(np.array([importance_of(query) for query in self.queries], np.float64))

    def requests(self) -> list[SearchRequest]:
        """The request of each query."""
        shared = SearchRequest(self.index, self.query, {}, self.window, self.window)
        return [
            replace(shared, params=dict(query.params), query_id=query.query_id)
            for query in self.queries
        ]


@dataclass(frozen=True, eq=False, repr=False)
class LiveMeasured(ShortRepr):
    """One metric without and with the model, each query's value and what the difference may be.

    `before`, `after` and `comparison` take unjudged documents for irrelevant, the `condensed` ones
    leave them out. `bounds` are the means before and after with all unjudged documents irrelevant
    and all relevant within the cutoff; None where a metric has no such bounds. `p` is corrected for
    all metrics that were measured.
    """

    metric: Metric
    before: Vector
    after: Vector
    comparison: Comparison
    condensed: Comparison
    bounds: tuple[tuple[float, float], tuple[float, float]] | None
    p: float

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Whether the difference has the other sign with unjudged documents left out."""
        plain, condensed = self.comparison, self.condensed.mean_difference
        if not (plain.low > 0 > condensed or plain.high < 0 < condensed):
            return ()
        return (
            Doubt(
                "unjudged-decide",
                f"the difference in {self.metric} is {plain.mean_difference:+.4f} with unjudged "
                f"documents as irrelevant, and {condensed:+.4f} with these left out",
                "judge what users get (owpc-ltr judge pool)",
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON; the comparison's `a` is with the model, `b` without."""
        bounds = None
        if self.bounds is not None:
            keys = ("before", "after")
            bounds = {key: list(pair) for key, pair in zip(keys, self.bounds, strict=True)}
        return {
            "metric": str(self.metric),
            "convention": self.metric.convention,
            "unjudged_irrelevant": self.comparison.as_dict(),
            "condensed": self.condensed.as_dict(),
            "bounds": bounds,
            "p_corrected": self.p,
        }


@dataclass(frozen=True, eq=False, repr=False)
class LiveEvaluation:
    """Every query served twice, over the whole index, and what came of it.

    `lists` are before, after, and of the query alone; `names` say by what the first two ranked.
    """

    question: LiveQuestion
    before: tuple[Served, ...] = field(repr=False)
    after: tuple[Served, ...] = field(repr=False)
    measured: tuple[LiveMeasured, ...]
    lists: tuple[LiveLists, LiveLists, LiveLists] = field(repr=False)
    names: tuple[str, str] = (QUERY_ALONE, THE_MODEL)
    seen: tuple[Doubt, ...] = ()
    """That the queries were seen in training."""
    model: str = THE_MODEL
    """What the model is called: its uploaded name, or its file."""
    split: str = "all"
    warnings: tuple[str, ...] = ()

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

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why the queries and judgments cannot tell what users get, whatever the metric."""
        before, after, alone = self.lists
        lists = dict(zip(self.names, (before, after), strict=True))
        asked = self.question.queries
        told = list_doubts(lists, alone, share_by_clicks(asked))
        return (*self.seen, *repeated_doubts(asked), *told)

    @property
    def recall_doubts(self) -> list[Doubt]:
        """Whether most relevant documents are beyond the window; live figures count these, too."""
        return recall_doubts(self.recall, self.question.window, self.n_queries)

    def verdict(self, number: int = 0) -> Verdict:
        """Whether users get better lists after than before, by one of the metrics."""
        one = self.measured[number]
        # What ranks within a window is a gain: every live metric is higher for better lists.
        return one.comparison.verdict(one.p, (*self.doubts, *one.doubts))

    @property
    def n_queries(self) -> int:
        """How many queries were asked."""
        return len(self.before)

    @property
    def weighted(self) -> bool:
        """Whether means and tests weigh queries by their importance."""
        return self.question.weights is not None

    @property
    def milliseconds(self) -> dict[str, dict[str, float]]:
        """Median and 95th percentile of a search, by the engine's clock."""
        found = {}
        for name, answers in (("before", self.before), ("after", self.after)):
            took = [answer.took for answer in answers]
            found[name] = {"median": float(np.median(took)), "p95": float(np.percentile(took, 95))}
        return found

    def losers(self, number: int = 0, shown: int = _SHOWN) -> list[dict[str, Any]]:
        """The queries that lose most in a metric, the worst first."""
        one = self.measured[number]
        gains = np.nan_to_num(one.after - one.before)
        worst = np.argsort(gains, kind="stable")[:shown]
        return [
            {
                "query_id": self.question.queries[query].query_id,
                "keywords": query_text(self.question.queries[query].params),
                "old": float(one.before[query]),
                "new": float(one.after[query]),
            }
            for query in worst.tolist()
            if gains[query] < 0
        ]

    def as_dict(self) -> dict[str, Any]:
        """Every figure as JSON."""
        return {
            "model": self.model,
            "index": self.question.index,
            "window": self.question.window,
            "n_queries": self.n_queries,
            "split": self.split,
            **({"weighted": True} if self.weighted else {}),
            "metrics": [
                {**one.as_dict(), "verdict": self.verdict(number).as_dict()}
                for number, one in enumerate(self.measured)
            ],
            "judged_at_10": {"before": _known(self.judged[0]), "after": _known(self.judged[1])},
            "window_recall": _known(self.recall),
            "milliseconds": self.milliseconds,
            "losers": self.losers(),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Every figure, with what unjudged documents are taken for."""
        return "\n".join(_text_lines(self))

    def __repr__(self) -> str:
        lines = [_title(self), *map(wrapped_text, _verdict_lines(self))]
        lines += [
            f"{one.metric!s:<12} {one.comparison.mean_b:.4f} before, {one.comparison.mean_a:.4f} "
            "after"
            for one in self.measured
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Figures as a table, the verdict above, warnings below."""
        from owpc_ltr.data.html import block, line, table

        return block(
            _title(self),
            *map(line, _verdict_lines(self)),
            table(_HEADERS, [[_rounded(cell) for cell in row] for row in _rows(self)]),
            *map(line, _facts(self)),
            *(line(f"warning: {message}") for message in self.warnings),
        )


def measure_live(
    question: LiveQuestion,
    before: Serve,
    after: Serve,
    progress: Progress | None = None,
    *,
    alone: Serve | None = None,
    names: tuple[str, str] = (QUERY_ALONE, THE_MODEL),
) -> LiveEvaluation:
    """Serve every query in both ways and compare them.

    `alone` is how the query without a model is served, where `before` is another way. Raises
    UsageError for metrics that cannot be measured live, Refused where the engine's answers cannot
    be compared.
    """
    metrics = [within_window(metric, question.window) for metric in question.metrics]
    if len(question.queries) < 2:
        raise Refused(
            f"a comparison needs 2 queries at least, and there is {len(question.queries)}: give "
            "more judgments"
        )
    ways = (before, after) if alone is None else (before, after, alone)
    answers = serve_all(ways, question.requests(), question.in_flight, progress)
    old, new, *others = (_lists(question, one) for one in answers)
    measured = [
        replace(_measured(metric, old, new, question), metric=asked)
        for asked, metric in zip(question.metrics, metrics, strict=True)
    ]
    corrected = holm(np.array([one.comparison.p_permutation for one in measured]))
    return LiveEvaluation(
        question,
        answers[0],
        answers[1],
        tuple(replace(one, p=p) for one, p in zip(measured, corrected.tolist(), strict=True)),
        lists=(old, new, others[0] if others else old),
        names=names,
    )


def lists_of(question: LiveQuestion, serve: Serve, progress: Progress | None = None) -> LiveLists:
    """The lists that one way to serve gives."""
    (answers,) = serve_all((serve,), question.requests(), question.in_flight, progress)
    return _lists(question, answers)


def _lists(question: LiveQuestion, answers: Sequence[Served]) -> LiveLists:
    grades = [
        dict(zip(query.doc_ids, map(float, query.grades), strict=True))
        for query in question.queries
    ]
    return live_lists([answer.doc_ids for answer in answers], grades, question.window)


def _measured(
    metric: Metric, before: LiveLists, after: LiveLists, question: LiveQuestion
) -> LiveMeasured:
    weights = question.weights
    plain = [lists.unjudged_irrelevant(metric) for lists in (before, after)]
    best = [lists.highest_possible(metric) for lists in (before, after)]
    bounds = [
        (metric.average(low, weights), metric.average(high, weights))
        for low, high in zip(plain, best, strict=True)
        if high is not None
    ]
    comparison = _compare(plain[1], plain[0], question)
    return LiveMeasured(
        metric,
        plain[0],
        plain[1],
        comparison,
        condensed=_compare(after.condensed(metric), before.condensed(metric), question),
        bounds=(bounds[0], bounds[1]) if bounds else None,
        p=comparison.p_permutation,
    )


def _compare(after: Vector, before: Vector, question: LiveQuestion) -> Comparison:
    counted = ~(np.isnan(after) | np.isnan(before))
    weights = question.weights
    own = None if weights is None else weights[counted]
    return compare_paired(after[counted], before[counted], seed=question.seed, weights=own)


_HEADERS = ("METRIC", "UNJUDGED ARE", "BEFORE", "AFTER", "DIFFERENCE", "95 % INTERVAL", "P")


def _text_lines(found: LiveEvaluation) -> Iterator[str]:
    yield wrapped_text(_title(found))
    if found.weighted:
        yield "means are weighted by the importance of queries"
    yield text_table(_HEADERS, _rows(found))
    yield from map(wrapped_text, (*_verdict_lines(found), *_facts(found)))
    losers = found.losers()
    if losers:
        rows = [(one["query_id"], one["keywords"], one["old"], one["new"]) for one in losers]
        yield text_table(["LOSES MOST", "KEYWORDS", "OLD", "NEW"], rows)
    yield from (wrapped_text(f"warning: {message}") for message in found.warnings)


def _title(found: LiveEvaluation) -> str:
    question = found.question
    return (
        f"{found.model} on {found.n_queries} queries ({split_in_words(found.split)}), the whole of "
        f"'{question.index}', the best {question.window} of each rescored"
    )


def _rows(found: LiveEvaluation) -> list[tuple[Any, ...]]:
    return [
        (str(one.metric), unjudged, by.mean_b, by.mean_a, by.mean_difference,
         f"[{by.low:+.4f}, {by.high:+.4f}]", by.p_permutation)
        for one in found.measured
        for unjudged, by in (("irrelevant", one.comparison), ("left out", one.condensed))
    ]  # fmt: skip


def _verdict_lines(found: LiveEvaluation) -> list[str]:
    """Whether users get better results: once where no metric can tell, else by each."""
    if found.doubts:
        return [str(found.verdict())]
    lines = []
    for number, one in enumerate(found.measured):
        why = disagreement(one.comparison, one.p, found.split)
        told = f"; interval and test disagree: {why}" if why else ""
        lines.append(f"{one.metric}: {found.verdict(number)}{told}")
    return lines


def _facts(found: LiveEvaluation) -> Iterator[str]:
    """Bounds of the metrics, judged shares, recall of the window, and milliseconds."""
    for one in found.measured:
        if one.bounds is not None:
            before, after = (f"{low:.4f} to {high:.4f}" for low, high in one.bounds)
            yield (
                f"{one.metric} with all unjudged irrelevant to all relevant: {before} before, "
                f"{after} after"
            )
    before, after = (_share(share) for share in found.judged)
    yield f"judged among the first {TOP}: {before} before, {after} after"
    yield (
        f"recall of the window: {_share(found.recall)} of the relevant documents are among the "
        f"first {found.question.window} of the query; no ranker can bring the rest"
    )
    for name, times in found.milliseconds.items():
        words = "median {median:g} ms, 95 % within {p95:g} ms"
        yield f"{name}: {words.format(**times)}, by the engine's clock"


def _share(share: float) -> str:
    return "nothing found" if np.isnan(share) else f"{share:.0%}"


def _rounded(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value


def _known(value: float) -> float | None:
    """The value as JSON has it, which knows no NaN."""
    return None if np.isnan(value) else value
