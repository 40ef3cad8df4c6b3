"""Finished chunks put together as the dataset, with a manifest of what it is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.columns import ColumnFacts, column_facts
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.weights import Weighed, importance_of, weights_of
from owpc_ltr.engine.feature_log.account import Account
from owpc_ltr.engine.feature_log.chunks import Chunk, Fate, from_bytes
from owpc_ltr.engine.feature_log.environment import Environment
from owpc_ltr.engine.feature_log.folder import RunFolder
from owpc_ltr.errors import Refused

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.columns import JoinedValues
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.judgments.types import JudgedQuery


def assemble(
    folder: RunFolder,
    chunks: Sequence[Chunk],
    judgments: Judgments,
    params: Sequence[dict[str, Any]],
    environment: Environment,
    job: dict[str, Any],
    joined: JoinedValues | None = None,
) -> tuple[RankingDataset, ColumnFacts]:
    """The dataset of all logged documents, and its columns; queries without one are left out.

    The columns of `joined`, whose rows are the judged pairs, stand after those of the feature set.
    Nothing in it depends on time, on the machine, or on how often the run was resumed.
    """
    judged, account = chunks[-1].rows.stop, Account()
    own = len(environment.featureset.features)
    names = environment.featureset.feature_names + (joined.feature_names if joined else ())
    fates = np.zeros(judged, np.uint8)
    features = np.full((judged, len(names)), np.nan, np.float32)
    for chunk in chunks:
        values = from_bytes(folder.read(chunk.number))
        fates[chunk.rows.start : chunk.rows.stop] = values.fates
        features[chunk.rows.start : chunk.rows.stop, :own] = values.features
        account += values.account(len(chunk.rows))
    if joined is not None:
        features[:, own:] = joined.values
    logged = fates == Fate.LOGGED
    queries = judgments.queries
    weighed = Weighed.among(queries)
    dataset = logged_dataset(queries, params, logged, features, names, environment, weighed)
    if dataset is None:
        raise Refused(f"none of the {judged} judged documents could be logged")
    facts = column_facts(dataset.features)
    manifest = {
        **account.as_json(),
        "queries": {"judged": len(queries), "logged": dataset.n_queries},
        **job,
        "missing": dict(zip(names, facts.missing.tolist(), strict=True)),
    }
    return replace(dataset, manifest=manifest), facts


def logged_dataset(
    queries: Sequence[JudgedQuery],
    params: Sequence[dict[str, Any]],
    logged: NDArray[np.bool_],
    features: Matrix,
    names: tuple[str, ...],
    environment: Environment,
    weighed: Weighed,
) -> RankingDataset | None:
    """The documents that were `logged`, of these queries; None where there is none.

    `weighed` says which weights the dataset has, which other queries may have.
    """
    starts = np.cumsum([0, *(len(query.document_ids) for query in queries)])
    sizes = np.add.reduceat(logged, starts[:-1], dtype=np.int64)
    ranked: list[int] = np.flatnonzero(sizes).tolist()
    if not ranked:
        return None
    return RankingDataset(
        features=features[logged],
        labels=np.concatenate([query.grades for query in queries])[logged],
        offsets=np.concatenate(([0], np.cumsum(sizes[ranked]))).astype(np.int64),
        query_ids=pa.array([queries[q].query_id for q in ranked], pa.string()),
        feature_names=names,
        document_ids=pa.array(
            [document for query in queries for document in query.document_ids], pa.string()
        ).filter(pa.array(logged)),
        featureset_hash=environment.featureset.hash,
        query_params=pa.array([_canonical(params[q]) for q in ranked], pa.string()),
        query_weights=(
            np.array([importance_of(queries[q]) for q in ranked]) if weighed.queries else None
        ),
        document_weights=(
            np.concatenate([weights_of(query) for query in queries])[logged]
            if weighed.documents
            else None
        ),
    )


def fingerprint(judgments: Judgments) -> str:
    """Hex SHA-256 of everything that the judgments say, however their file is written."""
    digest = hashlib.sha256()
    for query in judgments.queries:
        digest.update(_canonical([query.query_id, query.params, query.document_ids]).encode())
        digest.update(np.ascontiguousarray(query.grades, dtype="<f4").data)
        # Weights of 1 say what no weights say.
        if query.weights is not None and (query.weights != 1).any():
            digest.update(b"weights")
            digest.update(np.ascontiguousarray(query.weights, dtype="<f4").data)
        if query.importance not in {None, 1.0}:
            digest.update(_canonical({"importance": query.importance}).encode())
    return digest.hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
