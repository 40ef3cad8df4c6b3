"""Rankers compared on judged documents: models on their features, runs on whatever they list.

All means have an interval, each pair a test, corrected over all. Each pair is tested as
`compare_paired` does it alone; queries are drawn once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.data.judgments.grouping import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison_table import ComparedRanker, MeanInterval, RankerComparison
from owpc_ltr.evaluation.judged_data import (
    Data,
    judgment_doubts,
    read_data,
    texts_of,
    unused_weights,
    without_features,
)
from owpc_ltr.evaluation.measurement import (
    Measured,
    RankerValues,
    Ranking,
    measure_on_data,
    ranker_of,
)
from owpc_ltr.evaluation.query_choice import (
    ChosenQueries,
    Queries,
    choose_queries,
    model_data,
    repeated_doubts,
)
from owpc_ltr.evaluation.resampling import (
    LEVEL,
    RESAMPLES,
    Interval,
    bca_intervals,
    mean_of,
    sign_flips,
)
from owpc_ltr.evaluation.significance import (
    Comparison,
    Paired,
    check_resamples,
    comparison_of,
    generators,
    holm,
    paired,
)
from owpc_ltr.metrics import Metric
from owpc_ltr.models.reordering import FEATURE, ReorderingModel
from owpc_ltr.signatures import Progress, silent, spelled

LIVE = "live:"
Dataset = RankingDataset | PartitionedDataset
_MANY = 0.2
"""Above this share of unjudged documents, figures say much of the judgments."""


@dataclass(frozen=True)
class Drawing:
    """How chance is drawn, and who is told how far it is."""

    seed: int = 0
    resamples: int = RESAMPLES
    progress: Progress = silent

    def told(self, what: str) -> Callable[[float], None]:
        """Who is told of the shares of one piece of work."""
        return lambda share: self.progress(what, share)


@dataclass(frozen=True)
class ComparisonPlan:
    """What is measured how: the metrics, unjudged documents, against whom, and by what chance."""

    metrics: Sequence[Metric]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Drawing = Drawing()


@dataclass(frozen=True)
class ComparisonRequest:
    """Which rankers are compared, by which conventions, on which split of the data.

    `documents` is the file that was indexed, for rerankers that read fields of documents.
    """

    rankers: Mapping[str, Any]
    how: ComparisonPlan
    split: str
    weighted: bool
    plugins: tuple[Path, ...]
    documents: Path | str | None = None
    id_field: str | None = None


class ChosenData(NamedTuple):
    """Rankers, the queries that they are compared on, and why these."""

    rankers: dict[str, Ranking]
    part: Dataset
    chosen: ChosenQueries

    def doubted(self, found: RankerComparison) -> RankerComparison:
        """The comparison, with the doubts about what rankers have seen, and repeated queries."""
        return with_query_doubts(found, self.chosen, self.part)


def compare_on_data(request: ComparisonRequest, data: Data | Path | str) -> RankerComparison:
    """The comparison of rankers on what is judged."""
    of_data = chosen_data(request, data)
    rankers, part, chosen = of_data
    request.how.drawing.progress("scores and metrics", None)
    found = measure_on_data(rankers, part, request.how.metrics, request.how.unjudged)
    of = ComparedQueries(
        ids=part.query_ids,
        texts=texts_of(part) if isinstance(part, RankingDataset) else None,
        weights=found.weights if request.weighted else None,
        split=chosen.side,
        notes=chosen.notes,
        warnings=(*chosen.warnings, *unused_weights(part)),
    )
    compared = side_by_side(found.rankers, found.baselines, of, request.how)
    return of_data.doubted(compared).with_doubts(judgment_doubts(part.head))


def chosen_data(request: ComparisonRequest, data: Data | Path | str) -> ChosenData:
    """The rankers, and the queries that none of them has seen, as request."""
    given = read_data(data) if isinstance(data, Path | str) else data
    whole = without_features(given) if isinstance(given, Judgments) else given
    rankers = {
        name: _ranker(ranker, whole, request.plugins) for name, ranker in request.rankers.items()
    }
    for ranker in rankers.values():
        _check_features(ranker, given, whole)
    chosen = choose_queries(records_of(rankers), whole, request.split)
    part = whole if len(chosen.queries) == whole.n_queries else whole.select(chosen.queries)
    fields = _field_names(rankers)
    if fields:
        if request.documents is not None:
            part = in_memory(part, spelled("documents"))
        if isinstance(part, RankingDataset):
            named = None if request.documents is None else Path(request.documents)
            part = with_document_fields(part, fields, named, request.id_field)
    return ChosenData(rankers, part, chosen)


def with_query_doubts(
    found: RankerComparison, chosen: ChosenQueries, queries: Queries
) -> RankerComparison:
    """The comparison, with what is doubtful about its queries."""
    for name, doubts in chosen.seen.items():
        found = found.with_doubts(doubts, name)
    return found.with_doubts(repeated_doubts(queries))


def _ranker(given: Any, data: Dataset, plugins: tuple[Path, ...]) -> Ranking:
    if not data.n_features and isinstance(given, str) and given.startswith(FEATURE):
        raise _no_features()
    if is_live(given):
        raise UsageError(f"'{given}' is a live ranker: compare live results with compare-live")
    if isinstance(given, str) and not given.startswith(FEATURE) and not Path(given).exists():
        # Names of uploaded models have no ending.
        meant = (
            "check the name" if Path(given).suffix else f"an uploaded model is live:{given}@INDEX"
        )
        raise BadInput(f"cannot read the ranker {given}: no such file or directory; {meant}")
    return ranker_of(given, data, plugins)


def is_live(ranker: Any) -> bool:
    """Whether a ranker is one that the engine serves: `live:…`."""
    return isinstance(ranker, str) and ranker.startswith(LIVE)


def _check_features(ranker: Ranking, given: Data, whole: Dataset) -> None:
    if isinstance(given, Judgments) and not isinstance(ranker, TrecRun):
        raise _no_features()
    model_data(ranker, whole, "all")


def _no_features() -> UsageError:
    return UsageError(
        "judgments have no features, by which models rank: give data that log-features wrote, runs "
        "alone, or compare live results"
    )


def records_of(rankers: Mapping[str, Ranking]) -> dict[str, Mapping[str, Any]]:
    """The record of each ranker's training; a run has none."""
    return {
        name: ranker.record for name, ranker in rankers.items() if not isinstance(ranker, TrecRun)
    }


