"""One ranking by every library's convention, and what each difference makes of the figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.reconciling.conventions import FIELDS, Convention, convention_of
from owpc_ltr.evaluation.reconciling.libraries import LIBRARIES, Library
from owpc_ltr.evaluation.reconciling.values import Ranked, queries_of, ranked, values_by
from owpc_ltr.metrics import Metric
from owpc_ltr.metrics.metric import uneven


@dataclass(frozen=True)
class Step:
    """One difference of a convention from ours, in words, and by how much it moves the figure.

    Differences are applied one on top of the other, in the order in which they are told.
    """

    what: str
    change: float


@dataclass(frozen=True)
class Elsewhere:
    """A metric as a library prints it, and the steps from our figure to its own."""

    library: str
    call: str
    value: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Reconciled:
    """Our figure, and what others print of the same ranking.

    `empty` counts the queries where the metric is undefined, `tied` those with tied scores, `lone`
    those of one document, `absent` those that a run lacks; `missing` the judged documents that it
    lacks, `unjudged` its documents that are not judged. Where documents are missing, `elsewhere`
    has only what takes such runs.
    """

    metric: str
    convention: str
    value: float
    n_queries: int
    empty: int
    tied: int
    lone: int
    absent: int
    missing: int
    unjudged: int
    elsewhere: tuple[Elsewhere, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)


def reconcile(ranking: Vector | TrecRun, data: RankingDataset, metric: Metric) -> Reconciled:
    """What each library would print for these scores, one a document of the data, or for a run.

    Raises UsageError for a metric that is neither NDCG nor MAP, BadInput for a run of other data.
    """
    known = sorted({library.metric for library in LIBRARIES})
    if metric.name not in known:
        raise UsageError(
            f"other libraries' conventions are known for {' and '.join(known)}, not for "
            f"'{metric.name}': give --metric ndcg@10, or map"
        )
    given = ranked(ranking, data)
    missing = int(np.isnan(given.scores).sum())
    weights = uneven(data.query_weights)
    ours = convention_of(metric, weighted=weights is not None)
    value = _mean(ours, metric, given, weights)
    undefined = np.isnan(values_by(replace(ours, empty="skip", lone=True), metric, given))
    return Reconciled(
        metric=str(metric),
        convention=metric.convention,
        value=value,
        n_queries=data.n_queries,
        empty=int(undefined.sum()),
        tied=_tied_queries(given),
        lone=int((np.diff(given.offsets) == 1).sum()),
        absent=int(given.absent.sum()),
        missing=missing,
        unjudged=len(given.scores) - data.n_documents,
        elsewhere=tuple(
            _elsewhere(library, ours, metric, given, weights) for library in _of(metric, missing)
        ),
    )


def _of(metric: Metric, missing: int) -> Iterator[Library]:
    for library in LIBRARIES:
        unfit = library.needs_none if metric.cutoff else library.needs_cutoff
        unfit |= missing > 0 and not library.takes_runs
        if library.metric == metric.name and not unfit:
            yield library


def _elsewhere(
    library: Library, ours: Convention, metric: Metric, given: Ranked, weights: Vector | None
) -> Elsewhere:
    theirs = replace(Convention(relevant_above=ours.relevant_above), **library.differs)
    steps, now, value = [], ours, _mean(ours, metric, given, weights)
    for name in FIELDS:
        if getattr(now, name) == getattr(theirs, name) or not _matters(name, metric, theirs, given):
            continue
        now = replace(now, **{name: getattr(theirs, name)})
        after = _mean(now, metric, given, weights)
        steps.append(Step(now.words(name, metric), after - value))
        value = after
    at = "" if metric.cutoff is None else f"@{metric.cutoff}"
    call = library.call.replace("{k}", str(metric.cutoff)).replace("{at}", at)
    call += "" if given.same_queries else library.for_others
    return Elsewhere(library.name, call, value, tuple(steps))


def _matters(name: str, metric: Metric, theirs: Convention, given: Ranked) -> bool:
    """Whether a metric has a use for this field of a convention."""
    if name == "absent":
        return bool(given.absent.any())
    if name in {"gain", "discount"}:
        return metric.name == "ndcg"
    if name == "relevant_above":
        return metric.name == "map"
    if name == "depth":
        return metric.cutoff is None
    if name == "per_cutoff":
        return metric.name == "map" and bool(metric.cutoff or theirs.depth)
    return name != "short" or metric.cutoff is not None


def _mean(convention: Convention, metric: Metric, given: Ranked, weights: Vector | None) -> float:
    values = values_by(convention, metric, given)
    if np.isnan(values).all():
        return float("nan")
    return metric.average(values, weights if convention.weighted else None)


def _tied_queries(given: Ranked) -> int:
    """How many queries have tied scores."""
    ranking = queries_of(given).ranking("expected")
    return len(np.unique(ranking.query[ranking.size > 1]))
