"""Parity samples: judged documents that a model keeps, to be scored again in an engine.

A model file carries a few queries with their parameters, document ids, labels and features, so
that the engine's scores can be compared with local ones wherever the model goes, without its
training data.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.splits import query_positions
from owpc_ltr.errors import BadInput

QUERIES = 20
DOCUMENTS = 50


def parity_samples_of(
    data: RankingDataset | PartitionedDataset, queries: int = QUERIES
) -> list[dict[str, Any]]:
    """Some queries, by hash: `query_id`, `params`, `document_ids`, `labels`, `features` (packed).

    Empty where the dataset was not logged from an engine (no parameters, or no document ids).
    """
    if isinstance(data, PartitionedDataset):
        if not {"query_params", "document_ids"} <= set(data.columns):
            return []
        return parity_samples_of(data.select(_chosen(data, queries)).load(), queries)
    if data.query_params is None or data.document_ids is None:
        return []
    chosen = _chosen(data, queries)
    samples = []
    for query in chosen.tolist():
        first = int(data.offsets[query])
        last = min(int(data.offsets[query + 1]), first + DOCUMENTS)
        samples.append(
            {
                "query_id": data.query_ids[query].as_py(),
                "params": json.loads(data.query_params[query].as_py()),
                "document_ids": data.document_ids[first:last].to_pylist(),
                "labels": data.labels[first:last].tolist(),
                "features": packed(data.features[first:last]),
            }
        )
    return samples


def _chosen(data: RankingDataset | PartitionedDataset, queries: int) -> NDArray[np.int64]:
    return np.sort(np.argsort(query_positions(data, "probes"), kind="stable")[:queries])


def dataset_of(samples: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> RankingDataset:
    """The remembered documents of a model with these features, as judged queries."""
    sizes = [len(sample["document_ids"]) for sample in samples]
    parts = [
        unpacked(sample["features"], size, len(names))
        for sample, size in zip(samples, sizes, strict=True)
    ]
    return make_dataset(
        np.concatenate(parts),
        np.concatenate([sample["labels"] for sample in samples]),
        np.repeat([str(sample["query_id"]) for sample in samples], sizes),
        feature_names=names,
    )


def packed(features: Matrix) -> str:
    """A matrix as a text: its float32 values row by row, little-endian, in base64.

    NaN stays NaN, which numbers in JSON cannot.
    """
    return base64.b64encode(np.ascontiguousarray(features, dtype="<f4").tobytes()).decode()


def unpacked(text: str, documents: int, features: int) -> Matrix:
    """The matrix that `packed` wrote. Raises BadInput where its size is another."""
    try:
        content = base64.b64decode(text, validate=True)
        return np.frombuffer(content, dtype="<f4").reshape(documents, features).astype(np.float32)
    except ValueError as error:
        raise BadInput(
            f"the features of a sample are not {documents} rows of {features}: {error}"
        ) from error
