"""Whether some queries are those that a model was trained on, as its record tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.verdict import Doubt


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


def seen_doubts(name: str, sides: NDArray[np.str_] | None) -> tuple[Doubt, ...]:
    """The doubt about a ranker that was trained or chosen on some of the compared queries.

    `sides` says on which side each of these was at its training; None where that is not known.
    """
    seen = 0 if sides is None else int((sides != "test").sum())
    if sides is None or not seen:
        return ()
    return (
        Doubt(
            "seen-queries",
            f"{name} was trained or chosen on {seen:,} of these {len(sides):,} queries, which "
            "shows nothing of others",
            "compare on queries that it has not seen",
        ),
    )
