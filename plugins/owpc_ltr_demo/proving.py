"""The second half of the demo: train, compare on held-out queries, upload, search live."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.measurement import compare
from owpc_ltr.files.output import write_output
from owpc_ltr.inspection.constant import silent_in_training
from owpc_ltr.training.defaults import DEFAULT_C
from owpc_ltr_demo.contest import METRICS, Contest, by_kind, hold_contest, rows_of, verdict
from owpc_ltr_demo.judged import DemoQuery, Pool
from owpc_ltr_demo.lambdamart import fit_lambdamart
from owpc_ltr_demo.live import METRIC, WINDOW, Live, search_live
from owpc_ltr_demo.tuned_bm25 import MultiMatch, engine_scores, field_columns, tune, untuned
from owpc_ltr_demo.walk import INDEX, MODEL, SELECT, TREES_MODEL, Cluster, Walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.models.linear import LinearModel
    from owpc_ltr.protocols import Model
    from owpc_ltr.training.candidates import TrainingResult

GENERATORS = ("constant", "logarithmic", "inverse", "exponential", "top")
OWPC, FEWER, TREES = "OWPC (linear)", "OWPC, fewer features", "trees of 20 pairs"
TUNED, UNTUNED, LAMBDAMART = "BM25, tuned", "BM25, untuned", "LambdaMART"
ENGINE, CLIENT = "engine", "client"
RUNS_IN = {**dict.fromkeys((OWPC, FEWER, TREES, TUNED, UNTUNED), ENGINE), LAMBDAMART: CLIENT}
"""Where each ranker runs in a cluster without any plugin."""
_SAME = 1e-5
_SHOWN = 5
_BUDGET = 1000.0
"""Milliseconds that no machine needs: the demo shows what it costs, whatever runs beside it."""


@dataclass(frozen=True)
class Rankers:
    """What the contest is between, besides its own LambdaMART."""

    linear: Model
    fewer: Model
    trees: Model
    baseline: MultiMatch


def train_owpc(walk: Walk, sides: DatasetSplits[RankingDataset]) -> LinearModel:
    """OWPC solved by LaRank, weights and C chosen on validation queries, as a file."""
    from owpc_ltr.models.linear import LinearModel
    from owpc_ltr.models.model_file import save_model

    with walk.step("train", "train OWPC by LaRank, its weights and C chosen on validation queries"):
        grid = {"loss.generator": GENERATORS, "optimizer.C": DEFAULT_C}
        trained = fit_owpc(walk, sides.training, sides.validation, sides.source, {}, grid)
        model = trained.model
        assert isinstance(model, LinearModel)  # noqa: S101 - told to the type checker
        save_model(model, walk.options.file("-owpc.json"))
        certificate = trained.fit.certificate
        walk.narrator.line(
            f"{len(trained.table)} candidates on {sides.training.n_queries} queries; the best on "
            f"{sides.validation.n_queries} validation queries: "
            f"{trained.settings['loss.generator']} weights, C = {trained.settings['optimizer.C']:g}"
        )
        walk.narrator.line(
            f"certificate: duality gap {certificate.relative_gap:.1e} of what training gained, "
            f"{certificate.passes} passes, {certificate.nonzero_duals} non-zero duals"
        )
        for warning in (*trained.warnings, *silent_in_training(trained.silent_features)):
            walk.narrator.line(f"warning: {warning}")
        walk.figures["owpc"] = {
            "settings": dict(trained.settings),
            "validation": model.record["validation"],
            "certificate": certificate.as_dict(),
            "candidates": len(trained.table),
        }
    return model


def fit_owpc(
    walk: Walk,
    training: RankingDataset,
    validation: RankingDataset,
    source: Mapping[str, Any],
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
) -> TrainingResult:
    """OWPC solved by LaRank, the best of the grid on the validation queries."""
    from owpc_ltr.host import registry as registries
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.candidates import train_plan
    from owpc_ltr.training.plan import Plan

    registry = registries.load([])
    loss, optimizer = registry.find("loss", "owpc"), registry.find("optimizer", "larank")
    plan = Plan(loss, optimizer, settings, grid, SELECT)
    with walk.narrator.working() as show:
        run = Run(seed=walk.options.seed, threads=walk.options.threads, progress=show)
        return train_plan(training, plan, run, validation, source)


def tune_baseline(walk: Walk, cluster: Cluster, sides: DatasetSplits[RankingDataset]) -> MultiMatch:
    """The full-text query whose boosts rank the training queries best."""
    with walk.step("bm25", "tune BM25 on the training queries, for a baseline that is somebody"):
        columns = field_columns(cluster.featureset)
        with walk.narrator.working() as show:
            show("tuning BM25 on the training queries", None)
            tuning = tune(sides.training, columns, SELECT)
        baseline = tuning.best
        difference = _check_baseline(cluster, baseline, sides.test, columns)
        walk.narrator.line(
            f"the best of {tuning.tried} settings of boosts and tie_breaker, by training {SELECT}; "
            f"the engine gives it the same scores (to {difference:.0e})"
        )
        walk.figures["bm25"] = {
            **baseline.as_dict(), "training": tuning.value, "tried": tuning.tried
        }  # fmt: skip
    return baseline


def compare_rankers(
    walk: Walk, cluster: Cluster, sides: DatasetSplits[RankingDataset], rankers: Rankers
) -> None:
    """The contest on held-out queries."""
    with walk.step("compare", "compare on queries that nothing has seen"):
        with walk.narrator.working() as show:
            show("growing LambdaMART", None)
            rival = fit_lambdamart(
                sides.training,
                sides.validation,
                SELECT,
                seed=walk.options.seed,
                threads=walk.options.threads,
            )
        columns, features = field_columns(cluster.featureset), sides.test.features
        scores = {
            OWPC: rankers.linear.score(features),
            FEWER: rankers.fewer.score(features),
            TREES: rankers.trees.score(features),
            TUNED: rankers.baseline.score(features, columns),
            LAMBDAMART: rival.score(features),
            UNTUNED: untuned(columns).score(features, columns),
        }
        contest = hold_contest(scores, sides.test, walk.options.seed)
        walk.narrator.line(
            f"LambdaMART: XGBoost rank:ndcg, depth {rival.settings['max_depth']}, {rival.trees} "
            f"trees, by validation {SELECT}"
        )
        walk.narrator.table(
            [f"{contest.n_queries} HELD-OUT QUERIES", *METRICS, "RUNS IN"],
            [(*row, RUNS_IN.get(str(row[0]), "–")) for row in rows_of(contest)],
        )
        kinds = by_kind(contest, sides.test)
        for row in kinds:
            means = ", ".join(f"{name} {value:.4f}" for name, value in row[SELECT].items())
            walk.narrator.line(f"{SELECT} of the {row['queries']} {row['kind']} queries: {means}")
        _tell_verdicts(walk, contest)
        walk.figures["contest"] = {
            **contest.as_dict(),
            "runs_in": RUNS_IN,
            "by_kind": kinds,
            "lambdamart": {
                "settings": rival.settings,
                "trees": rival.trees,
                "validation": rival.validation,
            },
        }


def _tell_verdicts(walk: Walk, contest: Contest) -> None:
    """What is better than what, by the metric that chose."""
    found = {}
    for ranker in (OWPC, FEWER, TREES):
        for other in (TUNED, LAMBDAMART):
            mine, theirs = contest.measured[ranker][-1], contest.measured[other][-1]
            found[ranker, other] = one = compare(mine, theirs, walk.options.seed)
            if ranker != FEWER or other == TUNED:
                walk.narrator.line(verdict(ranker, other, METRICS[-1], one))
    for ranker, key in ((FEWER, "fewer"), (TREES, "trees")):
        walk.figures[f"contest_{key}"] = {
            other: found[ranker, other].as_dict() for other in (TUNED, LAMBDAMART)
        }


def upload_models(walk: Walk, cluster: Cluster, model: Model, trees: Model) -> dict[str, str]:
    """Each model's immutable name in the engine, after its scores were proven there."""
    with walk.step("upload", "upload both, and compare the engine's scores with the laptop's"):
        return {
            name: upload_model(walk, cluster, ranker, name, key)
            for key, ranker, name in (
                ("upload", model, MODEL),
                ("upload_trees", trees, TREES_MODEL),
            )
        }


