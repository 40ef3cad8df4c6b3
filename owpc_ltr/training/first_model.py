"""The choice that `train` makes where nobody chose: which kind of model, by folds of the data.

The kinds are few and go from simple to complex. Each is trained with its defaults without each fold
of the queries, and measured on all of them. Of those that run where the model is to run, the
simplest is chosen that is not significantly worse than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.data.splits import clusters_of, fold_of_queries, query_positions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import LEVEL, Comparison, compare_paired
from owpc_ltr.metrics import RankedQueries
from owpc_ltr.models.analysis import features_used
from owpc_ltr.models.combined import scores_by_fold
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.fitting import check_trainable, goes_through_parts, model_of_queries
from owpc_ltr.training.plan import MetricChoice, Plan, levels_of

FOLDS = 3
FEWEST_QUERIES = 30
"""Fewer independent queries show no difference between kinds: the simplest is taken."""
MOST_DOCUMENTS = 50_000
"""Of more, a sample of the queries is compared."""
_PAIRS = 20
_MOST_TABLES = 64
"""As many features and pairs of them run inside an engine."""
_MOST_CURVES = 200
"""Of more features no curves are tried: each has several columns, all of them in memory."""
RUNS_IN = ("engine", "plugin", "client")


@dataclass(frozen=True)
class Kind:
    """A kind of model: its plan, and where it runs, in one word for each place and in many."""

    name: str
    plan: Plan
    runs_in: frozenset[str]
    words: str


@dataclass(frozen=True)
class KindResult:
    """A kind's mean over all queries, and its difference from the simplest.

    `used` counts the features that its models read, `trees` their trees (means over folds).
    """

    kind: str
    mean: float
    difference: float
    low: float
    high: float
    p: float
    runs_in: str
    used: float
    trees: float


class KindChoice(NamedTuple):
    """What was chosen, from what, and why; `results` is empty where nothing was compared."""

    kind: Kind
    results: tuple[KindResult, ...]
    why: str

    def as_dict(self) -> dict[str, Any]:
        """The choice as a record has it."""
        return {
            "kind": self.kind.name,
            "why": self.why,
            "compared": [asdict(result) for result in self.results],
        }


def kinds(make: Callable[..., Plan], n_features: int) -> list[Kind]:
    """The kinds of models, the simplest first; `make` makes their plans."""
    linear = make()
    metric = linear.metric
    measure = metric.name if metric.name in {"map", "mrr"} else "ndcg"
    everywhere, interactions = frozenset(RUNS_IN), min(_PAIRS, _MOST_TABLES - n_features)
    kinds_of_model = [Kind("linear", linear, everywhere, "engine")]
    if n_features <= _MOST_CURVES:
        curves = make(piecewise_linear=True)
        places = frozenset({"engine", "client"})
        kinds_of_model.append(Kind("piecewise-linear", curves, places, "engine, script"))
    boosted = partial(make, loss="lambdarank", optimizer="boosting")
    settings: dict[str, Any] = {"loss.measure": measure}
    if interactions > 0:
        small = {"depth": 2, "bins": 64, "interactions": interactions}
        small = {f"optimizer.{name}": value for name, value in small.items()}
        pairs = boosted(settings={**settings, **small})
        kinds_of_model.append(Kind("interaction trees", pairs, everywhere, "engine"))
    places = frozenset({"plugin", "client"})
    return [
        *kinds_of_model,
        Kind("boosted trees", boosted(settings=settings), places, "plugin, client"),
    ]


def metric_for(data: RankingDataset) -> str:
    """The metric that chooses where none is named: by all grades, if there are several."""
    levels = levels_of(data)
    return "ndcg@10" if len(levels) > 2 or levels[0] > 0 else "map"


def choose_kind(
    data: JudgedTable,
    make: Callable[..., Plan],
    metric: MetricChoice | None,
    runs_in: str,
    validation_share: float,
    run: Run,
) -> KindChoice:
    """The kind of model for these queries, none of which it will be measured on.

    `make` makes plans; `metric` chooses, by default one for the labels. Raises UsageError where
    `runs_in` is no place.
    """
    if runs_in not in RUNS_IN:
        raise UsageError(f"no model runs in '{runs_in}': choose among {', '.join(RUNS_IN)}")
    sample = _sample(data)
    check_trainable(sample)
    metric = metric_for(sample) if metric is None else metric
    candidates = []
    for kind in kinds(partial(make, metric=metric), sample.n_features):
        # Only those that go through data in parts, or may load them.
        with suppress(UsageError):
            goes_through_parts(kind.plan, data, data)
            candidates.append(kind)
    allowed = [kind for kind in candidates if runs_in in kind.runs_in]
    clusters = clusters_of(sample)
    independent = len(np.unique(clusters))
    if independent < FEWEST_QUERIES:
        why = f"{independent} independent queries are too few to compare kinds of models"
        return KindChoice(allowed[0], (), why)
    try:
        trained = _trained(sample, candidates, validation_share, run)
    except (BadInput, Refused) as error:
        why = f"kinds of models cannot be compared on parts of these queries ({error})"
        return KindChoice(allowed[0], (), why)
    chooses = candidates[0].plan.metric
    values = {
        name: chooses.of(RankedQueries(scores, sample.labels, sample.offsets))
        for name, (_, scores) in trained.items()
    }

    def compared(first: Kind, other: Kind) -> Comparison:
        a, b = values[first.name], values[other.name]
        counted = ~(np.isnan(a) | np.isnan(b))
        return compare_paired(
            a[counted],
            b[counted],
            seed=run.seed,
            weights=sample.query_importance[counted],
            span=chooses.span,
            clusters=clusters[counted],
        )

    results = tuple(
        _result(kind, compared(kind, candidates[0]), trained[kind.name][0]) for kind in candidates
    )
    sign = 1.0 if chooses.higher_is_better else -1.0
    means = {result.kind: sign * result.mean for result in results}
    best = max(allowed, key=lambda kind: means[kind.name])
    kind = next(kind for kind in allowed if kind is best or not _differ(compared(best, kind)))
    why = _why(kind, best, runs_in)
    top = max(candidates, key=lambda kind: means[kind.name])
    more = compared(top, kind)
    if top not in allowed and _differ(more):
        place = next(place for place in RUNS_IN if place in top.runs_in)
        gain = f"{more.mean_difference:+.4f}"
        why = f"{why}; {top.name} would change it by {gain}: `runs_in` {place}"
    return KindChoice(kind, results, why)


def _trained(
    data: RankingDataset, candidates: Sequence[Kind], validation_share: float, run: Run
) -> dict[str, tuple[list[Model], Vector]]:
    """By kind a model without each fold of the queries, and the scores that these give theirs."""
    fold = fold_of_queries(data, FOLDS, "owpc-ltr kinds")
    rest = [data.select(np.flatnonzero(fold != turn)) for turn in range(FOLDS)]
    quiet = Run(seed=run.seed, threads=run.threads)
    trained = {}
    for number, kind in enumerate(candidates):
        models = []
        for turn, queries in enumerate(rest):
            run.progress(
                f"comparing kinds of models: {kind.name}, fold {turn + 1} of {FOLDS}",
                (number * FOLDS + turn) / (len(candidates) * FOLDS),
            )
            models.append(model_of_queries(queries, kind.plan, quiet, validation_share))
        trained[kind.name] = models, scores_by_fold(data, fold, dict(enumerate(models)))
    return trained


def _differ(comparison: Comparison) -> bool:
    return not comparison.includes_zero and comparison.p_permutation < LEVEL


def _result(kind: Kind, comparison: Comparison, models: Sequence[Model]) -> KindResult:
    forests = [getattr(model, "forest", None) for model in models]
    return KindResult(
        kind.name,
        comparison.mean_a,
        comparison.mean_difference,
        comparison.low,
        comparison.high,
        p=comparison.p_permutation,
        runs_in=kind.words,
        used=float(np.mean([len(features_used(model)) for model in models])),
        trees=float(np.mean([0 if forest is None else len(forest.roots) for forest in forests])),
    )


def _why(kind: Kind, best: Kind, where: str) -> str:
    place = {"engine": "every engine", "plugin": "an engine with the LTR plugin"}.get(where)
    of = f" of those that run in {place}" if place else ""
    if kind is best:
        return f"the best{of}"
    return f"the simplest{of} that is not significantly worse than the best ({best.name})"


def _sample(data: JudgedTable) -> RankingDataset:
    """At most so many documents, of queries that are drawn by the hash of their ids."""
    order = np.argsort(query_positions(data, "owpc-ltr sample"), kind="stable")
    count = max(FEWEST_QUERIES, int(data.n_queries * MOST_DOCUMENTS / max(1, data.n_documents)))
    part = data.select(np.sort(order[:count])) if count < data.n_queries else data
    return part.load()
