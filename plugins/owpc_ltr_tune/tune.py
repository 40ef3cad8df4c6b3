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
from owpc_ltr.evaluation.options import METRIC
from owpc_ltr.host.commands import NO_STORE, Plugins, ReportPage
from owpc_ltr.signatures import Help, Progress, Reads, Seed, Writes, job, silent

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments import JudgedQuery
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.live_results.comparison import LiveComparison
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr_tune.clauses import LoggedClauses
    from owpc_ltr_tune.numbers import Setting, TunableQuery, TunedNumber

TUNED, ORIGINAL = "tuned", "original"
RECALL = "recall@1000"
"""Measured beside the metric: what the query does not find, no model ranks."""
_DEPTH = 1_000
_MOST_QUERIES = 3_000
"""More training queries move no boost."""
_FEWEST_QUERIES = 50
_MOST_COMPARED = 1_000
"""Held-out queries: of more, a thousand documents each take minutes."""
_CANDIDATES = 50
"""Of a query whose judgments tell no irrelevant document, so many that it finds count as such."""
_ROUNDS = 5
_PARITY = 1e-5


@dataclass(frozen=True, repr=False)
class TunedQuery(BlockResult):
    """A query template with tuned numbers, and its comparison with the original.

    `body` is the template; its entry `tuned_on` says which queries it was tuned on, so that it is
    never measured on these. `values` has the metric on the training queries for each setting of the
    `numbers`, where judged documents alone are ranked; `best` is the chosen one. `difference` is
    the largest one between scores as they were compared and a search's own.
    """

    body: dict[str, Any]
    numbers: tuple[TunedNumber, ...]
    values: Mapping[Setting, float]
    best: Setting
    metric: str
    n_queries: int
    searches: int
    seconds: float
    stopped: bool
    taken_apart: bool
    difference: float
    comparison: LiveComparison
    out: str

    @property
    def query(self) -> dict[str, Any]:
        """The query alone, as an engine takes it once its parameters are filled in."""
        query: dict[str, Any] = self.body["query"]
        return query

    @property
    def was(self) -> float:
        """The metric of the original on the training queries."""
        return self.values[tuple(number.now for number in self.numbers)]

    @property
    def value(self) -> float:
        """The metric of the tuned query on the training queries."""
        return self.values[self.best]

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        left_out = ("body", "numbers", "values", "best", "comparison")
        return {
            "query": self.query,
            "numbers": [
                {**vars(number), "tuned": value}
                for number, value in zip(self.numbers, self.best, strict=True)
            ],
            **{key: part for key, part in vars(self).items() if key not in left_out},
            "settings": len(self.values),
            "training": {"original": self.was, "tuned": self.value},
            "comparison": self.comparison.as_dict(),
        }

    def _blocks(self) -> Iterator[Block]:
        from owpc_ltr_tune.numbers import text_of

        first, *rest = self.comparison.blocks
        yield first
        rows = [
            (
                number.name,
                text_of(number.now),
                text_of(value),
                ", ".join(map(text_of, number.values)),
            )
            for number, value in zip(self.numbers, self.best, strict=True)
        ]
        yield Table(["NUMBER", "WAS", "IS", "TRIED"], rows)
        proof = f"engine and local scores agree to {self.difference:.0e}"
        yield (
            f"{len(self.values):,} settings tried on {self.n_queries:,} training queries in "
            f"{self.seconds:.1f} s ({self.searches:,} searches): {self.metric} of their judged "
            f"documents {self.was:.4f} → {self.value:.4f}; "
            f"{proof if self.taken_apart else 'the engine scored each setting'}"
        )
        if self.stopped:
            yield "it stopped early: give more `searches` to try all settings"
        yield from ("", *rest)
        if self.out and str(self.comparison.verdict()) == "better":
            yield (
                f"{self.out} is a query template: send it in place of yours, and give it as "
                "`query_template` from here on; a model has to be better than this query"
            )
        elif self.out:
            yield f"keep your query: nothing shows that {self.out} is better"


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
    metric: Annotated[
        Any,
        Help(
            "Values are chosen by this metric; of several, as map,ndcg@10, by the first.",
            flag="--metric",
            metavar="METRIC",
            cli=str,
            project="metric",
        ),
    ] = METRIC,
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
    tuned. Values are tried on four fifths of the judged queries. Where the query is a sum or
    maximum of clauses, their scores are logged once, settings are scored here, and compared with
    the engine's scores; other settings are scored by the engine.

    The tuned query is compared with the original on the other queries, by live results of the whole
    index: by the same verdict as everywhere, and by the recall of the first 1,000 documents.

    Raises BadInput for a template without a number, Refused where too few queries are left.
    """
    import numpy as np

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import source_of
    from owpc_ltr.engine.live_queries import judged_queries, with_judge, with_params
    from owpc_ltr.engine.search.request import (
        TUNED_ON,
        SearchRequest,
        check_query,
        filters_of,
        read_template,
        tuned_on,
    )
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.files.output import write_output
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import first_metric
    from owpc_ltr_tune.clauses import LoggedClauses, searches_of
    from owpc_ltr_tune.numbers import tunable

    chosen = first_metric(metric, load(tuple(map(Path, plugins))))
    place = str(query_template) if isinstance(query_template, Path | str) else "the query template"
    query, rest = read_template(query_template)
    check_query(query)
    numbers = tunable(query, place)
    before = tuned_on(query_template)
    own = {} if before is None else {TUNED_ON: before}
    original = {"query": numbers.query(numbers.now), **rest, **own}
    where = cluster.the_index(index)
    (judged,) = read_lists(columns, judgments, topics=topics, asked=True)
    queries = with_params(with_judge(judged_queries(judged, topics), judged_by), params)
    began = time.monotonic()
    seen, drawn, held_out = _drawn(queries, seed)
    shared = SearchRequest(
        where, original["query"], {}, _CANDIDATES, _CANDIDATES, rest=filters_of(rest)
    )
    sample = _with_candidates(cluster, shared, drawn, in_flight)

    def clauses_of(*, taken_apart: bool) -> LoggedClauses:
        most = searches // searches_of(numbers, taken_apart=taken_apart)
        data = sample.select(np.arange(min(sample.n_queries, max(most, _FEWEST_QUERIES))))
        return LoggedClauses(
            cluster.engine,
            where,
            data,
            chosen,
            taken_apart=taken_apart,
            most_searches=searches,
            in_flight=in_flight,
            progress=progress,
        )

    other = tuple(number.values[-1] for number in numbers.numbers)
    for taken_apart in (True, False):
        clauses = clauses_of(taken_apart=taken_apart)
        difference = max(clauses.difference(numbers.query(each)) for each in (numbers.now, other))
        if taken_apart and difference > _PARITY:
            continue
        values, stopped = _ascend(numbers, clauses, progress)
        best = max(values, key=values.__getitem__)
        difference = max(difference, clauses.difference(numbers.query(best)))
        if difference <= _PARITY:
            break
    seconds = time.monotonic() - began
    body = {
        "query": numbers.query(best),
        **rest,
        TUNED_ON: {"metric": str(chosen), "source": source_of(seen, None, base=before)},
    }
    comparison = cluster.compare_live(
        {TUNED: body, ORIGINAL: original},
        judgments=Judgments(held_out),
        metrics=[chosen] if str(chosen) == RECALL else [chosen, RECALL],
        baseline=ORIGINAL,
        index=where,
        window=_DEPTH,
        in_flight=in_flight,
        report=report,
        seed=seed,
        plugins=plugins,
        progress=progress,
    )
    sign = 1.0 if chosen.higher_is_better else -1.0
    result = TunedQuery(
        body,
        numbers.numbers,
        {setting: sign * value for setting, value in values.items()},
        best,
        str(chosen),
        n_queries=clauses.n_queries,
        searches=clauses.searches,
        seconds=seconds,
        stopped=stopped,
        taken_apart=taken_apart,
        difference=difference,
        comparison=comparison,
        out="" if out is None else str(out),
    )
    if out is not None:
        write_output(out, (json.dumps(body, indent=2, ensure_ascii=False) + "\n").encode())
    return result


def _drawn(
    queries: Sequence[JudgedQuery], seed: int
) -> tuple[RankingDataset, list[JudgedQuery], list[JudgedQuery]]:
    """The queries that are not held out, a sample of them in random order, one of the others."""
    import numpy as np

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.splits import HashSplit
    from owpc_ltr.evaluation.judged_data import without_features

    whole = without_features(Judgments(list(queries)))
    held_out = HashSplit().sides(whole) == "test"
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(np.flatnonzero(~held_out))[:_MOST_QUERIES].tolist()
    compared = rng.permutation(np.flatnonzero(held_out))[:_MOST_COMPARED]
    if min(len(drawn), len(compared)) < 2:
        raise Refused(
            f"{len(drawn)} of {len(queries):,} judged queries would be tuned on, and the others "
            "compared, which takes 2 at least: judge more queries of other requests"
        )
    return (
        whole.select(np.flatnonzero(~held_out)),
        [queries[number] for number in drawn],
        [queries[number] for number in np.sort(compared).tolist()],
    )


def _with_candidates(
    cluster: Cluster, original: SearchRequest, sample: list[JudgedQuery], in_flight: int
) -> RankingDataset:
    """The queries with documents to rank.

    One whose judgments tell no irrelevant document gets those that the original finds.
    """
    import numpy as np

    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.search.client_scoring import query_alone, serve_all
    from owpc_ltr.evaluation.judged_data import without_features

    # No metric weighs documents, or asks who judged them.
    sample = [replace(query, weights=None, judged_by=None) for query in sample]
    lacking = [number for number, query in enumerate(sample) if query.grades.min() > 0]
    if lacking:
        alone = query_alone(cluster.engine, cluster.store)
        asked = [sample[number] for number in lacking]
        (answers,) = serve_all((alone,), asked, original, in_flight)
        for number, answer in zip(lacking, answers, strict=True):
            query = sample[number]
            more = [name for name in answer.doc_ids if name not in set(query.doc_ids)]
            sample[number] = replace(
                query,
                doc_ids=[*query.doc_ids, *more],
                grades=np.append(query.grades, np.zeros(len(more), np.float32)),
            )
    return without_features(Judgments(sample))


def _ascend(
    numbers: TunableQuery, clauses: LoggedClauses, progress: Progress
) -> tuple[dict[Setting, float], bool]:
    """The values of all settings that were tried, and whether searches ran out."""
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
    return values, stopped