def _field_names(rankers: dict[str, Ranking]) -> tuple[str, ...]:
    """The document fields that any reranker needs."""
    names = [
        name
        for one in rankers.values()
        if isinstance(one, ReorderingModel)
        for name in one.field_names
    ]
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts where they are known, weights where they vary, and why these."""

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    split: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def side_by_side(
    values: Mapping[str, RankerValues],
    zero: Sequence[Vector] | None,
    queries: ComparedQueries,
    how: ComparisonPlan,
) -> RankerComparison:
    """The comparison of rankers by their values; `zero` are those of scoring everything alike.

    Raises Refused where a metric counts too few queries.
    """
    weights = queries.weights
    ranked = {
        name: tuple(
            Measured(metric, np.nan, of_metric, _floor(metric, number, zero, weights))
            for number, (metric, of_metric) in enumerate(zip(how.metrics, one.values, strict=True))
        )
        for name, one in values.items()
    }
    found = compare_all(ranked, weights, how.baseline, how.drawing)
    rankers = tuple(
        _compared_ranker(name, ranked[name], one, found, weights) for name, one in values.items()
    )
    told = [f"{one.name}: {warning}" for one in rankers for warning in one.warnings]
    return RankerComparison(
        rankers=rankers,
        metrics=tuple(how.metrics),
        pairs=found.pairs,
        query_ids=queries.ids,
        query_texts=queries.texts,
        n_queries=len(queries.ids),
        split=queries.split,
        weighted=weights is not None,
        unjudged=how.unjudged,
        warnings=(*queries.warnings, *told, *_favours(rankers, how.unjudged)),
        notes=(*queries.notes, *_left_out(found, len(queries.ids)), *_worth(weights)),
        baseline=how.baseline,
        importance=weights,
    )


def _floor(
    metric: Metric, number: int, zero: Sequence[Vector] | None, weights: Vector | None
) -> float:
    return float("nan") if zero is None else metric.average(zero[number], weights)


def _compared_ranker(
    name: str,
    measured: tuple[Measured, ...],
    values: RankerValues,
    found: Statistics,
    weights: Vector | None,
) -> ComparedRanker:
    means = found.means[name]
    shares = None
    if values.unjudged is not None:
        texts = (str(one.metric) for one in measured)
        shares = {
            text: _mean_share(share, weights)
            for text, share in zip(texts, values.unjudged, strict=True)
        }
    holes = [
        f"{share:.0%} of what {text} looks at is unjudged"
        for text, share in (shares or {}).items()
        if share > _MANY
    ]
    return ComparedRanker(
        name,
        tuple(replace(one, mean=means[str(one.metric)].mean) for one in measured),
        means,
        shares,
        (*values.warnings, *([", ".join(holes)] if holes else [])),
    )


def _mean_share(shares: Vector, weights: Vector | None) -> float:
    """The mean over queries that have a list; 0 where none has."""
    listed = ~np.isnan(shares)
    if weights is not None:
        listed &= weights > 0
    if not listed.any():
        return 0.0
    return mean_of(shares[listed], None if weights is None else weights[listed])


def _favours(rankers: Sequence[ComparedRanker], unjudged: str) -> Iterator[str]:
    """Whom unjudged documents favour, where there are many."""
    holes = [one.name for one in rankers if one.unjudged and max(one.unjudged.values()) > _MANY]
    if not holes:
        return
    if unjudged == "zero":
        yield (
            "unjudged documents count as irrelevant, which favours the rankers whose documents "
            "were judged: compare with unjudged condensed, and judge what these bring "
            "(owpc-ltr judge pool)"
        )
        shown = [one.name for one in rankers if one.unjudged is None]
        if shown:
            yield (
                f"models rank judged documents alone here ({', '.join(shown)}), and runs list "
                f"others too ({', '.join(holes)}): compare with unjudged condensed, or live"
            )
    else:
        yield (
            f"many documents of {', '.join(holes)} are unjudged: their relevance is unknown; "
            "judge them (owpc-ltr judge pool)"
        )


def _left_out(found: Statistics, n_queries: int) -> Iterator[str]:
    """Metrics that do not count all queries."""
    counted = {pair.metric: pair.comparison.n_queries for pair in found.pairs}
    for metric, count in counted.items():
        if count < n_queries:
            yield f"{metric} counts {count:,} of {n_queries:,} queries, the same for every ranker"


def _worth(weights: Vector | None) -> Iterator[str]:
    """How many equal queries have as much to say as these (Kish 1965)."""
    if weights is None:
        return
    worth = float(weights.sum() ** 2 / (weights**2).sum())
    if worth < len(weights) / 2:
        yield f"so weighted, {len(weights):,} queries tell as much as {worth:,.0f} equal ones"


Ranked = Mapping[str, tuple[Measured, ...]]
"""Each ranker's metrics, by its name."""


