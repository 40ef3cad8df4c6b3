"""`tune`: the numbers of the application's own query that rank judged queries best.

One number after the other takes the value that ranks the training queries best, until none moves
(coordinate ascent), from the query as it is, and from it with all tie breakers at 1. The result is
compared with the original by live results of queries that chose nothing.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.live_queries import InFlight, JudgedBy, JudgedQueries
from owpc_ltr.engine.options import IN_FLIGHT, OnlyIndex, Params
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.options import METRIC, Metrics
from owpc_ltr.host.commands import NO_STORE, Plugins, ReportPage
from owpc_ltr.signatures import Help, Progress, Reads, Seed, Writes, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import JudgedQuery
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.live_results.comparison import LiveComparison
    from owpc_ltr_tune.clauses import LoggedClauses
    from owpc_ltr_tune.numbers import Setting, TunableQuery

TUNED, ORIGINAL = "tuned", "original"
RECALL = "recall@1000"
"""Measured beside the metric: what the query does not find, no model ranks."""
_DEPTH = 1_000
_MOST_QUERIES = 3_000
"""More training queries move no boost."""
_FEWEST_QUERIES = 50
_CANDIDATES = 50
"""Of a query whose judgments tell no irrelevant document, so many that it finds count as such."""
_ROUNDS = 5
_PARITY = 1e-5


@dataclass(frozen=True, repr=False)
class TunedQuery(BlockResult):
    """A query template with tuned numbers, and its comparison with the original.

    `body` is the template; its entry `tuned` says which queries it was tuned on, so that it is
    never measured on these. `numbers` has the name of each number, what it was, what it is, and
    the values that were tried. `value` and `was` are the metric on the training queries, where
    judged documents alone are ranked. `difference` is the largest one between scores computed here
    and the engine's; None where they differ, so that the engine scored every setting.
    """

    body: dict[str, Any]
    numbers: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...]
    metric: str
    was: float
    value: float
    n_queries: int
    settings: int
    searches: int
    seconds: float
    stopped: bool
    difference: float | None
    comparison: LiveComparison
    out: str = ""

    @property
    def query(self) -> dict[str, Any]:
        """The query alone, as an engine takes it once its parameters are filled in."""
        query: dict[str, Any] = self.body["query"]
        return query

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        keys = ("name", "was", "is", "values")
        own = {key: part for key, part in vars(self).items() if key not in {"body", "comparison"}}
        numbers = [dict(zip(keys, number, strict=True)) for number in self.numbers]
        more = {"numbers": numbers, "query": self.query, "comparison": self.comparison.as_dict()}
        return {**own, **more}

    def _blocks(self) -> Iterator[Block]:
        from owpc_ltr.evaluation.significance import Outcome

        first, *rest = self.comparison.blocks
        yield first
        rows = [
            (name, f"{was:g}" if isinstance(was, float) else was, _moved(was, value), _span(values))
            for name, was, value, values in self.numbers
        ]
        yield Table(["NUMBER", "WAS", "IS", "TRIED"], rows)
        proof = "the engine scored each setting"
        if self.difference:
            proof = f"engine and local scores agree to {self.difference:.0e}"
        yield (
            f"{self.settings:,} settings tried on {self.n_queries:,} training queries in "
            f"{self.seconds:.1f} s ({self.searches:,} searches): {self.metric} of their judged "
            f"documents {self.was:.4f} → {self.value:.4f}; {proof}"
        )
        if self.stopped:
            yield "it stopped early: give more `searches` to try all settings"
        yield ""
        yield from rest
        if not self.out:
            return
        if self.comparison.verdict().outcome is Outcome.BETTER:
            yield (
                f"{self.out} is a query template: send it in place of yours, and give it as "
                "`query_template` from here on; a model has to be better than this query"
            )
        else:
            yield f"keep your query: nothing shows that {self.out} is better"


def _moved(was: Any, value: Any) -> str:
    if value == was:
        return "="
    return f"{value:g}" if isinstance(value, float) else str(value)


def _span(values: Sequence[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


@job
def tune(
    cluster: Annotated[Cluster, NO_STORE],
    query_template: Annotated[
        Mapping[str, Any] | Path | str,
        Reads(
            "Your application's query or whole search (JSON), with {{keywords}}; numbers to tune "
            'may be marked, as "title^{{tune 2 of 0, 1, 2, 4}}".',
            cli=Path,
            project="query_template",
        ),
    ],
    *,
    judgments: JudgedQueries,
    out: Annotated[
        Path | str | None, Writes("The file of the tuned query template (JSON).")
    ] = None,
    metrics: Metrics = (METRIC,),
    index: OnlyIndex = None,
    columns: Columns = None,
    topics: Topics = None,
    params: Params = None,
    judged_by: JudgedBy = None,
    searches: Annotated[
        int, Help("How many searches it may take to score settings.", min=1, panel="Engine")
    ] = 20_000,
    in_flight: InFlight = IN_FLIGHT,
    report: ReportPage = None,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> TunedQuery:
    """Tune the boosts and other numbers of your application's query.

    Numbers that a query is made of are found: boosts of fields and clauses, tie breakers, weights
    of functions, slop, minimum_should_match. Where some are marked in the template, these alone are
    tuned. Values are tried on four fifths of the judged queries, by the first metric. Where the
    query is a sum or maximum of clauses, their scores are logged once, settings are scored here,
    and compared with the engine's scores; other settings are scored by the engine.

    The tuned query is compared with the original on the other queries, by live results of the whole
    index: by the same verdict as everywhere, and by the recall of the first 1,000 documents.

    Raises BadInput for a template without a number, Refused where too few queries are left.
    """
    import numpy as np

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import source_of
    from owpc_ltr.engine.live_queries import judged_queries, with_judge, with_params
    from owpc_ltr.engine.search.request import TUNED_ON, read_template
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.files.output import write_output
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metrics
    from owpc_ltr_tune.clauses import LoggedClauses, searches_of
    from owpc_ltr_tune.numbers import tunable

    metric, *others = parse_metrics(metrics, load(tuple(map(Path, plugins))))
    place = str(query_template) if isinstance(query_template, Path | str) else "the query template"
    query, rest = read_template(query_template)
    numbers = tunable(query, place)
    original = {"query": numbers.query(numbers.now), **rest}
    where = cluster.the_index(index)
    (judged,) = read_lists(columns, judgments, topics=topics, asked=True)
    queries = with_params(with_judge(judged_queries(judged, topics), judged_by), params)
    began = time.monotonic()
    seen, sample = _training(cluster, where, original, queries, in_flight, progress, seed)

    def clauses_of(*, taken_apart: bool) -> LoggedClauses:
        most = searches // searches_of(numbers, taken_apart=taken_apart)
        data = sample.select(np.arange(min(sample.n_queries, max(most, _FEWEST_QUERIES))))
        return LoggedClauses(
            cluster.engine,
            where,
            data,
            metric,
            taken_apart=taken_apart,
            most_searches=searches,
            in_flight=in_flight,
            progress=progress,
        )

    clauses = clauses_of(taken_apart=True)
    proved = _is_proved(clauses, numbers)
    if not proved:
        clauses = clauses_of(taken_apart=False)
    found = _ascend(numbers, clauses, progress)
    tuned = numbers.query(found.best)
    difference = clauses.difference(tuned) if proved else None
    if difference is not None and difference > _PARITY:
        raise Refused(
            f"the tuned query scores differently in the engine (by {difference:.1g}), so that "
            "nothing is known of it: mark fewer numbers"
        )
    seconds = time.monotonic() - began
    sign = 1.0 if metric.higher_is_better else -1.0
    body = {
        "query": tuned,
        **rest,
        TUNED_ON: {"metric": str(metric), "source": source_of(seen, None)},
    }
    comparison = cluster.compare_live(
        {TUNED: body, ORIGINAL: original},
        judgments=Judgments(queries),
        metrics=[metric, *others, *([] if RECALL in map(str, others) else [RECALL])],
        baseline=ORIGINAL,
        index=where,
        window=_DEPTH,
        in_flight=in_flight,
        report=report,
        seed=seed,
        plugins=plugins,
        progress=progress,
    )
    named = zip(numbers.numbers, found.best, strict=True)
    result = TunedQuery(
        body,
        tuple((number.name, number.now, value, number.values) for number, value in named),
        str(metric),
        was=sign * found.was,
        value=sign * found.value,
        n_queries=clauses.n_queries,
        settings=found.tried,
        searches=clauses.searches,
        seconds=seconds,
        stopped=found.stopped,
        difference=difference,
        comparison=comparison,
        out="" if out is None else str(out),
    )
    if out is not None:
        write_output(out, (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode())
    return result


def _training(
    cluster: Cluster,
    index: str,
    original: Mapping[str, Any],
    queries: Sequence[JudgedQuery],
    in_flight: int,
    progress: Progress,
    seed: int,
) -> tuple[RankingDataset, RankingDataset]:
    """The queries that are not held out, and a sample of them, in random order.

    A query whose judgments tell no irrelevant document gets those that the original finds.
    """
    import numpy as np

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import HashSplit
    from owpc_ltr.engine.search.client_scoring import query_alone, serve_all
    from owpc_ltr.engine.search.request import SearchRequest, filters_of
    from owpc_ltr.evaluation.judged_data import without_features

    whole = without_features(Judgments(list(queries)))
    held_in = np.flatnonzero(HashSplit().sides(whole) != "test")
    if not 2 <= len(held_in) <= len(queries) - 2:
        raise Refused(
            f"{len(held_in)} of {len(queries):,} judged queries would be tuned on, and the others "
            "compared, which takes 2 at least: judge more queries of other requests"
        )
    drawn = np.random.default_rng(seed).permutation(held_in)[:_MOST_QUERIES]
    sample = [queries[number] for number in drawn.tolist()]
    lacking = [number for number, query in enumerate(sample) if query.grades.min() > 0]
    if lacking:
        query, rest = original["query"], {k: v for k, v in original.items() if k != "query"}
        shared = SearchRequest(index, query, {}, _CANDIDATES, _CANDIDATES, filters_of(rest))
        alone = query_alone(cluster.engine, cluster.store)
        asked = [sample[number] for number in lacking]
        (answers,) = serve_all((alone,), asked, shared, in_flight, progress)
        for number, answer in zip(lacking, answers, strict=True):
            sample[number] = _with_irrelevant(sample[number], answer.doc_ids)
    return whole.select(held_in), without_features(Judgments(sample))


def _with_irrelevant(query: JudgedQuery, doc_ids: Sequence[str]) -> JudgedQuery:
    import numpy as np

    more = [name for name in doc_ids if name not in set(query.doc_ids)]
    grades = np.append(query.grades, np.zeros(len(more), np.float32))
    judges = None if query.judged_by is None else [*query.judged_by, *("" for _ in more)]
    weights = query.weights
    if weights is not None:
        weights = np.append(weights, np.ones(len(more), np.float32))
    return replace(
        query,
        doc_ids=[*query.doc_ids, *more],
        grades=grades,
        weights=weights,
        judged_by=judges,
    )


def _is_proved(clauses: LoggedClauses, numbers: TunableQuery) -> bool:
    """Whether scores that are computed here are the engine's, for two settings of all numbers."""
    other = tuple(number.values[-1] for number in numbers.numbers)
    settings = (numbers.now, other)
    return all(clauses.difference(numbers.query(setting)) <= _PARITY for setting in settings)