def upload_model(walk: Walk, cluster: Cluster, ranker: Model, name: str, key: str) -> str:
    """The immutable name of one model, after its scores were proven; figures go to `key`."""
    from owpc_ltr.engine.deployment.serving_mode import Budget
    from owpc_ltr.engine.deployment.upload import upload

    uploaded = upload(
        cluster.engine, cluster.store, ranker, cluster.featureset, INDEX, name,
        budget=Budget(_BUDGET),
    )  # fmt: skip
    parity, form = uploaded.parity, uploaded.form
    walk.narrator.line(
        f"'{name}' now points to {uploaded.model}; {parity.documents} documents of "
        f"{parity.queries} queries: {parity.in_words()}"
    )
    walk.figures[key] = {"model": uploaded.model, "parity": parity.as_dict()}
    if form is not None and form.words:
        walk.narrator.line(form.words)
        walk.figures[key]["form"] = form.as_dict()
    return uploaded.model


def search_held_out(
    walk: Walk,
    cluster: Cluster,
    sides: DatasetSplits[RankingDataset],
    found: Sequence[Pool],
    names: Mapping[str, str],
    baseline: MultiMatch,
) -> None:
    """Every held-out query on the whole corpus, without and with each model; three are shown."""
    with walk.step("search", "search the whole corpus live, without and with the models"):
        held_out = set(sides.test.query_ids.to_pylist())
        asked = [pool.query for pool in found if pool.query.query_id in held_out]
        write_query(walk, "-bm25.json", baseline.query())
        found_by = {}
        for name, what in ((MODEL, "the model"), (TREES_MODEL, "the ranker of trees")):
            with walk.narrator.working() as show:
                live = search_live(
                    cluster.engine,
                    cluster.store,
                    INDEX,
                    cluster.store.get_model(names[name]),
                    baseline.query(),
                    asked,
                    show,
                )
            _tell(walk, live, what)
            found_by[name] = live
        for why, number in found_by[MODEL].examples().items():
            _show(walk, found_by[MODEL], why, number)
        walk.figures["live"] = found_by[MODEL].as_dict()
        walk.figures["live_trees"] = found_by[TREES_MODEL].as_dict()


