"""External features in the service: tables looked up for documents, as the model orders them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from owpc_ltr_serve.rankers import Rankers, columns_for
from owpc_ltr_serve.rerank import of_ids

from owpc_ltr import read_external_features
from owpc_ltr.data.feature_sources import ExternalSource
from owpc_ltr.engine.deployment.deployment_record import immutable_name
from owpc_ltr.errors import UsageError
from owpc_ltr.formats.stored_model import store_for_client
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import save_model
from tests.datasets import table_of, written
from tests.engine.small_cluster import FEATURESET, WORDS, Small, shared_cluster

small = shared_cluster(documents=40)


def test_a_model_takes_its_columns_from_whatever_tables_have_them_in_its_own_order() -> None:
    sources = [ExternalSource("old.parquet", "00", ("document_id",), ("views", "age"))]
    first = table_of({"doc_id": ["a", "b"], "age": [1, 2], "other": [7, 8]})
    second = table_of({"query": ["x", "y"], "views": [10, 20]})
    columns = columns_for(sources, [first, second], "the model")
    assert columns is not None
    values = columns.of_query(None, {"keywords": "y"})(["b", "c"])
    np.testing.assert_array_equal(values, np.array([[20, 2], [20, np.nan]], np.float32))
    assert columns.of_query(None, {"keywords": "y"})([]).shape == (0, 2)
    assert columns_for([], [first], "the model") is None
    with pytest.raises(UsageError, match=r"'views' \(from old.parquet\).*no table given"):
        columns_for(sources, [first], "the model")
    with pytest.raises(UsageError, match=r"'shop' reads 'views' .*, 'age' .*: give the table with"):
        columns_for(sources, [], "the model 'shop'")
    with pytest.raises(UsageError, match="has no id"):
        columns_for(
            [ExternalSource("f", "0", ("query_id",), ("x",))],
            [table_of({"query_id": ["a"], "x": [1]})], "the model",
        ).of_query(None, {})  # type: ignore[union-attr]  # fmt: skip


def test_features_of_a_real_index_are_followed_by_the_values_of_a_table_that_may_be_newer(
    small: Small, tmp_path: Path
) -> None:
    ids = [f"d{number}" for number in range(0, 40, 3)]
    params = {"keywords": WORDS[1], "query": WORDS[1]}
    probe = {"params": params, "document_ids": ids}
    present, features = small.store.logged(FEATURESET, small.index, probe)
    assert present == ids
    old = {"query": [WORDS[1], WORDS[2]], "document_id": ["d3", "d6"], "ctr": [0.5, 0.9]}
    new = {"query": [WORDS[1]] * 2, "document_id": ["d6", "d9"], "ctr": [0.25, 0.75]}
    (table,) = read_external_features(written(tmp_path / "ctr.parquet", old))
    record = {"joined_tables": [table.source.as_dict()], "featureset_hash": FEATURESET.hash}
    model = LinearModel((*FEATURESET.feature_names, "ctr"), np.ones(4), record=record)
    save_model(model, tmp_path / "model.json")
    stored = store_for_client(model, FEATURESET, small.name)
    stored = replace(stored, name=immutable_name(small.name, stored))
    small.store.put_model(stored)
    for name, columns, values in (
        (tmp_path / "model.json", old, {"d3": 0.5}),
        (tmp_path / "model.json", new, {"d6": 0.25, "d9": 0.75}),
        (stored.name, new, {"d6": 0.25, "d9": 0.75}),
    ):
        rankers = Rankers(small.cluster, [name], small.index, [table_of(columns)])
        served = rankers.located(rankers.get())
        candidates = of_ids(served, ids, params, None, 30.0)
        ctr = [[values.get(doc_id, np.nan)] for doc_id in ids]
        expected = np.hstack([features, np.array(ctr, np.float32)])
        np.testing.assert_array_equal(candidates.matrix, expected)
        scores = served.score(candidates.matrix, candidates.fields)
        np.testing.assert_array_equal(scores, model.score(expected))
