"""`evaluate` with queries that count more or less: as of repeated ones, in memory and in parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.commands import commands_in

METRICS = ["ndcg@3", "map,empty=skip"]


def data(weights: Vector | None) -> RankingDataset:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 200)
    labels[:5] = 0  # a query without anything relevant
    ids = np.repeat([f"q{n}" for n in range(40)], 5)
    return make_dataset(rng.normal(size=(200, 2)) + labels[:, None] / 2, labels, ids,
                        query_weights=weights)  # fmt: skip


WEIGHTS = np.random.default_rng(6).integers(0, 5, 40).astype(np.float64)
MODEL = LinearModel(("1", "2"), np.array([1.0, 0.3]))
OTHER = LinearModel(("1", "2"), np.array([0.1, 1.0]))


def test_means_are_those_of_the_queries_repeated() -> None:
    plain = data(None)
    times = WEIGHTS.astype(int)
    parts = [plain.select(np.flatnonzero(times > round_)) for round_ in range(times.max())]
    found = ltr.evaluate(MODEL, data(WEIGHTS), metrics=METRICS, split="all")
    assert found.weighted
    values = [ltr.evaluate(MODEL, part, metrics=METRICS, split="all").measured for part in parts]
    for number, one in enumerate(found.measured):
        repeated = np.concatenate([of_part[number].per_query for of_part in values])
        assert one.mean == pytest.approx(np.nanmean(repeated))
    zero = LinearModel(("1", "2"), np.zeros(2))
    floor = ltr.evaluate(zero, data(WEIGHTS), metrics=METRICS, split="all").measured
    assert [one.all_tied_baseline for one in found.measured] == [one.mean for one in floor]
    unweighted = ltr.evaluate(MODEL, plain, metrics=METRICS, split="all").measured
    assert abs(found.measured[0].mean - unweighted[0].mean) > 1e-3


def test_importance_that_is_all_1_changes_no_bit() -> None:
    found = [
        ltr.evaluate(MODEL, data(weights), metrics=METRICS, baseline=OTHER, split="all")
        for weights in (None, np.ones(40), np.full(40, 0.3))
    ]
    assert found[0].table == found[1].table == found[2].table
    assert found[0].comparison == found[1].comparison == found[2].comparison
    assert not found[1].weighted


def test_who_wants_no_weights_gets_the_figures_without() -> None:
    found = ltr.evaluate(
        MODEL, data(WEIGHTS), metrics=METRICS, baseline=OTHER, split="all", unweighted=True
    )
    plain = ltr.evaluate(MODEL, data(None), metrics=METRICS, baseline=OTHER, split="all")
    assert (found.table, found.comparison) == (plain.table, plain.comparison)
    assert (found.weighted, "weighted" in repr(found)) == (False, False)


def test_the_comparison_is_weighted_too() -> None:
    found = ltr.evaluate(MODEL, data(WEIGHTS), metrics=METRICS, baseline=OTHER, split="all")
    for mine, theirs, row in zip(
        found.measured, found.baseline_measured, found.comparison, strict=True
    ):
        assert row["mean_difference"] == pytest.approx(mine.mean - theirs.mean)
        assert row["mean_a"] == pytest.approx(mine.mean)
    assert "weighted by the importance of queries" in repr(found)
    assert "weighted by the importance of queries" in found._repr_html_()


def test_parts_have_the_figures_of_memory(tmp_path: Path) -> None:
    whole = data(WEIGHTS)
    parts = ltr.partition(whole, out=tmp_path / "parts", buckets=4)
    order = [whole.query_ids.to_pylist().index(one) for one in parts.query_ids.to_pylist()]
    wanted = ltr.evaluate(MODEL, whole.select(np.array(order)), metrics=METRICS, baseline=OTHER,
                          split="all")  # fmt: skip
    found = ltr.evaluate(MODEL, parts, metrics=METRICS, baseline=OTHER, split="all")
    assert found.weighted
    assert (found.table, found.comparison) == (wanted.table, wanted.comparison)


def test_the_command_says_that_means_are_weighted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    for name, weights in (("weighted", WEIGHTS), ("plain", None)):
        ltr.save_dataset(data(weights), f"{name}.parquet")
    save_model(replace(MODEL, record={}), Path("m.json"))
    words = ["evaluate", "m.json", "weighted.parquet", "--split", "all"]
    assert "weighted by the importance of queries" in " ".join(run(*words)[1].split())
    assert json.loads(run(*words, "--json")[1])["weighted"] is True
    unweighted = run(*words, "--unweighted")[1]
    plain = run("evaluate", "m.json", "plain.parquet", "--split", "all")[1]
    assert unweighted == plain.replace("plain", "weighted")
