"""What moving a stored model from one engine version to another would do to rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.features.feature_set import Feature
from owpc_ltr.interop.emulator import Scores, emulate, rejection_reason
from owpc_ltr.interop.engine_versions import ServingProfile
from owpc_ltr.interop.stored_model import StoredModel

_TEXT_QUERIES = {
    "match",
    "match_phrase",
    "match_bool_prefix",
    "multi_match",
    "query_string",
    "simple_query_string",
    "combined_fields",
    "more_like_this",
}
_COMBINATIONS = {"bool", "dis_max", "boosting", "nested"}


@dataclass(frozen=True)
class UpgradeEffect:
    """How a model's scores and orders differ between two versions, on the same documents.

    `refused` says why the new version would not take the model (the rest is then as before).
    Kendall's tau-b is over the queries in which both versions order something; `reordered` counts
    queries in which a pair of documents changes its order, or is tied in only one of them.
    `bm25_factor` is what the values of `bm25_features` were multiplied by; `bm25_unsure` are
    features whose template mixes text scores with others, left as they were.
    """

    queries: int
    documents: int
    rescored: int
    reordered: int
    mean_tau: float
    lowest_tau: float
    largest_difference: float
    missing_values: int
    bm25_factor: float
    bm25_features: tuple[str, ...]
    bm25_unsure: tuple[str, ...]
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The effect as JSON."""
        return asdict(self)


def upgrade_effect(
    stored: StoredModel,
    features: Matrix,
    before: ServingProfile,
    after: ServingProfile,
    offsets: Sequence[int] | NDArray[np.int64] | None = None,
) -> UpgradeEffect:
    """Score the documents as both versions would, and compare.

    `features` were logged on the old version, NaN where missing; `offsets` cut them into queries
    (one query if absent). Text scores are rescaled where BM25 changed between the versions.
    Raises BadInput where the old version would refuse the model.
    """
    cuts = np.asarray([0, len(features)] if offsets is None else offsets, dtype=np.int64)
    moved, unsure = _text_scores(stored)
    factor = after.bm25_factor / before.bm25_factor
    names = stored.featureset.feature_names
    refused = rejection_reason(
        stored.definition, stored.type, names, after, stored.feature_normalizers
    )
    old, new = scores_around(stored, features, before, after)
    taus, reordered = _compare_orders(old.astype(np.float64), new.astype(np.float64), cuts)
    known = taus[~np.isnan(taus)]
    difference = np.abs(new.astype(np.float64) - old.astype(np.float64))
    return UpgradeEffect(
        queries=len(cuts) - 1,
        documents=len(features),
        rescored=int((difference > 0).sum()),
        reordered=int(reordered.sum()),
        mean_tau=float(known.mean()) if len(known) else 1.0,
        lowest_tau=float(known.min()) if len(known) else 1.0,
        largest_difference=float(difference.max(initial=0.0)),
        missing_values=int(np.isnan(features).sum()),
        bm25_factor=factor,
        bm25_features=moved if factor != 1 else (),
        bm25_unsure=unsure if factor != 1 else (),
        refused=refused,
    )


def scores_around(
    stored: StoredModel, features: Matrix, before: ServingProfile, after: ServingProfile
) -> tuple[Scores, Scores]:
    """The scores of both versions; the same ones twice where the new version refuses the model."""
    names = stored.featureset.feature_names
    old = emulate(stored, features, before)
    if rejection_reason(stored.definition, stored.type, names, after, stored.feature_normalizers):
        return old, old
    factor = after.bm25_factor / before.bm25_factor
    changed = np.array(features, dtype=np.float32)
    if factor != 1:
        changed[:, [names.index(name) for name in _text_scores(stored)[0]]] *= np.float32(factor)
    return old, emulate(stored, changed, after)


def _text_scores(stored: StoredModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The features that are text scores, and those of which that cannot be said."""
    kinds = {feature.name: bm25_scaled(feature) for feature in stored.featureset.features}
    certain = tuple(name for name, kind in kinds.items() if kind)
    return certain, tuple(name for name, kind in kinds.items() if kind is None)


def bm25_scaled(feature: Feature) -> bool | None:
    """Whether a feature's value is a text score, which BM25's factor scales; None if in part."""
    if feature.template_language != "mustache" or not isinstance(feature.template, dict):
        return None
    found = _queries(feature.template)
    if found == {True}:
        return True
    return None if True in found else False


def _queries(query: Any) -> set[bool]:
    """For each leaf query that scores, whether it is a text query."""
    if isinstance(query, list):
        return {found for part in query for found in _queries(part)}
    if not isinstance(query, dict):
        return set()
    found: set[bool] = set()
    for name, content in query.items():
        if name in _COMBINATIONS and isinstance(content, dict):
            scoring = [v for k, v in content.items() if k in _SCORING]
            found |= _queries(scoring)
        elif name == "function_score" and isinstance(content, dict):
            replaces = content.get("boost_mode") == "replace"
            found |= {False} if replaces else {False} | _queries(content.get("query"))
        else:
            found.add(name in _TEXT_QUERIES)
    return found


_SCORING = {"must", "should", "queries", "query", "positive"}


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _compare_orders(old: Vector, new: Vector, cuts: Any) -> Any:
    """Kendall's tau-b of each query (NaN where an order is all ties), and whether it changed."""
    taus = np.full(len(cuts) - 1, np.nan)
    changed = np.zeros(len(cuts) - 1, dtype=np.bool_)
    for query in range(len(cuts) - 1):
        agree, old_pairs, new_pairs = 0.0, 0.0, 0.0
        for i in range(cuts[query], cuts[query + 1]):
            for j in range(cuts[query], i):
                a, b = np.sign(old[i] - old[j]), np.sign(new[i] - new[j])
                agree += a * b
                old_pairs += a * a
                new_pairs += b * b
                changed[query] |= a != b
        if old_pairs > 0 and new_pairs > 0:
            taus[query] = agree / np.sqrt(old_pairs * new_pairs)
    return taus, changed
