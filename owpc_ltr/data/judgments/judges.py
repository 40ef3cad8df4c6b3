"""Who judged: a name beside each judgment, and how many each gave in the manifest of a log.

Judgments that `judge clicks` makes are marked as such. They know only what users were shown, by
rankers of that time: of another ranker's results they cannot tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.judgments.types import JudgedQuery

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset

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