class Statistics(NamedTuple):
    """Each ranker's means by the metrics' texts, and the pairs."""

    means: dict[str, dict[str, MeanInterval]]
    pairs: tuple[ComparedPair, ...]


class _Tested(NamedTuple):
    """A pair before it is corrected."""

    names: tuple[str, str]
    measured: Measured
    comparison: Comparison


def compare_all(
    ranked: Ranked, weights: Vector | None, baseline: str | None, drawing: Drawing
) -> Statistics:
    """Every ranker by every metric, on the queries that the metric counts for all of them.

    Pairs are of all rankers, or of each against the baseline. Raises Refused where a metric counts
    fewer than two queries.
    """
    check_resamples(drawing.resamples)
    names = list(ranked)
    wanted = list(combinations(names, 2))
    if baseline is not None:
        wanted = [(name, baseline) for name in names if name != baseline]
    means: dict[str, dict[str, MeanInterval]] = {name: {} for name in names}
    tested: list[_Tested] = []
    for counted, numbers in _by_counted_queries(ranked, weights):
        asked = [(name, number) for number in numbers for name in names]
        values = [ranked[name][number].per_query[counted] for name, number in asked]
        by_name = dict(zip(asked, values, strict=True))
        own = None if weights is None else weights[counted]
        spans = [one.metric.span for one in ranked[names[0]]]
        samples = [
            ((a, b), number, paired(by_name[a, number], by_name[b, number], own, spans[number]))
            for number in numbers
            for a, b in wanted
        ]
        # Weights that are all alike are none.
        own = samples[0][2].weights
        ends = _drawn_intervals(values, [sample for *_, sample in samples], own, drawing)
        for (name, number), column, end in zip(asked, values, ends, strict=False):
            metric = str(ranked[name][number].metric)
            means[name][metric] = MeanInterval(mean_of(column, own), *end)
        tested += _tested(ranked, samples, ends[len(values) :], drawing)
    tested.sort(key=lambda one: _place(one, ranked))
    return Statistics(means, _corrected(tested))


