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
from owpc_ltr.data.partitioned.dataset import JudgedTable
from owpc_ltr.data.query_clusters import clusters_of
from owpc_ltr.data.splits import fold_of_queries, query_positions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.metrics import RankedQueries, parse_metric
from owpc_ltr.models.feature_use import features_used
from owpc_ltr.models.fold_models import scores_by_fold
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import option_name
from owpc_ltr.training.candidates import check_trainable, goes_through_parts
from owpc_ltr.training.folds import model_of_queries
from owpc_ltr.training.plan import Plan, levels_of

FOLDS = 3
FEWEST_QUERIES = 30
"""Fewer independent queries show no difference between kinds: the simplest is taken."""
MOST_DOCUMENTS = 50_000
"""Of more, a sample of the queries is compared."""
_PAIRS = 20
_MOST_TABLES = 64
"""As many features and pairs of them run inside an engine without asking what they cost."""
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
            "compared": [asdict(one) for one in self.results],
        }


def kinds(make: Callable[..., Plan], n_features: int) -> list[Kind]:
    """The kinds of models, the simplest first; `make` makes their plans."""
    linear = make()
    metric = parse_metric(linear.select)
    measure = metric.name if metric.name in {"map", "mrr"} else "ndcg"
    boosted = {"loss": "lambdarank", "optimizer": "boosting"}
    small = {"depth": 2, "bins": 64, "interactions": min(_PAIRS, _MOST_TABLES - n_features)}
    of_loss = {"loss.measure": measure}
    found = [Kind("linear", linear, frozenset(RUNS_IN), "engine")]
    if n_features <= _MOST_CURVES:
        places = frozenset({"engine", "client"})
        plan = make(piecewise_linear=True)
        found.append(Kind("piecewise-linear", plan, places, "engine, script"))
    if small["interactions"] > 0:
        settings = {**of_loss, **{f"optimizer.{name}": value for name, value in small.items()}}
        plan = make(**boosted, settings=settings)
        found.append(Kind("interaction trees", plan, frozenset(RUNS_IN), "engine"))
    trees = Kind(
        "boosted trees",
        make(**boosted, settings=of_loss),
        frozenset({"plugin", "client"}),
        "plugin, client",
    )
    return [*found, trees]


def metric_for(data: RankingDataset) -> str:
    """The metric that chooses where none is named: by all grades, if there are several."""
    levels = levels_of(data)
    return "ndcg@10" if len(levels) > 2 or levels[0] > 0 else "map"


def choose_kind(
    data: JudgedTable,
    make: Callable[..., Plan],
    metric: Any,
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
    select = metric_for(sample) if metric is None else metric
    known = _that_fit(kinds(partial(make, select=select), sample.n_features), data)
    allowed = [kind for kind in known if runs_in in kind.runs_in]
    clusters = clusters_of(sample)
    independent = len(np.unique(clusters))
    if independent < FEWEST_QUERIES:
        why = f"{independent} independent queries are too few to compare kinds of models"
        return KindChoice(allowed[0], (), why)
    try:
        trained = _trained(sample, known, validation_share, run)
    except (BadInput, Refused) as error:
        why = f"kinds of models cannot be compared on parts of these queries ({error})"
        return KindChoice(allowed[0], (), why)
    chooses = parse_metric(known[0].plan.select)
    values = {
        name: chooses.of(RankedQueries(one.scores, sample.labels, sample.offsets))
        for name, one in trained.items()
    }

    def compared(one: Kind, other: Kind) -> Comparison:
        a, b = values[one.name], values[other.name]
        counted = ~(np.isnan(a) | np.isnan(b))
        return compare_paired(
            a[counted], b[counted], seed=run.seed, weights=sample.query_importance[counted],
            span=chooses.span, clusters=clusters[counted],
        )  # fmt: skip

    results = tuple(
        _result(kind, compared(kind, known[0]), trained[kind.name].models) for kind in known
    )
    sign = 1.0 if chooses.higher_is_better else -1.0
    means = {one.kind: sign * one.mean for one in results}
    best = max(allowed, key=lambda kind: means[kind.name])
    kind = next(one for one in allowed if one is best or not _differ(compared(best, one)))
    why = _why(kind, best, runs_in)
    top = max(known, key=lambda kind: means[kind.name])
    more = compared(top, kind)
    if top not in allowed and _differ(more):
        place = next(place for place in RUNS_IN if place in top.runs_in)
        gain = f"{more.mean_difference:+.4f}"
        why = f"{why}; {top.name} would change it by {gain}: {option_name('runs_in')} {place}"
    return KindChoice(kind, results, why)


class _Trained(NamedTuple):
    """A kind's model without each fold, and the scores that these give its documents."""

    models: list[Model]
    scores: Vector


def _trained(
    data: RankingDataset, known: Sequence[Kind], validation_share: float, run: Run
) -> dict[str, _Trained]:
    """Every kind, trained without each fold of the queries."""
    fold = fold_of_queries(data, FOLDS, "owpc-ltr kinds")
    rest = [data.select(np.flatnonzero(fold != turn)) for turn in range(FOLDS)]
    quiet = Run(seed=run.seed, threads=run.threads)
    trained = {}
    for number, kind in enumerate(known):
        models = []
        for turn, queries in enumerate(rest):
            run.progress(
                f"comparing kinds of models: {kind.name}, fold {turn + 1} of {FOLDS}",
                (number * FOLDS + turn) / (len(known) * FOLDS),
            )
            models.append(model_of_queries(queries, kind.plan, quiet, validation_share))
        scores = scores_by_fold(data, fold, dict(enumerate(models)))
        trained[kind.name] = _Trained(models, scores)
    return trained


def _differ(found: Comparison) -> bool:
    return not found.includes_zero and found.p_permutation < LEVEL


def _result(kind: Kind, found: Comparison, models: Sequence[Model]) -> KindResult:
    return KindResult(
        kind.name, found.mean_a, found.mean_difference, found.low, found.high,
        p=found.p_permutation, runs_in=kind.words,
        used=float(np.mean([len(features_used(model)) for model in models])),
        trees=float(np.mean([_trees(model) for model in models])),
    )  # fmt: skip


def _why(kind: Kind, best: Kind, where: str) -> str:
    place = {"engine": "every engine", "plugin": "an engine with the LTR plugin"}.get(where)
    of = f" of those that run in {place}" if place else ""
    if kind is best:
        return f"the best{of}"
    return f"the simplest{of} that is not significantly worse than the best ({best.name})"


def _that_fit(known: Sequence[Kind], data: JudgedTable) -> list[Kind]:
    """Those that can be trained on data in parts, or may load them."""
    fit = []
    for kind in known:
        with suppress(UsageError):
            goes_through_parts(kind.plan, data, data)
            fit.append(kind)
    return fit


def _sample(data: JudgedTable) -> RankingDataset:
    """At most so many documents, of queries that are drawn by the hash of their ids."""
    order = np.argsort(query_positions(data, "owpc-ltr sample"), kind="stable")
    count = max(FEWEST_QUERIES, int(data.n_queries * MOST_DOCUMENTS / max(1, data.n_documents)))
    part = data.select(np.sort(order[:count])) if count < data.n_queries else data
    return part.load()


def _trees(model: Model) -> int:
    forest = getattr(model, "forest", None)
    return 0 if forest is None else len(forest.roots)
