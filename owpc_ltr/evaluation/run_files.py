"""Rankings of datasets, written as TREC runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


def write_run(
    ranker: Model | ReorderingModel | TrecRun | Vector,
    data: RankingDataset,
    path: str | Path,
    *,
    tag: str = "owpc-ltr",
    depth: int | None = None,
) -> None:
    """Write a ranking of a dataset (a ranker's, or scores, one per document) as a TREC run.

    At most `depth` documents per query; of a run those that it retrieved. See
    `owpc_ltr.data.runs.write_scores`.
    """
    import numpy as np

    from owpc_ltr.data.runs import TrecRun, write_scores
    from owpc_ltr.models.reordering import dataset_scores

    scores = ranker if isinstance(ranker, np.ndarray) else dataset_scores(ranker, data)
    retrieved = ~np.isnan(scores) if isinstance(ranker, TrecRun) else None
    write_scores(scores, data, path, tag, depth, retrieved)
