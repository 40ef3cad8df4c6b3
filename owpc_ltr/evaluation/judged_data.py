"""Judged queries as they are given: a dataset, a folder of parts, or judgments, told by content."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.queries import Judgments
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

    from owpc_ltr.data.options import Room


Data = RankingDataset | PartitionedDataset | Judgments
_FEATURES = re.compile(r"\s*[-+.\deE]+\s+qid:\S+\s+\d+:")
"""How a line of LETOR text begins."""


def read_data(
    path: Path | str,
    *,
    topics: Mapping[str, str] | Path | str | None = None,
    asked: bool = False,
    memory: int | Room | None = None,
    max_features: int | None = None,
) -> Data:
    """The data in a file or folder: with features where it has some, else judgments.

    `topics` has the texts of the queries of a judgment list, which are needed where they will be
    `asked` of an engine. Raises BadInput.
    """
    from owpc_ltr.data.datasets import open_or_read
    from owpc_ltr.errors import give_warnings

    if Path(path).is_dir() or _has_features(Path(path)):
        return open_or_read(path, memory=memory, max_features=max_features)
    found = _judgments(path, topics, asked)
    give_warnings(found.notes)
    return found


def without_features(judgments: Judgments) -> RankingDataset:
    """A judgment list as a dataset that has no feature: what runs are measured on."""
    import pyarrow as pa

    from owpc_ltr.data.judgments.grouping import Weighed, importance_of, weights_of
    from owpc_ltr.data.judgments.queries import judges_of

    queries = judgments.queries
    weighed = Weighed.among(queries)
    sizes = [len(query.document_ids) for query in queries]
    labels = [np.asarray(query.grades, np.float32) for query in queries]
    return RankingDataset(
        features=np.empty((sum(sizes), 0), np.float32),
        labels=np.concatenate(labels),
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        query_ids=pa.array([query.query_id for query in queries], pa.string()),
        feature_names=(),
        document_ids=pa.array([name for query in queries for name in query.document_ids]),
        query_params=pa.array([json.dumps(query.params) for query in queries], pa.string()),
        query_weights=(
            np.array([importance_of(query) for query in queries]) if weighed.queries else None
        ),
        document_weights=(
            np.concatenate([weights_of(query) for query in queries]) if weighed.documents else None
        ),
        manifest={"judgments": judges} if (judges := judges_of(queries)) else None,
    )


def texts_of(data: RankingDataset) -> pa.StringArray | None:
    """What users typed, query by query; None where the data do not know."""
    import pyarrow as pa

    from owpc_ltr.data.judgments.queries import query_text

    if data.query_params is None:
        return None
    texts = [query_text(json.loads(params)) for params in data.query_params.to_pylist()]
    told = pa.array(texts, pa.string())
    return None if not any(texts) or told.equals(data.query_ids) else told


def _judgments(
    path: Path | str, topics: Mapping[str, str] | Path | str | None, asked: bool
) -> Judgments:
    from owpc_ltr.host.judgment_lists import read_judgments

    try:
        return read_judgments(path, topics=topics)
    except BadInput:
        if asked or topics is not None:
            raise
        # Runs are measured without the queries' texts, which qrels lack.
        with suppress(BadInput):
            return read_judgments(path, topics=_Ids())
        raise


class _Ids(dict[str, str]):
    """Queries by id, each with its id for a text."""

    def get(self, query: str, _default: object = None) -> str:
        return query


def _has_features(path: Path) -> bool:
    """Whether a file is a dataset: our Parquet, or LETOR text; what is neither is a list."""
    from owpc_ltr.files.input import first_lines, open_regular, read_head

    with open_regular(path) as file:
        if file.read(4) == b"PAR1":
            return _is_ours(file)
    lines = (line for line in first_lines(read_head(path)) if not line.startswith("#"))
    return bool(_FEATURES.match(next(lines, "")))


def _is_ours(file: Any) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from owpc_ltr.data.parquet.writing import KEY

    file.seek(0)
    try:
        return KEY in (pq.read_schema(file).metadata or {})
    except (pa.ArrowInvalid, OSError):
        # What is damaged is told by who reads it.
        return True
