"""What a format did not keep of judgments, found by reading what was written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from owpc_ltr.data.judgments.types import JudgedQuery, Judgments
from owpc_ltr.data.judgments.weights import importance_of, weights_of
from owpc_ltr.errors import PluginError
from owpc_ltr.files.text import shown


def what_is_lost(given: Judgments, kept: Judgments, name: str) -> list[str]:
    """A sentence on what the format `name` does not hold, if there is anything.

    Raises PluginError where documents or grades are others, which no format may do.
    """
    pairs = list(zip(given.queries, kept.queries, strict=False))
    if len(given.queries) != len(kept.queries) or not all(_same_grades(a, b) for a, b in pairs):
        raise PluginError(
            f"what judgment reader '{name}' wrote reads back as other judgments: report this to "
            "its author, and write tsv"
        )
    lost = [
        *(["the ids of queries"] if any(a.query_id != b.query_id for a, b in pairs) else []),
        *_params(pairs),
    ]
    if any((weights_of(a) != weights_of(b)).any() for a, b in pairs):
        lost.append("the weights of judgments")
    if any(importance_of(a) != importance_of(b) for a, b in pairs):
        lost.append("the importance of queries")
    if any(_judges(a) != _judges(b) for a, b in pairs):
        lost.append("who judged")
    return [f"the format {name} does not hold {', '.join(lost)}"] if lost else []


_Pairs = Sequence[tuple[JudgedQuery, JudgedQuery]]


def _same_grades(one: JudgedQuery, other: JudgedQuery) -> bool:
    return one.document_ids == other.document_ids and np.array_equal(one.grades, other.grades)


def _judges(query: JudgedQuery) -> list[str]:
    return query.judged_by or [""] * len(query.document_ids)


def _params(pairs: _Pairs) -> list[str]:
    """Texts and parameters that are gone, or others."""
    names = dict.fromkeys(
        name
        for a, b in pairs
        for name in a.params
        if a.params[name] != b.params.get(name) and a.params[name] != ""
    )
    return [f"the parameter {shown(name)} of queries" for name in names]
