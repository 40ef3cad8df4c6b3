"""A weight is what it says: copies of a document, a query repeated, in losses and in means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from owpc_ltr_losses.listnet import ListNet
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_optimizers.bundle import Bundle
from owpc_ltr_optimizers.larank.larank import LaRank

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.evaluation.judgment_checks import UNUSED, unused_weights
from owpc_ltr.host.registry import installed
from owpc_ltr.kernels.kernel import bind
from owpc_ltr.kernels.linear import linear_risk
from owpc_ltr.metrics.training_metrics import Judge
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Loss, Optimizer, Run
from owpc_ltr.training.fit import mean_of

QUERIES, DOCUMENTS = 8, 6
TIMES = np.array([0, 1, 2, 3, 1, 4, 2, 1])
COPIES = np.random.default_rng(3).integers(0, 4, QUERIES * DOCUMENTS)
LOSSES: list[Loss] = [plugin.cls() for plugin in installed().all("loss")]
COPYING = [loss for loss in LOSSES if getattr(loss, "weights_are_copies", False)]


def plain() -> RankingDataset:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 3, QUERIES * DOCUMENTS)
    features = rng.normal(size=(len(labels), 3)) + labels[:, None] * [0.6, 0.2, 0.0]
    return make_dataset(features, labels, np.repeat(np.arange(QUERIES), DOCUMENTS))


def of_rows(rows: NDArray[np.int64], ids: Any) -> RankingDataset:
    data = plain()
    return make_dataset(data.features[rows], data.labels[rows], ids)


def repeated() -> RankingDataset:
    """Each query as often as it is asked, as queries of their own."""
    pairs = [(query, turn) for query in range(QUERIES) for turn in range(TIMES[query])]
    rows = np.concatenate([np.arange(DOCUMENTS) + DOCUMENTS * query for query, _ in pairs])
    return of_rows(rows, np.repeat([f"{query}-{turn}" for query, turn in pairs], DOCUMENTS))


def copied() -> RankingDataset:
    """Each document as often as its weight says."""
    rows = np.repeat(np.arange(len(COPIES)), COPIES)
    return of_rows(rows, [str(row // DOCUMENTS) for row in rows])


def asked_often() -> RankingDataset:
    return replace(plain(), query_weights=TIMES.astype(np.float64))


def sure() -> RankingDataset:
    return replace(plain(), document_weights=COPIES.astype(np.float32))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_query_of_weight_k_is_priced_as_k_queries(loss: Loss) -> None:
    w = np.array([0.7, -0.2, 0.4])
    one, slope = linear_risk(asked_often(), bind(loss), w)
    many, slopes = linear_risk(repeated(), bind(loss), w)
    assert one == pytest.approx(many, rel=1e-12)
    assert slope == pytest.approx(slopes, rel=1e-9, abs=1e-12)


def test_most_losses_count_a_document_of_weight_k_as_k_copies() -> None:
    assert {loss.name for loss in LOSSES} - {loss.name for loss in COPYING} == {"lambdarank"}


@pytest.mark.parametrize("loss", COPYING, ids=lambda loss: loss.name)
def test_a_document_of_weight_k_is_priced_as_k_copies(loss: Loss) -> None:
    w = np.array([0.7, -0.2, 0.4])
    one, slope = linear_risk(sure(), bind(loss), w)
    many, slopes = linear_risk(copied(), bind(loss), w)
    assert one == pytest.approx(many, rel=1e-9)
    assert slope == pytest.approx(slopes, rel=1e-7, abs=1e-9)
    assert one != pytest.approx(linear_risk(plain(), bind(loss), w)[0], rel=1e-3)


@pytest.mark.parametrize("method", [LaRank, Bundle], ids=lambda method: method.name)
@pytest.mark.parametrize("loss", [OWPC(), Pairwise(), ListNet()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("weighed", "as_many"), [(asked_often, repeated), (sure, copied)], ids=["queries", "documents"]
)
def test_training_with_weights_ends_where_training_on_copies_does(
    method: Any, loss: Loss, weighed: Any, as_many: Any
) -> None:
    optimizer: Optimizer = method(C=0.5, tolerance=1e-6)
    found = [optimizer.minimise(loss, data(), Run()) for data in (weighed, as_many, plain)]
    one, many, other = (fit.certificate for fit in found)
    # Both optima lie between objective − gap and objective, and are one.
    assert one.objective - one.gap <= many.objective * (1 + 1e-9)
    assert many.objective - many.gap <= one.objective * (1 + 1e-9)
    assert max(one.gap, many.gap) < 0.05 * abs(one.objective - other.objective)


def test_a_mean_over_weighted_queries_is_that_of_repeated_ones() -> None:
    model = LinearModel(("1", "2", "3"), np.array([0.3, 0.9, -0.5]))
    for metric in (NDCG(cutoff=3), NDCG(cutoff=3, empty="skip")):
        often = mean_of(metric, model, asked_often())
        assert often == pytest.approx(mean_of(metric, model, repeated()), rel=1e-12)
        assert abs(often - mean_of(metric, model, plain())) > 1e-4
        judged = [
            Judge[int](Run(validation=data, metric=metric)).see(1, model.score)["validation"]
            for data in (asked_often(), repeated())
        ]
        assert judged[0] == pytest.approx(judged[1], rel=1e-12)


def test_importance_that_is_all_alike_changes_no_bit_of_a_mean() -> None:
    model = LinearModel(("1", "2", "3"), np.array([0.3, 0.9, -0.5]))
    alike = replace(plain(), query_weights=np.full(QUERIES, 0.3))
    assert mean_of(NDCG(cutoff=3), model, alike) == mean_of(NDCG(cutoff=3), model, plain())


def test_folders_of_parts_have_the_weighted_means_of_memory(tmp_path: Path) -> None:
    model = LinearModel(("1", "2", "3"), np.array([0.3, 0.9, -0.5]))
    parts = ltr.partition(asked_often(), out=tmp_path / "parts", buckets=3)
    for metric in (NDCG(cutoff=3), NDCG(cutoff=3, empty="skip")):
        assert mean_of(metric, model, parts) == pytest.approx(
            mean_of(metric, model, asked_often()), rel=1e-12
        )
        judge = Judge[int](Run(validation_parts=parts, metric=metric))
        assert judge.validation is not None
        order = [int(query) for query in parts.query_ids.to_pylist()]
        assert judge.validation.query_importance.tolist() == TIMES[order].tolist()


def test_the_settings_are_chosen_by_the_queries_that_are_asked_often() -> None:
    """Two queries that want opposite models: whichever is asked more has its way."""
    features = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]
    validation = make_dataset(features, [0, 1, 1, 0], ["a", "a", "b", "b"])
    model = LinearModel(("1", "2"), np.array([1.0, 0.0]))
    for often, expected in ((9.0, 0.9), (1 / 9, 0.1)):
        data = replace(validation, query_weights=np.array([often, 1.0]))
        found = mean_of(NDCG(cutoff=1), model, data)
        assert found == pytest.approx(expected)


def test_who_measures_is_told_that_documents_are_not_weighed(tmp_path: Path) -> None:
    model = LinearModel(("1", "2", "3"), np.array([0.3, 0.9, -0.5]))
    ones = replace(plain(), document_weights=np.ones(len(COPIES), np.float32))
    for data, notes in ((sure(), [UNUSED]), (ones, []), (plain(), []), (asked_often(), [])):
        assert unused_weights(data) == notes
        parts = ltr.partition(data, out=tmp_path / str(id(data)), buckets=2)
        assert unused_weights(parts) == notes
        for given in (data, parts):
            found = ltr.evaluate(model, given, metrics=["ndcg@3"], split="all")
            assert [one for one in found.warnings if "weigh" in one] == notes
    with pytest.warns(ltr.OwpcLtrWarning, match="validation: metrics do not weigh documents"):
        ltr.train(plain(), validation=sure(), grid={"C": [0.1, 1.0]})


def test_select_says_so_once() -> None:
    with pytest.warns(ltr.OwpcLtrWarning) as told:
        ltr.select(sure(), folds=3, grid={"C": [0.1]}, metrics=["ndcg@3"])
    assert [str(one.message) for one in told] == [UNUSED]
