"""What moving a stored model from one engine version to another would do to rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.features.score_kinds import ScoreKind, score_kind
from owpc_ltr.formats.emulator import Scores, emulate, rejection_reason
from owpc_ltr.formats.engine_versions import ServingProfile
from owpc_ltr.formats.stored_model import StoredModel


@dataclass(frozen=True)
class UpgradeEffect:
    """How a model's scores and orders differ between two versions, on the same documents.

    `refused` says why the new version would not take the model (the rest is then as before).
    Kendall's tau-b is over the queries in which both versions order something; `reordered` counts
    queries in which a pair of documents changes its order, or is tied in only one of them.
    `bm25_factor` is what the values of `bm25_features` were multiplied by. `bm25_mixed` are sums
    of text scores and others, which move by no factor, and `bm25_unsure` features that may be
    either; both were left as they were.
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
    bm25_mixed: tuple[str, ...]
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
    moved, mixed, unsure = (
        _of_kind(stored, kind) for kind in (ScoreKind.text, ScoreKind.mixed, ScoreKind.unknown)
    )
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
        bm25_mixed=mixed if factor != 1 else (),
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
        texts = _of_kind(stored, ScoreKind.text)
        changed[:, [names.index(name) for name in texts]] *= np.float32(factor)
    return old, emulate(stored, changed, after)


def _of_kind(stored: StoredModel, kind: ScoreKind) -> tuple[str, ...]:
    """The features of the model's set whose scores are of this kind."""
    return tuple(f.name for f in stored.featureset.features if score_kind(f) is kind)


@compiled
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
