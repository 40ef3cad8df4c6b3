"""Judgments: for each query, which documents were given which grade, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.arrays import Labels

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset


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

    def __str__(self) -> str:
        return f"{self.n_judgments:,} judgments of {len(self.queries):,} queries"

    def __repr__(self) -> str:
        return "\n  ".join([f"Judgments: {self}", *self.notes])

    def as_dict(self) -> dict[str, int]:
        """The counts as JSON."""
        return {"queries": len(self.queries), "judgments": self.n_judgments}


JUDGED_BY = "judged_by"
"""What the column of a table is called, and the entry of a manifest."""
CLICKS = "clicks"


def judges_of(queries: Iterable[JudgedQuery]) -> dict[str, Any]:
    """The entry of a manifest: judgments by judge, '' for none named; none where no judge is."""
    counts: Counter[str] = Counter()
    for query in queries:
        counts.update(query.judged_by or {"": len(query.document_ids)})
    named = any(counts[judge] for judge in counts if judge)
    return {JUDGED_BY: dict(sorted(counts.items()))} if named else {}


def joined_judges(manifests: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The same of several logs together, as what a manifest says of judgments."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        judged = (manifest or {}).get("judged")
        nobody = {"": judged} if isinstance(judged, int) else {}
        counts.update(_counts(manifest) or nobody)
    if not any(counts[judge] for judge in counts if judge):
        return {}
    return {"judgments": {JUDGED_BY: dict(sorted(counts.items()))}}


def share_by_clicks(judged: RankingDataset | Iterable[JudgedQuery]) -> float:
    """The share of judgments that are made of clicks, as far as their marks tell."""
    from owpc_ltr.data.dataset import RankingDataset

    if isinstance(judged, RankingDataset):
        counts = _counts(judged.manifest)
    else:
        counts = judges_of(judged).get(JUDGED_BY, {})
    return counts.get(CLICKS, 0) / max(sum(counts.values()), 1)


def _counts(manifest: Mapping[str, Any] | None) -> dict[str, int]:
    about = (manifest or {}).get("judgments")
    said = about.get(JUDGED_BY) if isinstance(about, Mapping) else None
    if not isinstance(said, Mapping):
        return {}
    return {judge: n for judge, n in said.items() if isinstance(n, int) and n > 0}
