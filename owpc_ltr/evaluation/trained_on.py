"""Whether some queries are those that a model was trained on, as its record tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from owpc_ltr.data.dataset import RankingDataset


def trained_here(record: Mapping[str, Any], data: RankingDataset) -> tuple[bool | None, list[str]]:
    """Whether a model was trained on exactly these queries (None: nobody knows), and what to say.

    A bound on the risk holds for queries drawn as those are that it was reckoned on.
    """
    trained = record.get("fingerprint")
    if trained is None:
        return None, [
            "the model does not say which queries it was trained on: the bounds hold for queries "
            f"drawn as these {data.n_queries} are, and of others they say nothing"
        ]
    if trained == data.fingerprint:
        return True, []
    count, source = record.get("queries"), record.get("source") or {}
    if source.get("split") is not None and source.get("fingerprint") == data.fingerprint:
        return False, [
            f"the model was trained on {count} of these {data.n_queries} queries, the others "
            "chose its settings or were kept out: the bounds are of all of them"
        ]
    return False, [
        f"the model was trained on other data ({count} queries) than this: the bounds hold for "
        f"queries drawn as these {data.n_queries} are, and say nothing of those it was trained on"
    ]
