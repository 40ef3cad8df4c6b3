"""What `train` gives with no choices made, beside its kinds of models and beside tuned peers.

    python benchmarks/first_model.py [FOLDER …] [--draws 3] [--only NAME …] [--json FILE]

Each folder is one dataset. Besides them, two synthetic worlds are measured, several draws of each,
whose queries are pooled. Each query is ranked by a model that never saw it (five folds). The
one-liner, `train(data, test_share=0)`, gets the queries of the four other folds and chooses by
itself. Its kinds of models are trained as it trains them; and, as "one fit", on four fifths of the
queries, the last of which chooses. A peer's settings are chosen on a small grid by NDCG@10: a
single peer's on a fifth of the other queries, which also stops its training; an averaged peer is
trained without each of three folds of the other queries, stopped on that fold, and its three
models' scores are averaged. NDCG has exponential gains; everything runs on one thread.

With `--json`, the values of every ranker are written to the file as soon as it is measured. A
ranker whose values are in the file is shown, and not run again.

CatBoost is no dependency, and is not run where it is not installed. In an environment of its own:

    python -m venv catenv && catenv/bin/pip install -e . catboost lightgbm scikit-learn
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import lightgbm
import numpy as np
import xgboost
from owpc_ltr_optimizers.boosting import Boosting

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.splits import fold_of_queries
from owpc_ltr.errors import OwpcLtrError, Refused
from owpc_ltr.evaluation.significance import LEVEL, Comparison, compare_paired
from owpc_ltr.metrics import RankedQueries, parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.fitting import check_trainable
from owpc_ltr.training.fold_fits import QueryFolds
from owpc_ltr.training.kinds import (
    BOOSTED,
    CURVES,
    LINEAR,
    PAIRS,
    SUM,
    SUMMED,
    FittedKinds,
    kinds,
)
from owpc_ltr.training.plan import model_plan

FOLDS, QUICK_FOLDS, TREES, PATIENCE = 5, 2, 300, 50
AVERAGED = 3
NDCG, MAP = parse_metric("ndcg@10"), parse_metric("map")
Ranker = Callable[[RankingDataset, RankingDataset], Vector]
"""The queries of the other folds, and those to rank, to the scores of the latter."""
Setting = Any
"""A point of a peer's grid: depth and learning rate, or C."""
Fit = Callable[[Setting], tuple[Vector, Vector]]
"""A setting to the scores of the validation queries and of the test queries."""
Peer = Callable[[RankingDataset, RankingDataset, RankingDataset], Fit]
"""Training, validation and test queries to the fit of a setting, which stops on validation."""

ONE_LINER = "one-liner"
MAKE = partial(model_plan, metric="ndcg@10")
BOOSTING: dict[str, Any] = {"loss": "lambdarank", "optimizer": "boosting"}
KINDS = (LINEAR, CURVES, PAIRS, SUM, BOOSTED)
LOGARITHMIC: dict[str, Any] = {"loss": "owpc", "settings": {"loss.generator": "logarithmic"}}
PAIRED: dict[str, Any] = {"depth": 2, "bins": 64, "interactions": 20}
ONE_FIT: dict[str, dict[str, Any]] = {
    f"{LINEAR}, one fit": LOGARITHMIC,
    f"{LINEAR}, one fit, constant": {"loss": "owpc"},
    f"{CURVES}, one fit": {**LOGARITHMIC, "piecewise_linear": True},
    f"{PAIRS}, one fit": {**BOOSTING, "settings": PAIRED},
    f"{BOOSTED}, one fit": BOOSTING,
}
PEER_GRID = ((3, 0.05), (3, 0.1), (6, 0.05), (6, 0.1))
"""Depth and learning rate; LightGBM grows as many leaves as trees of the depth have."""
SVM_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
"""C."""
MOST_PAIRS = 50_000
"""Of more, a sample is learned from: of four times as many, OHSUMED takes five times as long."""
NO_CATBOOST = "CatBoost is not run: install it (pip install catboost) in an environment of its own."


