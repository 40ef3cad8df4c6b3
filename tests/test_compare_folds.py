"""`compare` over folds: one model a fold, all test queries pooled, one test over them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.training.cross_validation import cut_folds
from tests.compared import judged, linear

DATA = judged()
FOLDS = cut_folds(DATA, 4)
TESTS = [fold.test for fold in FOLDS]
SHARP, DULL = linear(1.0, 0.1), linear(0.1, 1.0)
QUICK: dict[str, Any] = {"resamples": 200, "metrics": ("ndcg@5", "map")}


def trained(**how: Any) -> list[Any]:
    return [
        ltr.train(fold.training, validation=fold.validation, settings={"C": 1.0}, **how)
        for fold in FOLDS
    ]


def test_one_ranker_in_every_fold_is_that_ranker_on_all_queries() -> None:
    over = ltr.compare({"a": SHARP, "b": [DULL] * 4, "c": "feature:bm25"}, data=TESTS, **QUICK)
    order = [DATA.query_ids.to_pylist().index(one) for one in over.query_ids.to_pylist()]
    assert sorted(order) == list(range(DATA.n_queries))
    whole = DATA.select(np.array(order))
    alone = ltr.compare({"a": SHARP, "b": DULL, "c": "feature:bm25"}, data=whole, **QUICK)
    assert over.pairs == alone.pairs
    assert [one.means for one in over.rankers] == [one.means for one in alone.rankers]
    assert over.query_texts.equals(alone.query_texts)  # type: ignore[union-attr]


def test_each_query_is_measured_by_the_model_of_its_fold() -> None:
    models = trained()
    found = ltr.compare({"owpc": models, "raw": "feature:likes"}, data=TESTS, **QUICK)
    assert (found.split, found.n_queries) == ("test", DATA.n_queries)
    assert (
        found.notes[0]
        == "the test queries of 4 folds (10, 10, 10, 10) are pooled: one test over all"
    )
    parts = [
        ltr.evaluate(model, test, metrics="map") for model, test in zip(models, TESTS, strict=True)
    ]
    wanted = np.concatenate([part.measured[0].per_query for part in parts])
    assert found.ranker("owpc").measured[1].per_query.tolist() == wanted.tolist()


def test_importance_of_queries_counts_over_all_folds() -> None:
    heavy = [replace(TESTS[0], query_weights=np.full(10, 5.0)), *TESTS[1:]]
    found = ltr.compare({"a": SHARP, "b": DULL}, data=heavy, **QUICK)
    values = found.ranker("a").measured[0].per_query
    weights = [5.0] * 10 + [1.0] * 30
    assert found.ranker("a").means["ndcg@5"].mean == pytest.approx(
        np.average(values, weights=weights)
    )
    plain = ltr.compare({"a": SHARP, "b": DULL}, data=heavy, unweighted=True, **QUICK)
    assert plain.ranker("a").means["ndcg@5"].mean == pytest.approx(values.mean())


def test_a_model_of_another_fold_and_a_query_in_two_folds_are_refused() -> None:
    models = trained()
    wrong = [models[1], models[0], *models[2:]]
    with pytest.raises(Refused, match=r"fold 1: .*seen test queries of its own fold"):
        ltr.compare({"owpc": wrong, "raw": "feature:likes"}, data=TESTS, **QUICK)
    everything = ltr.compare(
        {"owpc": wrong, "raw": "feature:likes"}, data=TESTS, split="all", **QUICK
    )
    assert everything.split == "all"
    assert {str(pair.verdict.outcome) for pair in everything.pairs} == {"cannot tell"}
    with pytest.raises(Refused, match=r"the id of query 'q.*' of fold 2 is in fold 1 too"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[TESTS[0], TESTS[0]], **QUICK)
    renamed = replace(TESTS[0], query_ids=pa.array([f"other {n}" for n in range(10)]))
    with pytest.raises(Refused, match="the text of query 'other 0' of fold 3 is in fold 1 too"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[*TESTS[:2], renamed], **QUICK)


def test_what_is_not_one_model_a_fold_is_refused() -> None:
    with pytest.raises(UsageError, match="'b' has 3 models for 4 folds: give one for each"):
        ltr.compare({"a": SHARP, "b": [DULL] * 3}, data=TESTS, **QUICK)
    with pytest.raises(UsageError, match="'b' is a list of models"):
        ltr.compare({"a": SHARP, "b": [DULL] * 4}, data=DATA, **QUICK)
    with pytest.raises(UsageError, match="there is no split 'train'"):
        ltr.compare({"a": SHARP, "b": DULL}, data=TESTS, split="train", **QUICK)
    with pytest.raises(UsageError, match="leave out proxy labels"):
        ltr.compare({"a": SHARP, "b": DULL}, data=TESTS, proxy_labels=DATA, **QUICK)
    with pytest.raises(UsageError, match="no folds"):
        ltr.compare({"a": SHARP, "b": DULL}, data=[], **QUICK)


@pytest.mark.filterwarnings("ignore:no value, or one and the same")
def test_the_five_folds_of_ohsumed_make_one_comparison(shared_data: Path) -> None:
    files = [shared_data / "letor3-ohsumed" / f"S{number}.txt.xz" for number in range(1, 6)] * 2
    how: dict[str, Any] = {"optimizer": "larank", "settings": {"C": 1.0}}
    models = [
        ltr.train(
            ltr.read_dataset(files[fold : fold + 3]),
            validation=ltr.read_dataset(files[fold + 3]),
            **how,
        )
        for fold in range(5)
    ]
    tests = [ltr.read_dataset(files[fold + 4]) for fold in range(5)]
    found = ltr.compare(
        {"owpc": models, "tf": "feature:1"}, data=tests, metrics="map", resamples=1000
    )
    assert (found.n_queries, found.split) == (106, "test")
    assert found.ranker("owpc").means["map"].mean == pytest.approx(0.445, abs=0.005)
    assert found.pairs[0].better == "owpc"
