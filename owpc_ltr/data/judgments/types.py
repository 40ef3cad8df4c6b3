"""What a judgment list says: for each query, which documents were given which grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from owpc_ltr.arrays import Labels

Duplicates = Literal["refuse", "first", "max", "mean"]
"""What becomes of a document that is judged twice for one query."""


@dataclass(frozen=True)
class JudgedQuery:
    """A query and its judged documents.

    `params` is what its feature templates may name: `keywords` and `query`, both the query's
    text, and every further column of the list, as text or as a JSON value. `grades` is float32,
    one for each document, 0 for irrelevant. `weights`, float32, say how sure each judgment is, and
    `importance` how often the query is asked; None where nothing was said, which counts as 1.
    `judged_by` names who gave each judgment, as far as the list says: '' is nobody by name.
    """

    query_id: str
    params: dict[str, Any]
    document_ids: list[str]
    grades: Labels
    weights: Labels | None = None
    importance: float | None = None
    judged_by: list[str] | None = None


@dataclass(frozen=True)
class Judgments:
    """Judged queries in the order of their first appearance, and what reading them changed."""

    queries: list[JudgedQuery]
    notes: tuple[str, ...] = ()

    @property
    def n_judgments(self) -> int:
        """Number of judged documents, over all queries."""
        return sum(len(query.document_ids) for query in self.queries)