def main() -> None:
    """Print a table for each dataset, then how the one-liner stands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--draws", type=int, default=3, help="draws of each synthetic world")
    names = ", ".join(
        [ONE_LINER, *KINDS, *ONE_FIT, *(f"{name}, single|averaged" for name in PEERS)]
    )
    only = f"run only rankers whose names begin so: {names}"
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help=only)
    parser.add_argument("--json", type=Path, metavar="FILE", help="values by dataset and ranker")
    repeat = "run these again, although the file has their values"
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help=repeat)
    parser.add_argument("--quick", action="store_true", help="two folds: a smoke test")
    parser.add_argument("--times", action="store_true", help="processor time of a tree too")
    options = parser.parse_args()
    rankers = all_rankers()
    chosen = [name for name in rankers if name.startswith(tuple(options.only))]
    if not chosen:
        parser.error(f"no ranker is called {' or '.join(options.only)}: choose among {names}")
    if find_spec("catboost") is None and any(name.startswith(CATBOOST) for name in chosen):
        print(NO_CATBOOST)
        chosen = [name for name in chosen if not name.startswith(CATBOOST)]
    folds, again = QUICK_FOLDS if options.quick else FOLDS, tuple(options.again)
    results = Results.of_file(options.json, folds)
    datasets = {one.name: [read_dataset(sorted(one.iterdir()))] for one in options.folders}
    standings = []
    for name, draws in {**datasets, **synthetic(options.draws)}.items():
        measured = results.of(name)
        wanted = {one: rankers[one] for one in chosen}
        measure(name, draws, wanted, results, again)
        shown = {ranker: measured[ranker] for ranker in rankers if ranker in measured}
        for line in table(name, draws, shown):
            print(line, flush=True)
        if ONE_LINER in shown:
            standings.append(Standing.of(shown))
            print(f"\n{standings[-1]}", flush=True)
    if len(standings) > 1:
        print(f"\nThe one-liner on all datasets: {sum(standings[1:], standings[0]).counts}.")
    if options.times:
        for line in _times(graded(5, 2000)):
            print(line, flush=True)


def synthetic(draws: int) -> dict[str, list[RankingDataset]]:
    """So many draws of each world."""
    worlds = {"graded, interactions": graded, "sparse, heavy tails": sparse}
    return {name: [make(seed) for seed in range(draws)] for name, make in worlds.items() if draws}


def graded(seed: int, queries: int = 500, documents: int = 30) -> RankingDataset:
    """Five grades by products, absolute values and thresholds of 6 of 40 normal features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries * documents, 40)).astype(np.float32)
    value = x[:, 0] * x[:, 1] + np.abs(x[:, 2]) + x[:, 3] + 0.7 * (x[:, 4] > 0.5) * x[:, 5]
    value += rng.normal(scale=1.0, size=len(x))
    grades = np.digitize(value, np.quantile(value, [0.6, 0.8, 0.9, 0.97]))
    return _dataset(x, grades, seed, queries)


def sparse(seed: int, queries: int = 600, documents: int = 20) -> RankingDataset:
    """A tenth is relevant, by 6 of 15 features, each of which is 0 in half of the documents.

    Others are lognormal. Three count by their logarithms, one by whether it is there, and two only
    where both are.
    """
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=(queries * documents, 15)).astype(np.float32)
    there = rng.random(x.shape) < 0.5
    logs = np.where(there, np.log(x), 0.0)
    value = logs[:, 0] + 0.5 * logs[:, 1] - logs[:, 2] + there[:, 3]
    value += 1.5 * (there[:, 4] & there[:, 5]) + rng.gumbel(size=len(x))
    relevant = (value > np.quantile(value, 0.9)).astype(int)
    return _dataset(np.where(there, x, np.float32(0.0)), relevant, seed, queries)