def _drawn_intervals(
    values: Sequence[Vector], samples: Sequence[Paired], weights: Vector | None, drawing: Drawing
) -> list[Interval]:
    """The intervals of the rankers' means, then those of the pairs' differences."""
    _coins, draws = generators(drawing.seed)
    columns = np.column_stack([*values, *(sample.differences for sample in samples)])
    done = drawing.told("drawing queries")
    return bca_intervals(
        columns, weights, level=LEVEL, resamples=drawing.resamples, generator=draws, done=done
    )


def _by_counted_queries(
    ranked: Ranked, weights: Vector | None
) -> list[tuple[NDArray[np.bool_], list[int]]]:
    """Metrics that count the same queries go together."""
    groups: dict[bytes, tuple[NDArray[np.bool_], list[int]]] = {}
    for number, measured in enumerate(zip(*ranked.values(), strict=True)):
        counted = np.ones(len(measured[0].per_query), np.bool_)
        for one in measured:
            counted &= ~np.isnan(one.per_query)
        if weights is not None:
            counted &= weights > 0
        if counted.sum() < 2:
            raise Refused(
                f"{int(counted.sum())} of {len(counted)} queries count in {measured[0].metric} for "
                "every ranker, and a comparison needs 2: give more judged queries, or take "
                "unjudged documents for something else (unjudged)"
            )
        groups.setdefault(counted.tobytes(), (counted, []))[1].append(number)
    return list(groups.values())


def _tested(
    ranked: Ranked,
    samples: Sequence[tuple[tuple[str, str], int, Paired]],
    ends: Sequence[Interval],
    drawing: Drawing,
) -> list[_Tested]:
    done = drawing.told("flipping signs")
    tested = []
    for place, ((pair, number, sample), end) in enumerate(zip(samples, ends, strict=True), 1):
        # The same coins for each pair, as if it were the only one.
        coins, _draws = generators(drawing.seed)
        flips = sign_flips(sample.terms, drawing.resamples, coins)
        found = comparison_of(sample, flips, end, drawing.resamples, drawing.seed)
        tested.append(_Tested(pair, ranked[pair[0]][number], found))
        done(place / len(samples))
    return tested


def _place(one: _Tested, ranked: Ranked) -> tuple[int, int, int]:
    """Pairs stand by metric, then in the order of the rankers."""
    names = list(ranked)
    first = [str(measured.metric) for measured in ranked[names[0]]]
    a, b = one.names
    return first.index(str(one.measured.metric)), names.index(a), names.index(b)


def _corrected(tested: Sequence[_Tested]) -> tuple[ComparedPair, ...]:
    p_values = holm(np.array([one.comparison.p_permutation for one in tested]))
    return tuple(
        ComparedPair(
            *one.names,
            str(one.measured.metric),
            one.comparison,
            p,
            one.measured.metric.higher_is_better,
        )
        for one, p in zip(tested, p_values.tolist(), strict=True)
    )
