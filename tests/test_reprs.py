"""What a notebook shows of a public object: at most 15 lines and about 1,000 characters."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
import owpc_ltr.types
from owpc_ltr.engine.search.search import BeforeAndAfter, Hit
from owpc_ltr.text import REPR_CHARACTERS, REPR_LINES
from owpc_ltr.types import (
    Certificate,
    ClickFit,
    Feature,
    FeatureSet,
    Fit,
)
from tests.datasets import arrays

DATA = ltr.make_dataset(*arrays())
HITS = tuple(Hit(f"d{n}", f"title {n}" * 9, 1.0 / (n + 1), n) for n in range(100))
MANY = np.arange(900.0)


@functools.cache
def linear() -> Any:
    return ltr.train(DATA, settings={"C": 1.0})


@functools.cache
def trees() -> Any:
    return ltr.train(DATA, loss="lambdarank", optimizer="boosting", settings={"trees": 20})


def wide() -> Any:
    rng = np.random.default_rng(1)
    data = ltr.make_dataset(
        rng.normal(size=(400, 130)), rng.integers(0, 3, 400), np.arange(400) // 10
    )
    return ltr.train(data, settings={"C": 1.0}, piecewise_linear=True)


def feature_set() -> FeatureSet:
    features = (
        Feature(f"feature {n}", ("keywords",), {"match": {"text": "{{keywords}}"}})
        for n in range(90)
    )
    return FeatureSet("many", tuple(features))


OBJECTS: dict[str, Callable[[], Any]] = {
    "dataset": lambda: DATA,
    "splits": DATA.split,
    "linear model": linear,
    "trees": trees,
    "piecewise-linear model": wide,
    "average": lambda: ltr.average([linear(), trees()]),
    "reranker": lambda: ltr.train_reranker(
        DATA.split().training, base="feature:1", validation=DATA.split().validation,
        settings={"penalty": 1.0},
    ),
    "plugins": ltr.plugins,
    "one plugin": lambda: ltr.plugins("owpc"),
    "selection": lambda: ltr.select(
        DATA, folds=3, grid={"C": [0.001, 0.01, 0.1, 1.0, 10.0]}, metrics=["map", "mrr"]
    ),
    "inspection": lambda: ltr.inspect(DATA),
    "evaluation": lambda: ltr.evaluate(linear(), DATA, baseline="feature:2"),
    "figures of a metric": lambda: ltr.evaluate(linear(), DATA)["map"],
    "comparison": lambda: ltr.compare({"one": linear(), "other": trees()}, data=DATA),
    "explanation": lambda: ltr.explain(linear(), DATA, query_id=DATA.query_ids[0].as_py()),
    "search": lambda: BeforeAndAfter(HITS, HITS, 4, 7, model="m", keywords="red shoes"),
    "feature set": feature_set,
    "forest": lambda: trees().forest,
    "fit": lambda: Fit(linear(), Certificate(1.0), tuple({"loss": 1.0 / n} for n in range(1, 999))),
    "click fit": lambda: ClickFit(MANY / 900, MANY, MANY, (1.0, 1.0)),
    "exported file": lambda: ltr.export_model(
        linear(), target="opensearch", version="3.8", name="m"
    ),
}  # fmt: skip
NOTEBOOK = {
    *("dataset", "splits", "linear model", "trees", "piecewise-linear model", "average"),
    *(
        "reranker",
        "plugins",
        "one plugin",
        "selection",
        "inspection",
        "evaluation",
        "comparison",
        "explanation",
        "search",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_repr_is_short(name: str) -> None:
    text = repr(OBJECTS[name]())
    assert text.strip()
    assert len(text.splitlines()) <= REPR_LINES
    assert len(text) <= 1.1 * REPR_CHARACTERS
    assert "0x" not in text


@pytest.mark.parametrize("name", sorted(NOTEBOOK))
def test_a_notebook_shows_it_as_html(name: str) -> None:
    assert OBJECTS[name]()._repr_html_().startswith("<div")


def test_a_model_tells_how_it_was_trained() -> None:
    text = repr(trees())
    assert text.startswith("TreeModel: 3 features, trees: ")
    assert "lambdarank" in text
    assert "  optimizer: boosting (" in text
    assert f"trained on: {trees().record['queries']} queries" in text


def test_the_figures_of_a_metric_stand_for_their_mean() -> None:
    evaluation = ltr.evaluate(linear(), DATA, metrics="ndcg@10,map")
    value: Any = evaluation["map"]
    assert repr(value).startswith(f"{value.mean:.4f} (map, ")
    assert float(value) == value.mean == evaluation.table[1]["mean"]
    assert f"{value:.2f}" == f"{value.mean:.2f}"
    assert 0 < value < 1.5
    low, high = value.interval
    assert low < value.mean < high
    with pytest.raises(KeyError, match=r"mrr was not measured: there are ndcg@10, map"):
        _ = evaluation["mrr"]


def test_no_public_class_shows_whole_arrays_and_lists() -> None:
    """Those with such fields have a repr of their own, or that of `ShortRepr`."""
    long = "Vector|Labels|Matrix|NDArray|tuple|list|dict|Mapping|Sequence|pa\\."
    for module in (ltr, owpc_ltr.types):
        for name in module.__all__:
            cls = getattr(module, name)
            if dataclasses.is_dataclass(cls) and hasattr(cls.__repr__, "__wrapped__"):
                fields = [field for field in dataclasses.fields(cls) if field.repr]
                assert not any(re.search(long, str(field.type)) for field in fields), name
