"""What no metric has a use for: weights of documents, which say how sure each judgment is."""

from __future__ import annotations

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset

UNUSED = "metrics do not weigh documents: the weights of judgments count in training alone"


def unused_weights(data: RankingDataset | PartitionedDataset) -> list[str]:
    """A sentence where documents have weights other than 1."""
    if isinstance(data, RankingDataset):
        return [UNUSED] if _weighed(data) else []
    if "document_weights" not in data.columns:
        return []
    return [UNUSED] if any(data.each(_weighed)) else []


def _weighed(part: RankingDataset) -> bool:
    return part.document_weights is not None and bool((part.document_weights != 1).any())
