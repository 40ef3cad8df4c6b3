"""Values of rankers on the same queries, put side by side: means, pairs, and what to doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.comparing.figures import ComparedRanker
from owpc_ltr.evaluation.comparing.on_data import RankerValues
from owpc_ltr.evaluation.comparing.result import RankerComparison
from owpc_ltr.evaluation.comparing.statistics import Drawing, Statistics, compare_all
from owpc_ltr.evaluation.evaluate import Measured
from owpc_ltr.evaluation.weighted_means import mean_of
from owpc_ltr.metrics import Metric

_MANY = 0.2
"""Above this share of unjudged documents, figures say much of the judgments."""


@dataclass(frozen=True)
class ComparedQueries:
    """The queries: ids, texts where they are known, weights where they vary, and why these."""

    ids: pa.StringArray
    texts: pa.StringArray | None
    weights: Vector | None
    side: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conventions:
    """What is measured how: the metrics, unjudged documents, against whom, and by what chance."""

    metrics: Sequence[Metric]
    unjudged: str = "zero"
    baseline: str | None = None
    drawing: Drawing = Drawing()  # noqa: RUF009 - frozen


def side_by_side(
    values: Mapping[str, RankerValues],
    zero: Sequence[Vector] | None,
    queries: ComparedQueries,
    how: Conventions,
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
        _ranker(name, ranked[name], one, found, weights) for name, one in values.items()
    )
    told = [f"{one.name}: {warning}" for one in rankers for warning in one.warnings]
    return RankerComparison(
        rankers=rankers,
        metrics=tuple(how.metrics),
        pairs=found.pairs,
        query_ids=queries.ids,
        query_texts=queries.texts,
        n_queries=len(queries.ids),
        side=queries.side,
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


def _ranker(
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
            "were judged: compare with --unjudged condensed, and judge what these bring "
            "(owpc-ltr judge pool)"
        )
        shown = [one.name for one in rankers if one.unjudged is None]
        if shown:
            yield (
                f"models rank judged documents alone here ({', '.join(shown)}), and runs list "
                f"others too ({', '.join(holes)}): compare with --unjudged condensed, or live"
            )
    else:
        yield (
            f"many documents of {', '.join(holes)} are unjudged: what they are worth nobody knows; "
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
