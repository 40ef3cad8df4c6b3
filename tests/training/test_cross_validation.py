"""Selection over folds: honest, repeatable, resumable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.errors import BadInput
from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from owpc_ltr.training.cross_validation import (
    FitRow,
    choose,
    cross_validate,
    cut_folds,
    families_of,
)
from owpc_ltr.training.fitting import train_plan
from owpc_ltr.training.plan import model_plan

REGISTRY = load()
PLAN = model_plan(
    REGISTRY.find("loss", "owpc"),
    REGISTRY.find("optimizer", "larank"),
    grid={"optimizer.C": ("0.01", "1"), "loss.generator": ("constant", "inverse")},
)
MAP = parse_metric("map")
METRICS = [MAP, parse_metric("ndcg@10")]


def dataset() -> RankingDataset:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 3)).astype(np.float32)
    labels = (X[:, 0] + generator.normal(size=400) > 1).astype(np.float32)
    return make_dataset(X, labels, np.repeat(np.arange(40), 10))


def test_folds_share_no_query_and_test_every_query_once() -> None:
    folds = cut_folds(dataset(), 5)
    tested = [query for fold in folds for query in fold.test.query_ids.to_pylist()]
    assert sorted(tested) == sorted(dataset().query_ids.to_pylist())
    for fold in folds:
        parts = [fold.training, fold.validation, fold.test]
        ids = [set(part.query_ids.to_pylist()) for part in parts]
        assert not (ids[0] & ids[1])
        assert not (ids[0] & ids[2])
        assert not (ids[1] & ids[2])
        assert sum(map(len, ids)) == 40


def test_jobs_change_nothing() -> None:
    folds = cut_folds(dataset(), 3)
    rows = cross_validate(folds, [PLAN], METRICS, Run())
    assert rows == cross_validate(folds, [PLAN], METRICS, Run(), jobs=2)
    assert len(rows) == 3 * 4


def test_an_interrupted_selection_goes_on_from_its_journal(tmp_path: Path) -> None:
    folds, journal = cut_folds(dataset(), 3), tmp_path / "journal"
    whole = cross_validate(folds, [PLAN], METRICS, Run())

    class StoppedError(Exception):
        pass

    def stop(message: str, _done: float | None) -> None:
        if message.startswith("3 "):
            raise StoppedError

    with pytest.raises(StoppedError):
        cross_validate(folds, [PLAN], METRICS, Run(progress=stop), journal=journal)
    with journal.open("a") as file:
        file.write('{"key": "cut')
    said: list[str] = []
    again = Run(progress=lambda message, _done: said.append(message))
    assert cross_validate(folds, [PLAN], METRICS, again, journal=journal) == whole
    assert len(said) == 3
    assert cross_validate(folds, [PLAN], METRICS, again, journal=journal) == whole
    assert len(said) == 3
    cross_validate(folds, [PLAN], METRICS, replace(again, seed=1), journal=journal)
    assert len(said) == 9


def test_each_fold_is_chosen_for_as_train_chooses() -> None:
    folds = cut_folds(dataset(), 3)
    rows = cross_validate(folds, [PLAN], METRICS, Run())
    *_, everything = choose(rows, MAP, families_of(rows))
    for fold in folds:
        trained = train_plan(fold.training, PLAN, Run(), fold.validation)
        assert everything.chosen[fold.name] == {"loss": "owpc", **trained.settings}


def test_test_figures_do_not_choose() -> None:
    rows = [
        FitRow("a", "x", "y", {"optimizer.C": 1}, 0.5, {"map": 0.9}),
        FitRow("a", "x", "y", {"optimizer.C": 2}, 0.6, {"map": 0.1}),
    ]
    (choice,) = choose(rows, MAP, families_of(rows))
    assert choice.test == {"map": 0.1}
    (error,) = choose(rows, parse_metric("pairwise-error"), families_of(rows))
    assert error.test == {"map": 0.9}


def test_too_few_folds_are_refused() -> None:
    with pytest.raises(BadInput, match="none to train on"):
        cut_folds(dataset(), 2)