def _dataset(x: Any, labels: Any, seed: int, queries: int) -> RankingDataset:
    ids = np.repeat([f"{seed}-{number}" for number in range(queries)], len(x) // queries)
    return ltr.make_dataset(x, labels, ids)


def all_rankers() -> dict[str, Ranker]:
    """The one-liner, kinds, single peers, averaged peers: by the names that the table shows."""
    rankers: dict[str, Ranker] = {ONE_LINER: one_liner}
    rankers |= {name: partial(kind, name) for name in KINDS}
    rankers |= {name: partial(one_fit, given) for name, given in ONE_FIT.items()}
    rankers |= {f"{name}, single": partial(single, *peer) for name, peer in PEERS.items()}
    return rankers | {f"{name}, averaged": partial(averaged, *peer) for name, peer in PEERS.items()}


def one_liner(rest: RankingDataset, test: RankingDataset) -> Vector:
    """Scores of the model of `train`, to which no choice is given."""
    return np.asarray(ltr.train(rest, test_share=0).score(test.features))


def kind(name: str, rest: RankingDataset, test: RankingDataset) -> Vector:
    """Scores of a kind of model, trained as `train` trains what it has chosen."""
    known = {each.name: each for each in kinds(MAKE, rest.n_features)}
    if name not in known:
        raise Refused(f"there is no {name} for {rest.n_features} features")
    parts = SUMMED if name == SUM else ()
    fitted = FittedKinds(QueryFolds.of(rest, check_trainable(rest)), None)
    for each in known.values():
        if each.name in {name, *parts}:
            fitted.fit(each, Run())
    return np.asarray(fitted.trained(known[name], Run(), None).model.score(test.features))


def one_fit(given: Mapping[str, Any], rest: RankingDataset, test: RankingDataset) -> Vector:
    """Scores of a model of four fifths of the queries, by settings that the last fifth chooses."""
    training, validation = sides(rest)
    model = ltr.train(training, validation=validation, metric="ndcg@10", **given)
    return np.asarray(model.score(test.features))


def sides(rest: RankingDataset) -> tuple[RankingDataset, RankingDataset]:
    """Training queries, and every fifth query, for validation."""
    chooses = np.arange(rest.n_queries) % 5 == 0
    return rest.select(np.flatnonzero(~chooses)), rest.select(np.flatnonzero(chooses))


def single(
    peer: Peer, grid: Sequence[Setting], rest: RankingDataset, test: RankingDataset
) -> Vector:
    """Scores of the model whose setting is best on a fifth of the queries."""
    training, validation = sides(rest)
    fit = peer(training, validation, test)
    scores = [fit(setting) for setting in grid]
    best = np.argmax([_mean(on_validation, validation) for on_validation, _ in scores])
    return scores[best][1]


def averaged(
    peer: Peer, grid: Sequence[Setting], rest: RankingDataset, test: RankingDataset
) -> Vector:
    """Mean scores of three models, each without one fold, of the setting that is best on folds."""
    fold = fold_of_queries(rest, AVERAGED, "owpc-ltr kinds")
    means = np.zeros(len(grid))
    scores = np.zeros((len(grid), test.n_documents))
    for turn in range(AVERAGED):
        validation = rest.select(np.flatnonzero(fold == turn))
        fit = peer(rest.select(np.flatnonzero(fold != turn)), validation, test)
        for number, setting in enumerate(grid):
            on_validation, on_test = fit(setting)
            means[number] += _mean(on_validation, validation) / AVERAGED
            scores[number] += on_test / AVERAGED
    best: Vector = scores[np.argmax(means)]
    return best


def _lightgbm(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Fit:
    made = lightgbm.Dataset(train.features, train.labels, group=np.diff(train.offsets))
    sizes = np.diff(validation.offsets)
    watched = made.create_valid(validation.features, validation.labels, group=sizes)

    def fit(setting: Setting) -> tuple[Vector, Vector]:
        depth, rate = setting
        settings = {
            "objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbose": -1,
            "num_leaves": 2**depth - 1, "learning_rate": rate, "num_threads": 1, "seed": 0,
        }  # fmt: skip
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        model = lightgbm.train(settings, made, TREES, [watched], callbacks=[stop])
        return model.predict(validation.features), model.predict(test.features)

    return fit


def _xgboost(
    objective: str, train: RankingDataset, validation: RankingDataset, test: RankingDataset
) -> Fit:
    made, watched, last = (
        xgboost.DMatrix(one.features, one.labels, group=np.diff(one.offsets))
        for one in (train, validation, test)
    )
    if objective == "rank:map":
        # It takes no grades. What is watched keeps them: it stops by NDCG, as all peers do.
        made.set_label(train.labels > 0)

    def fit(setting: Setting) -> tuple[Vector, Vector]:
        depth, rate = setting
        settings = {
            "objective": objective, "eval_metric": "ndcg@10", "max_depth": depth, "eta": rate,
            "nthread": 1, "seed": 0,
        }  # fmt: skip
        model = xgboost.train(
            settings, made, TREES, evals=[(watched, "validation")],
            early_stopping_rounds=PATIENCE, verbose_eval=False,
        )  # fmt: skip
        best = (0, model.best_iteration + 1)
        on_validation, on_test = (
            model.predict(one, iteration_range=best) for one in (watched, last)
        )
        return on_validation, on_test

    return fit


def _catboost(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Fit:
    catboost = importlib.import_module("catboost")
    made, watched, last = (
        catboost.Pool(one.features, one.labels, group_id=_query_numbers(one))
        for one in (train, validation, test)
    )

    def fit(setting: Setting) -> tuple[Vector, Vector]:
        depth, rate = setting
        model = catboost.CatBoostRanker(
            loss_function="YetiRank", eval_metric="NDCG:top=10;type=Exp", depth=depth,
            learning_rate=rate, iterations=TREES, early_stopping_rounds=PATIENCE, thread_count=1,
            random_seed=0, verbose=False, allow_writing_files=False,
        )  # fmt: skip
        model.fit(made, eval_set=watched, use_best_model=True)
        return model.predict(watched), model.predict(last)

    return fit


def _linear_svc(train: RankingDataset, validation: RankingDataset, test: RankingDataset) -> Fit:
    from sklearn.svm import LinearSVC

    # A linear model has no branch for a missing value: it is 0.
    x, on_validation, on_test = (
        np.nan_to_num(one.features.astype(np.float64), nan=0.0) for one in (train, validation, test)
    )
    spread = x.std(axis=0)
    spread[spread == 0.0] = 1.0
    above, below = pairs_of(train)
    sign = np.where(np.arange(len(above)) % 2 == 0, 1.0, -1.0)
    differences = sign[:, None] * (x[above] - x[below]) / spread

    def fit(setting: Setting) -> tuple[Vector, Vector]:
        model = LinearSVC(C=setting, dual=False, fit_intercept=False, random_state=0)
        weights = model.fit(differences, sign).coef_[0] / spread
        return on_validation @ weights, on_test @ weights

    return fit


def pairs_of(data: RankingDataset) -> tuple[Any, Any]:
    """The documents of all pairs of a query with different labels, the one above and the other."""
    pairs = []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        labels = data.labels[start:stop]
        pairs.append(start + np.argwhere(labels[:, None] > labels))
    joined = np.concatenate(pairs)
    if len(joined) > MOST_PAIRS:
        joined = np.random.default_rng(0).choice(joined, MOST_PAIRS, replace=False)
    return joined[:, 0], joined[:, 1]


def _query_numbers(data: RankingDataset) -> Any:
    return np.repeat(np.arange(data.n_queries), np.diff(data.offsets))


CATBOOST = "CatBoost YetiRank"
PEERS: dict[str, tuple[Peer, Sequence[Setting]]] = {
    "LightGBM lambdarank": (_lightgbm, PEER_GRID),
    "XGBoost rank:ndcg": (partial(_xgboost, "rank:ndcg"), PEER_GRID),
    "XGBoost rank:map": (partial(_xgboost, "rank:map"), PEER_GRID),
    "XGBoost rank:pairwise": (partial(_xgboost, "rank:pairwise"), PEER_GRID),
    CATBOOST: (_catboost, PEER_GRID),
    "LinearSVC on pairs": (_linear_svc, SVM_GRID),
}


def _mean(scores: Any, data: RankingDataset) -> float:
    return float(np.nanmean(NDCG.of(_ranked(scores, data))))


def _ranked(scores: Any, data: RankingDataset) -> RankedQueries:
    return RankedQueries(np.asarray(scores, np.float64), data.labels, data.offsets)


@dataclass(frozen=True)
class Measured:
    """A ranker's values of each query, of all draws, and the processor seconds that they took."""

    ndcg: Vector
    map: Vector
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Values as lists."""
        values = {"ndcg@10": self.ndcg.tolist(), "map": self.map.tolist()}
        return {**values, "seconds": self.seconds}

    @classmethod
    def of_dict(cls, entry: Mapping[str, Any]) -> Measured:
        """What `as_dict` gave."""
        return cls(np.array(entry["ndcg@10"]), np.array(entry["map"]), entry["seconds"])


@dataclass(frozen=True)
class Results:
    """What is measured, by dataset and ranker; with a path, also a file."""

    folds: int
    path: Path | None = None
    measured: dict[str, dict[str, Measured]] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path | None, folds: int) -> Results:
        """What the file has; nothing where there is none yet."""
        results = cls(folds, path)
        if path is None or not path.exists():
            return results
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["folds"] != folds:
            sys.exit(f"{path} has results of {content['folds']} folds, not {folds}: name another")
        for name, rankers in content["datasets"].items():
            results.measured[name] = {
                ranker: Measured.of_dict(entry) for ranker, entry in rankers.items()
            }
        return results

    def of(self, dataset: str) -> dict[str, Measured]:
        """The rankers that are measured on a dataset."""
        return self.measured.setdefault(dataset, {})

    def add(self, dataset: str, ranker: str, measured: Measured) -> None:
        """Add a ranker, and write the file, whole or not at all."""
        self.of(dataset)[ranker] = measured
        if self.path is None:
            return
        datasets = {
            name: {ranker: one.as_dict() for ranker, one in rankers.items()}
            for name, rankers in self.measured.items()
        }
        written = self.path.with_name(f"{self.path.name}.part")
        written.write_text(
            json.dumps({"folds": self.folds, "datasets": datasets}), encoding="utf-8"
        )
        written.replace(self.path)


def measure(
    name: str,
    draws: Sequence[RankingDataset],
    rankers: Mapping[str, Ranker],
    results: Results,
    again: tuple[str, ...] = (),
) -> None:
    """Run the rankers that have no results on this dataset, or whose names begin with `again`."""
    count = sum(data.n_queries for data in draws)
    for ranker, one in results.of(name).items():
        if len(one.ndcg) != count:
            sys.exit(
                f"{results.path} has {len(one.ndcg)} queries of '{name}' for '{ranker}', "
                f"and these are {count}: name another file"
            )
    for ranker, scores_of in rankers.items():
        if ranker in results.of(name) and not ranker.startswith(again):
            continue
        started = time.process_time()
        try:
            values = np.hstack([held_out_values(data, scores_of, results.folds) for data in draws])
        except OwpcLtrError as error:
            print(f"\n{name}: {ranker} has no values: {error}", flush=True)
            continue
        took = time.process_time() - started
        results.add(name, ranker, Measured(values[0], values[1], took))
        print(f"{name}: {ranker}, {took:.0f} s", file=sys.stderr, flush=True)


def held_out_values(data: RankingDataset, scores_of: Ranker, folds: int) -> Any:
    """NDCG@10 and MAP (rows) of each query (columns), by scores of a model that never saw it."""
    fold = fold_of_queries(data, folds, "benchmark")
    values = np.empty((2, data.n_queries))
    for turn in range(folds):
        rest, test = (data.select(np.flatnonzero(side)) for side in (fold != turn, fold == turn))
        ranked = _ranked(scores_of(rest, test), test)
        values[:, fold == turn] = NDCG.of(ranked), MAP.of(ranked)
    return values


def compared(one: Measured, other: Measured) -> Comparison:
    """NDCG@10 of one ranker and another, on queries that have it."""
    counted = ~(np.isnan(one.ndcg) | np.isnan(other.ndcg))
    return compare_paired(one.ndcg[counted], other.ndcg[counted], seed=0)


def table(
    name: str, draws: Sequence[RankingDataset], rankers: Mapping[str, Measured]
) -> Iterator[str]:
    """Lines of Markdown: each ranker, and what the one-liner is better by."""
    queries, documents = (
        sum(getattr(data, what) for data in draws) for what in ("n_queries", "n_documents")
    )
    size = f"{queries:,} queries × {documents / queries:.0f} documents"
    of = f", {len(draws)} draws" if len(draws) > 1 else ""
    yield f"\n## {name}: {size}, {draws[0].n_features} features{of}\n"
    yield "| ranker | NDCG@10 | MAP | one-liner − it | 95 % interval | p | s |"
    yield "|---|---|---|---|---|---|---|"
    for ranker, one in rankers.items():
        difference = "– | – | –"
        if ranker != ONE_LINER and ONE_LINER in rankers:
            found = compared(rankers[ONE_LINER], one)
            interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
            difference = f"{found.mean_difference:+.4f} | {interval} | {found.p_permutation:.3f}"
        means = f"{np.nanmean(one.ndcg):.4f} | {np.nanmean(one.map):.4f}"
        yield f"| {ranker} | {means} | {difference} | {one.seconds:.0f} |"


@dataclass(frozen=True)
class Standing:
    """How many single peers the one-liner is ahead of, and which others it is worse than."""

    ahead: int
    single_peers: int
    below: tuple[str, ...]
    others: int

    @classmethod
    def of(cls, rankers: Mapping[str, Measured]) -> Standing:
        """By point estimates of single peers, and by tests of kinds and averaged peers."""
        found = {
            ranker: compared(rankers[ONE_LINER], one)
            for ranker, one in rankers.items()
            if ranker != ONE_LINER
        }
        singles = [ranker for ranker in found if ranker.endswith(", single")]
        below = [
            ranker
            for ranker, one in found.items()
            if ranker not in singles and one.high < 0 and one.p_permutation < LEVEL
        ]
        ahead = sum(found[ranker].mean_difference > 0 for ranker in singles)
        return cls(ahead, len(singles), tuple(below), len(found) - len(singles))

    @property
    def counts(self) -> str:
        """Without the names of those it is worse than."""
        return (
            f"ahead of {self.ahead} of {self.single_peers} single peers, significantly below "
            f"{len(self.below)} of {self.others} kinds and averaged peers"
        )

    def __add__(self, other: Standing) -> Standing:
        return Standing(
            self.ahead + other.ahead,
            self.single_peers + other.single_peers,
            (*self.below, *other.below),
            self.others + other.others,
        )

    def __str__(self) -> str:
        names = f": {'; '.join(self.below)}" if self.below else ""
        return f"The one-liner: {self.counts}{names}."


def _times(data: RankingDataset) -> Iterator[str]:
    """Processor time of 300 trees on one thread, checks of the data too: the median of turns."""
    depth, eta = 4, Boosting().eta
    sizes = np.diff(data.offsets)

    def ours() -> None:
        ltr.train(
            data, validation=data.select(np.arange(1)), **BOOSTING, metric="ndcg@10",
            settings={"trees": TREES, "patience": TREES, "depth": depth},
        )  # fmt: skip

    def theirs() -> None:
        made = xgboost.QuantileDMatrix(data.features, data.labels, group=sizes)
        settings = {
            "objective": "rank:ndcg", "max_depth": depth, "eta": eta,
            "min_child_weight": 50, "nthread": 1,
        }  # fmt: skip
        xgboost.train(settings, made, TREES)

    def light() -> None:
        settings = {"objective": "lambdarank", "num_threads": 1, "verbose": -1}
        settings |= {"num_leaves": 2**depth - 1}
        made = lightgbm.Dataset(data.features, data.labels, group=sizes)
        lightgbm.train(settings, made, TREES)

    seconds = {"owpc-ltr": ours, "XGBoost rank:ndcg": theirs, "LightGBM lambdarank": light}
    turns: dict[str, list[float]] = {name: [] for name in seconds}
    for _ in range(4):
        for name, run in seconds.items():
            started = time.process_time()
            run()
            turns[name].append(time.process_time() - started)
    yield f"\n## Processor time of {TREES} trees of depth {depth}\n"
    yield "| trees of | ms a tree | ratio to XGBoost |\n|---|---|---|"
    base = np.array(turns["XGBoost rank:ndcg"][1:])
    for name, took in turns.items():
        ratio = np.median(np.array(took[1:]) / base)
        yield f"| {name} | {1000 / TREES * np.median(took[1:]):.1f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
