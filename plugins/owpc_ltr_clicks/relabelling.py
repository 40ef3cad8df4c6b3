"""A feature log with new judgments: the rows that these judge, with their grades and weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import JUDGED_BY
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr_clicks.encoding import normalised


@dataclass(frozen=True, eq=False)
class Relabelled:
    """Logged rows with their new grades, and the number of judgments of documents not logged."""

    data: RankingDataset
    not_logged: int


def relabel_log(data: RankingDataset, judged: pa.Table) -> Relabelled:
    """The rows of the feature log `data` that `judged` judges, with its grades and weights.

    `judged` is the table of a judgment list (`judge_clicks(…).table`). Queries without a row are
    left out, and so are weights of queries, comments and document fields. Raises BadInput where the
    documents of `data` have no ids or a pair is judged twice, Refused where no row is left.
    """
    from owpc_ltr.evaluation.judged_data import texts_of

    texts = texts_of(data)
    texts = data.query_ids if texts is None else texts
    queries = pa.array([normalised(text, False) for text in texts.to_pylist()], pa.string())
    if data.doc_ids is None:
        raise BadInput("the feature log has no document ids to find judgments by: log it again")
    place, matched = _places(data, queries, judged)
    rows = np.flatnonzero(place >= 0)
    if not len(rows):
        raise Refused(
            f"none of {len(judged):,} judgments is of a document and query of the feature log: "
            "judge the queries that were logged"
        )
    owner = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))[rows]
    owners, sizes = np.unique(owner, return_counts=True)
    weights = _numbers(judged, "weight")
    relabelled = replace(
        data,
        features=data.features[rows],
        labels=_numbers(judged, "grade")[place[rows]],
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        query_ids=data.query_ids.take(pa.array(owners)),
        doc_ids=data.doc_ids.take(pa.array(rows)),
        query_params=None
        if data.query_params is None
        else data.query_params.take(pa.array(owners)),
        query_weights=None,
        document_weights=None if weights is None else weights[place[rows]],
        comments=None,
        document_fields=None,
        origin=None,
        manifest=_judged_by(data, judged, place[rows]),
    )
    return Relabelled(relabelled, len(judged) - matched)


def _judged_by(
    data: RankingDataset, judged: pa.Table, rows: NDArray[np.int64]
) -> dict[str, Any] | None:
    """The manifest of the log, with who gave the grades that its rows have now."""
    manifest = dict(data.manifest or {})
    about = dict(manifest.pop("judgments", {}))
    about.pop(JUDGED_BY, None)
    if JUDGED_BY in judged.column_names:
        judges = _column(judged, JUDGED_BY).fill_null("").take(pa.array(rows)).to_pylist()
        about |= {JUDGED_BY: dict(sorted(Counter(judges).items()))}
    return {**manifest, **({"judgments": about} if about else {})} or None


def _places(
    data: RankingDataset, queries: pa.Array, judged: pa.Table
) -> tuple[NDArray[np.int64], int]:
    """The judgment of each row, -1 where there is none; and how many judgments have a row."""
    texts, documents = (_column(judged, name).dictionary_encode() for name in ("query", "doc_id"))
    size = len(documents.dictionary)
    keys = _codes(texts.indices) * size + _codes(documents.indices)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise BadInput("a document is judged twice for one query: leave one of the grades")
    query = np.repeat(_codes(pc.index_in(queries, texts.dictionary)), np.diff(data.offsets))
    document = _codes(pc.index_in(data.doc_ids, documents.dictionary))
    row_keys = np.where((query < 0) | (document < 0), -1, query * size + document)
    at = np.minimum(np.searchsorted(keys, row_keys), len(keys) - 1)
    judged_rows = keys[at] == row_keys
    return np.where(judged_rows, order[at], -1), len(np.unique(at[judged_rows]))


def _codes(indices: Any) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _column(judged: pa.Table, name: str) -> Any:
    column = judged[name].combine_chunks()
    return column.cast(pa.string())


def _numbers(judged: pa.Table, name: str) -> Any:
    if name not in judged.column_names:
        return None
    return judged[name].to_numpy().astype(np.float32)