def write_query(walk: Walk, ending: str, query: Mapping[str, Any]) -> Path:
    """A query with {{keywords}} as a file of the demo."""
    path = walk.options.file(ending)
    write_output(path, (json.dumps(query, indent=2) + "\n").encode())
    return path


def _tell(walk: Walk, live: Live, what: str) -> None:
    comparison, (before, after) = live.comparison, live.milliseconds
    walk.narrator.line(
        f"{METRIC} over all documents: {comparison.mean_b:.4f} by tuned BM25, "
        f"{comparison.mean_a:.4f} with its best {WINDOW} reranked by {what}"
    )
    walk.narrator.line(verdict(what, "tuned BM25 alone", METRIC, comparison))
    walk.narrator.line(
        f"median time in the engine: {before:g} ms without, {after:g} ms with {what}"
    )


def _check_baseline(
    cluster: Cluster, baseline: MultiMatch, data: RankingDataset, columns: Mapping[str, int]
) -> float:
    """The largest relative difference to the engine's own scores of the tuned query."""
    if data.document_ids is None or data.query_params is None:
        raise Refused("the dataset was not logged from an engine: run the demo from its start")
    largest = 0.0
    for number in range(min(5, data.n_queries)):
        rows = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        text = json.loads(data.query_params[number].as_py())["keywords"]
        remote = engine_scores(
            cluster.engine, INDEX, baseline.query(text), data.document_ids[rows].to_pylist()
        )
        local = baseline.score(data.features[rows], columns)
        largest = max(largest, float((abs(remote - local) / np.maximum(1.0, abs(local))).max()))
    if largest > _SAME:
        raise Refused(
            f"the tuned full-text query scores differently in the engine (by {largest:.1g}): the "
            "baseline would be another one than was tuned"
        )
    return largest


def _show(walk: Walk, live: Live, why: str, number: int) -> None:
    query = live.queries[number]
    old, new = (answers[number].document_ids for answers in (live.found.before, live.found.after))
    walk.narrator.line()
    walk.narrator.line(
        f"{why}: “{query.text}” (wanted, marked *: {_wanted(query)}; {METRIC} "
        f"{live.before[number]:.2f} → {live.after[number]:.2f})"
    )
    ranks = {document: rank for rank, document in enumerate(old, 1)}
    rows: list[Sequence[Any]] = [
        (rank, _marked(one, query), _move(rank, ranks.get(other)), _marked(other, query))
        for rank, (one, other) in enumerate(zip(old, new, strict=False), 1)
    ]
    walk.narrator.table(["#", "TUNED BM25", "MOVE", "WITH THE MODEL"], rows[:_SHOWN])


def _wanted(query: DemoQuery) -> str:
    best = max(query.relevant, key=lambda name: query.relevant[name])
    others = len(query.relevant) - 1
    return f"{best} and its {others} members" if others else best


def _marked(document: str, query: DemoQuery) -> str:
    return f"* {document}" if document in query.relevant else f"  {document}"


def _move(rank: int, other_rank: int | None) -> str:
    if other_rank is None:
        return "new"
    steps = other_rank - rank
    return "=" if steps == 0 else f"▲{steps}" if steps > 0 else f"▼{-steps}"