@dataclass(frozen=True)
class _Found:
    """The best setting with its value, that of the original, and how many were tried."""

    best: Setting
    value: float
    was: float
    tried: int
    stopped: bool


def _ascend(numbers: TunableQuery, clauses: LoggedClauses, progress: Progress) -> _Found:
    from owpc_ltr_tune.clauses import OutOfSearches

    values: dict[Setting, float] = {}

    def value(setting: Setting) -> float:
        if not numbers.is_complete(setting):
            return -math.inf
        if setting not in values:
            values[setting] = clauses.value(numbers.query(setting))
            progress(f"{len(values):,} settings, the best {max(values.values()):.4f}", None)
        return values[setting]

    def ascend(setting: Setting) -> None:
        for _ in range(_ROUNDS):
            before = setting
            for place, number in enumerate(numbers.numbers):
                others = [(*setting[:place], v, *setting[place + 1 :]) for v in number.values]
                # Where nothing is better, the number stays as it is.
                setting = max([setting, *others], key=value)
            if setting == before:
                return

    now, stopped = numbers.now, False
    ties = [number.name.split(" (")[0].endswith("tie_breaker") for number in numbers.numbers]
    starts = [now, tuple(1.0 if tie else v for tie, v in zip(ties, now, strict=True))]
    value(now)
    try:
        for start in dict.fromkeys(starts):
            ascend(start)
    except OutOfSearches:
        stopped = True
    best = max(values, key=values.__getitem__)
    return _Found(best, values[best], values[now], len(values), stopped)
