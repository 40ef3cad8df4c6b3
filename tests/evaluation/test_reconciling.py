"""Other libraries' NDCG and MAP: each convention against the library's own output."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import owpc_ltr as ltr
from owpc_ltr import RankingDataset, make_dataset, save_dataset
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.library_conventions import (
    LIBRARIES,
    Convention,
    Library,
    ranked_documents,
    reconcile,
    values_by,
)
from owpc_ltr.metrics import parse_metric
from tests.commands import Run

Array = NDArray[Any]
QUERIES = 25
CLOSE = 1e-9


@dataclass(frozen=True)
class Case:
    """Rankings of many queries: short and long lists, ties, grades, and queries of nothing."""

    scores: Array
    data: RankingDataset

    @property
    def slices(self) -> list[slice]:
        bounds = self.data.offsets.tolist()
        return [slice(a, b) for a, b in itertools.pairwise(bounds)]

    @property
    def binary(self) -> Array:
        return (self.data.labels > 0).astype(np.float32)

    def theirs(self, library: str, call: str, metric: str) -> float:
        figures = reconcile(self.scores, self.data, parse_metric(metric)).elsewhere
        (value,) = [
            figure.value for figure in figures if figure.library == library and call in figure.call
        ]
        return value


def case(seed: int, longest: int = 60) -> Case:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, QUERIES)
    rows = int(lengths.sum())
    labels = rng.integers(0, 5, rows) * (rng.random(rows) < rng.choice([0.05, 0.4]))
    scores = rng.normal(size=rows)
    if seed % 2:
        scores = np.round(scores, 1)
    if seed % 5 == 4:
        # Apart in double precision only.
        scores += 1e-9 * rng.normal(size=rows)
    data = make_dataset(
        np.zeros((rows, 1), np.float32),
        labels.astype(np.float32),
        np.repeat([f"q{i:03d}" for i in range(QUERIES)], lengths),
        doc_ids=pa.array([f"d{i}" for i in rng.permutation(rows)]),
    )
    return Case(scores, data)


CASES = [case(seed) for seed in range(40)]
"""A thousand rankings."""
SOME = CASES[:15]


def xgboost_says(scored: Case, metric: str, labels: Array) -> float:
    import xgboost as xgb

    sizes = np.diff(scored.data.offsets)
    matrix = xgb.DMatrix(
        np.zeros((len(labels), 1)), label=labels, qid=np.repeat(np.arange(len(sizes)), sizes)
    )
    matrix.set_base_margin(scored.scores.astype(np.float32))
    settings = {
        "objective": "rank:ndcg" if metric.startswith("ndcg") else "rank:pairwise",
        "eval_metric": metric,
        "base_score": 0.0,
        "disable_default_eval_metric": 1,
        "nthread": 1,
    }
    return float(xgb.train(settings, matrix, num_boost_round=0).eval(matrix).rpartition(":")[2])


@pytest.mark.parametrize("name", ["ndcg@5", "ndcg", "map@5", "map"])
def test_xgboost_prints_what_is_said(name: str) -> None:
    for each in SOME:
        # Its MAP is for grades of 0 and 1.
        labels = each.data.labels if "ndcg" in name else each.binary
        assert each.theirs("XGBoost", name, name) == pytest.approx(
            xgboost_says(each, name, labels), abs=CLOSE
        )


@pytest.mark.parametrize("name", ["ndcg@5", "map@5", "ndcg@30"])
def test_lightgbm_prints_what_is_said(name: str) -> None:
    lgb = pytest.importorskip("lightgbm")
    metric, _, cutoff = name.partition("@")
    for each in SOME:
        settings = {
            "objective": "lambdarank",
            "metric": metric,
            "eval_at": [int(cutoff)],
            "verbose": -1,
            "num_threads": 1,
        }
        data = lgb.Dataset(
            np.zeros((len(each.scores), 1)),
            label=each.data.labels,
            group=np.diff(each.data.offsets),
            init_score=each.scores,
            params={"verbose": -1, "feature_pre_filter": False},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            printed = lgb.Booster(settings, data).eval_train()[0][2]
        assert each.theirs("LightGBM", metric, name) == pytest.approx(printed, abs=CLOSE)


def as_trec(scored: Case) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    assert scored.data.doc_ids is not None
    ids = scored.data.doc_ids.to_pylist()
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for name, rows in zip(scored.data.query_ids.to_pylist(), scored.slices, strict=True):
        numbers = range(rows.start, rows.stop)
        qrels[name] = {ids[i]: int(scored.data.labels[i]) for i in numbers}
        run[name] = {ids[i]: float(scored.scores[i]) for i in numbers}
    return qrels, run


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("ndcg@5", "ndcg_cut_5"), ("ndcg", "ndcg"), ("map", "map"), ("map@5", "map_cut_5")],
)
def test_trec_eval_prints_what_is_said(name: str, theirs: str) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    for each in SOME:
        qrels, run = as_trec(each)
        measure = theirs.replace("_cut_", "_cut.")
        per_query = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
        printed = np.mean([values[theirs] for values in per_query.values()])
        assert each.theirs("trec_eval", measure, name) == pytest.approx(printed, abs=CLOSE)


OTHERS: dict[str, tuple[Any, ...]] = {
    "gain": ("exponential", "linear"),
    "discount": ("log2", "letor"),
    "per_cutoff": (False, True),
    "ties": ("expected", "file-order", "last-id-first"),
    "empty": ("zero", "one", "skip"),
    "single": (False, True),
}


@pytest.mark.parametrize("convention", LIBRARIES)
def test_a_convention_that_is_wrong_in_any_field_gives_another_figure(convention: Library) -> None:
    """On these cases: nothing that is checked against a library is left in doubt by them."""
    name = convention.metric
    metric = parse_metric(f"{name}@5")
    given = [ranked_documents(each.scores, each.data) for each in CASES]

    def figures(what: Convention) -> Iterator[float]:
        return (float(np.nanmean(values_by(what, metric, ranking))) for ranking in given)

    right = list(figures(convention))
    for field, values in OTHERS.items():
        if name == "map" and field in {"gain", "discount"}:
            continue
        if name == "ndcg" and field == "per_cutoff":
            continue
        for value in values:
            if value != getattr(convention, field):
                # The first case that tells them apart will do.
                pairs = zip(right, figures(replace(convention, **{field: value})), strict=False)
                assert any(abs(right_figure - other) > CLOSE for right_figure, other in pairs), (
                    field,
                    value,
                )


@pytest.mark.parametrize("name", ["ndcg@10", "ndcg", "map", "map@3", "ndcg@5,empty=skip"])
def test_the_steps_lead_from_our_figure_to_theirs(name: str) -> None:
    scored, metric = CASES[3], parse_metric(name)
    reconciliation = reconcile(scored.scores, scored.data, metric)
    assert reconciliation.value == metric.mean(
        scored.scores, scored.data.labels, scored.data.offsets
    )
    assert len(reconciliation.elsewhere) >= 2
    for other in reconciliation.elsewhere:
        assert reconciliation.value + sum(step.change for step in other.steps) == pytest.approx(
            other.value, abs=1e-12
        )
        assert len({step.what for step in other.steps}) == len(other.steps)


def test_importance_of_queries_is_a_step_of_its_own() -> None:
    scored = CASES[3]
    weights = np.linspace(1, 3, QUERIES)
    metric = parse_metric("ndcg@10")
    reconciliation = reconcile(scored.scores, replace(scored.data, query_weights=weights), metric)
    values = metric.per_query(scored.scores, scored.data.labels, scored.data.offsets)
    assert reconciliation.value == pytest.approx(np.average(values, weights=weights), abs=1e-12)
    plain = reconcile(scored.scores, scored.data, metric)
    for other, without in zip(reconciliation.elsewhere, plain.elsewhere, strict=True):
        assert other.value == pytest.approx(without.value, abs=1e-12)
        assert "queries count alike" in {step.what for step in other.steps}


def test_what_makes_figures_differ_is_counted() -> None:
    data = make_dataset(
        np.zeros((6, 1), np.float32), [1, 0, 0, 0, 2, 0], ["a", "a", "b", "b", "c", "d"]
    )
    reconciliation = reconcile(np.array([1.0, 1, 2, 1, 0, 0]), data, parse_metric("ndcg@10"))
    assert (reconciliation.n_queries, reconciliation.empty, reconciliation.tied) == (4, 2, 1)


def test_other_metrics_are_refused() -> None:
    scored = CASES[0]
    with pytest.raises(UsageError, match="map and ndcg, not for 'mrr'"):
        reconcile(scored.scores, scored.data, parse_metric("mrr"))


def test_the_command_line_explains_and_lists(run: Run, tmp_path: Path) -> None:
    scored = CASES[1]
    data = replace(
        scored.data, features=scored.scores[:, None].astype(np.float32), feature_names=("s",)
    )
    save_dataset(data, tmp_path / "data.parquet")

    path = str(tmp_path / "data.parquet")
    out = run.output(
        "plugins", "metrics", "--explain", "feature:s", "--data", path, "--metric", "ndcg@5"
    )
    reconciliation = ltr.explain_metric("feature:s", data, "ndcg@5")
    assert "XGBoost" in str(reconciliation)
    assert f"{reconciliation.elsewhere[0].value:.4f}" in reconciliation._repr_html_()
    value = reconciliation.value
    assert f"{value:.4f}" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    for library in {library.name for library in LIBRARIES}:
        assert library in out
    assert "pairwise-error" in run.output("plugins", "metrics")
    assert "--explain" in run.refusal(2, "plugins", "metrics", "--data", path)
