"""The choice that `train` makes where nobody chose: which kind of model, by folds of the data.

The kinds are few and go from simple to complex. Each is trained with its defaults without each fold
of the queries, and measured on all of them. Of those that run where the model is to run, the
simplest is chosen that is not significantly worse than the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.query_clusters import clusters_of
from owpc_ltr.data.splits import fold_of_queries, query_positions
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import compare_paired
from owpc_ltr.metrics import Metric, RankedQueries, parse_metric
from owpc_ltr.models.feature_use import features_used
from owpc_ltr.protocols import Model, Run
from owpc_ltr.signatures import spelled
from owpc_ltr.training.candidates import check_room, check_trainable
from owpc_ltr.training.folds import model_of_queries
from owpc_ltr.training.plan import Data, Plan, levels_of

FOLDS = 3
FEWEST_QUERIES = 30
"""Fewer independent queries show no difference between kinds: the simplest is taken."""
MOST_DOCUMENTS = 20_000
"""More are a matter of minutes, and change the choice no more."""
_PAIRS = 20
_MOST_TABLES = 64
"""As many features and pairs of them run inside an engine without asking what they cost."""
_MOST_CURVES = 200
"""More features would make a matrix of curves of more than a gigabyte."""
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
    seconds: float


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


def metric_for(data: Data) -> str:
    """The metric that chooses where none is named: by all grades, if there are several."""
    levels = levels_of(data)
    return "ndcg@10" if len(levels) > 2 or levels[0] > 0 else "map"


def choose_kind(
    data: Data,
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
    select = metric_for(data) if metric is None else metric
    known = _that_fit(kinds(partial(make, select=select), len(data.feature_names)), data)
    allowed = [kind for kind in known if runs_in in kind.runs_in]
    sample, quiet = _sample(data), Run(seed=run.seed, threads=run.threads)
    check_trainable(sample)
    independent = len(np.unique(clusters_of(sample)))
    if independent < FEWEST_QUERIES:
        why = f"{independent} independent queries are too few to compare kinds of models"
        return KindChoice(allowed[0], (), why)
    metric = parse_metric(known[0].plan.select)
    fold = fold_of_queries(sample, FOLDS, "owpc-ltr kinds")
    values, rows = {}, {}
    for number, kind in enumerate(known):
        start = time.monotonic()
        models = []
        for turn in range(FOLDS):
            run.progress(
                f"comparing kinds of models: {kind.name}, fold {turn + 1} of {FOLDS}",
                (number * FOLDS + turn) / (len(known) * FOLDS),
            )
            rest = sample.select(np.flatnonzero(fold != turn))
            try:
                models.append(model_of_queries(rest, kind.plan, quiet, validation_share))
            except (BadInput, Refused) as error:
                why = f"kinds of models cannot be compared on parts of these queries ({error})"
                return KindChoice(allowed[0], (), why)
        scores = _scores(sample, fold, models)
        values[kind.name] = metric.of(RankedQueries(scores, sample.labels, sample.offsets))
        rows[kind.name] = models, time.monotonic() - start
    compare = partial(_compared, sample, metric, run.seed)
    results = []
    for kind in known:
        one = compare(values[kind.name], values[known[0].name])
        models, seconds = rows[kind.name]
        results.append(KindResult(
            kind.name, one.mean_a, one.mean_difference, one.low, one.high, p=one.p_permutation,
            runs_in=kind.words,
            used=float(np.mean([len(features_used(model)) for model in models])),
            trees=float(np.mean([_trees(model) for model in models])), seconds=seconds,
        ))  # fmt: skip
    sign = 1.0 if metric.higher_is_better else -1.0
    means = {one.kind: sign * one.mean for one in results}
    best = max(allowed, key=lambda kind: means[kind.name])
    for kind in allowed:
        one = compare(values[best.name], values[kind.name])
        if kind is best or one.includes_zero or one.p_permutation >= LEVEL:
            break
    why = _why(kind, best, runs_in)
    top = max(known, key=lambda kind: means[kind.name])
    more = compare(values[top.name], values[kind.name])
    if runs_in not in top.runs_in and not more.includes_zero and more.p_permutation < LEVEL:
        place = next(place for place in RUNS_IN if place in top.runs_in)
        gain = f"{more.mean_difference:+.4f}"
        why = f"{why}; {top.name} would gain {gain}: {spelled('runs_in')} {place}"
    return KindChoice(kind, tuple(results), why)


def _why(kind: Kind, best: Kind, where: str) -> str:
    place = {"engine": "every engine", "plugin": "an engine with the LTR plugin"}.get(where)
    of = f" of those that run in {place}" if place else ""
    if kind is best:
        return f"the best{of}"
    return f"the simplest{of} that is not significantly worse than the best ({best.name})"


def _that_fit(known: Sequence[Kind], data: Data) -> list[Kind]:
    """Those that can be trained on data in parts, or may load them."""
    if isinstance(data, RankingDataset):
        return list(known)
    fit = []
    for kind in known:
        with suppress(UsageError):
            check_room(kind.plan, data, data)
            fit.append(kind)
    return fit


def _sample(data: Data) -> RankingDataset:
    """At most so many documents, of queries that are drawn by the hash of their ids."""
    order = np.argsort(query_positions(data, "owpc-ltr sample"), kind="stable")
    count = max(FEWEST_QUERIES, int(data.n_queries * MOST_DOCUMENTS / max(1, data.n_documents)))
    part = data.select(np.sort(order[:count])) if count < data.n_queries else data
    return part if isinstance(part, RankingDataset) else part.load()


def _scores(data: RankingDataset, fold: Any, models: Sequence[Model]) -> Vector:
    """Each document's score by the model that was trained without its fold."""
    of_document = np.repeat(fold, np.diff(data.offsets))
    scores = np.empty(data.n_documents)
    for number, model in enumerate(models):
        rows = of_document == number
        scores[rows] = model.score(data.features[rows])
    return scores


def _trees(model: Model) -> int:
    forest = getattr(model, "forest", None)
    return 0 if forest is None else len(forest.roots)


def _compared(data: RankingDataset, metric: Metric, seed: int, one: Vector, other: Vector) -> Any:
    counted = ~(np.isnan(one) | np.isnan(other))
    return compare_paired(
        one[counted], other[counted], seed=seed, weights=data.query_importance[counted],
        span=metric.span, clusters=clusters_of(data)[counted],
    )  # fmt: skip
