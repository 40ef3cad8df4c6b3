"""Parity of engine and local scores, and feature drift: what a proof finds, and how much may be.

How they are measured is in `proof`. This module imports nothing heavy: signatures need its limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.text import ShortRepr

PARITY_TOLERANCE = 1e-5
"""The largest difference of the engine's scores and local ones: a few units of float32."""
MAX_DRIFT = 0.25
"""How far a feature may drift from training to upload, in standard deviations.

Two features that have nothing to do with each other are 1.13 standard deviations apart in the mean
(2/√π, of normal values), ones of correlation ρ √(1 − ρ) times as far: this much is a feature that
has a correlation of .95 with what it was. Documents that come and go change text scores by a few
hundredths; BM25 between OpenSearch 2 and 3, a changed analyzer or another template by .5 and more.
"""
UNRELATED = 2 / math.sqrt(math.pi)
"""How many standard deviations such features are apart."""
MIN_PROOF_COVERAGE = 0.5
"""The least share of a model's judged documents, and of its queries, that must be in the index."""
METRIC = "ndcg@10"
ENGINE, CLIENT = "engine", "client"


@dataclass(frozen=True, kw_only=True)
class ProofLimits:
    """How far scores and features may be from those of the training, and on how many documents."""

    tolerance: float = PARITY_TOLERANCE
    max_drift: float = MAX_DRIFT
    min_proof_coverage: float = MIN_PROOF_COVERAGE


@dataclass(frozen=True, repr=False)
class RankAgreement(ShortRepr):
    """How far two rankings of the same documents agree.

    `swapped` counts pairs of one query that the two order differently, `ties_broken` those that
    only one of them ties; `tau` is Kendall's tau-b, a mean over queries; `ndcg_difference` the
    other's mean NDCG@10 less the first's, None where labels are not known.
    """

    swapped: int
    ties_broken: int
    tau: float
    ndcg_difference: float | None

    @property
    def words(self) -> str:
        """The two figures that tell it, in words."""
        text = f"Kendall's tau {self.tau:.4f}, {self.swapped} pairs swapped"
        difference = self.ndcg_difference
        return text if difference is None else f"{text}, {METRIC} {difference:+.4f}"


@dataclass(frozen=True, repr=False)
class Parity(ShortRepr):
    """How far the engine's scores of a model are from the local ones, on judged documents.

    `largest_difference` is |engine − local| / max(1, |local|): a relative error for scores above 1,
    an absolute one below, where scores near 0 have no digits to compare. `swapped`, `ties_broken`,
    `tau` and `ndcg_difference` are those of `RankAgreement`, the engine's ranking compared with the
    local one. `absent` documents are not in the index; `absent_queries` have no document there.

    Both score the features as the engine computes them now. Where the client scores the model
    (`scored_by`), the scores are those of the model that was read back from the store. `cause` is a
    known reason why the engine scores these features differently, if there is one.
    """

    queries: int
    documents: int
    largest_difference: float
    swapped: int
    worst_query: str
    worst_document: str
    ties_broken: int = 0
    tau: float = 1.0
    ndcg_difference: float | None = None
    absent: int = 0
    absent_queries: int = 0
    scored_by: str = ENGINE
    cause: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The parity as JSON."""
        return {key: part for key, part in asdict(self).items() if key != "cause" or part}

    def compared(self) -> str:
        """How many documents and queries were compared, and of how many."""
        if not self.absent:
            return f"{self.documents} documents of {self.queries} queries"
        documents, queries = self.documents + self.absent, self.queries + self.absent_queries
        return (
            f"{self.documents} of {documents} documents ({self.documents / documents:.0%}) of "
            f"{self.queries} of {queries} queries"
        )

    @property
    def difference(self) -> str:
        """The largest difference of scores, and the pairs that it swaps."""
        return (
            f"largest difference {self.largest_difference:.2g} (relative error for scores above "
            f"1), {self.swapped} pairs swapped"
        )

    def __str__(self) -> str:
        compared = (
            "engine vs. local scores"
            if self.scored_by == ENGINE
            else "the client scores it: stored model vs. local scores"
        )
        return f"{compared}: {self.compared()}, {self.difference}"

    def refusal(self, tolerance: float) -> str | None:
        """Why the model must not be used; None if it may be."""
        if self.largest_difference <= tolerance:
            return None
        where = f"document '{self.worst_document}' of query '{self.worst_query}'"
        by = f"by {self.largest_difference:.3g} on {where} ({tolerance:g} is allowed)"
        who = "the engine" if self.scored_by == ENGINE else "the model read back from the store"
        return f"{who} scores differently: {by}{self.cause and f'; {self.cause}'}"


@dataclass(frozen=True, repr=False)
class FeatureDrift(ShortRepr):
    """How far a feature drifted over the samples: `by` is in standard deviations of what it was.

    `mean_before` and `mean_now` count a missing value as 0; `newly_missing` is the share of values
    that are missing in only one of the two.
    """

    feature: str
    by: float
    mean_before: float
    mean_now: float
    newly_missing: float


def drift_refusal(
    features: Sequence[FeatureDrift], rankings: RankAgreement | None, max_drift: float
) -> str | None:
    """Why a model must not be used on features that drifted so far; None if it may be."""
    if not features or rankings is None:
        return None
    furthest, others = features[0], other_rankings(rankings, max_drift)
    if furthest.by > max_drift:
        what = (
            f"feature '{furthest.feature}' has drifted since training by {furthest.by:.3g} "
            f"standard deviations in the mean ({max_drift:g} is allowed); effect on rankings: "
            f"{rankings.words}"
        )
    elif others:
        what = f"{others}, by features that have drifted since training"
    else:
        return None
    allow = "allow more with `max_drift`"
    return f"{what}; log features again and train on them, or {allow}"


def other_rankings(rankings: RankAgreement | None, max_drift: float) -> str | None:
    """How the model's rankings differ from before; None if they do not.

    No feature alone may have drifted far: few documents may have it, or a few outliers be its
    standard deviation. Kendall's tau must be that of scores as far apart as `max_drift` allows,
    2/π · asin ρ of normal ones.
    """
    correlation = max(-1.0, 1.0 - (max_drift / UNRELATED) ** 2)
    least = 2 / math.pi * math.asin(correlation)
    # Sums in floating point.
    if rankings is None or rankings.tau >= least - 1e-9:
        return None
    return f"the judged documents rank otherwise ({rankings.words}; tau {least:.2g} is allowed)"


def drift_line(features: Sequence[FeatureDrift], rankings: RankAgreement | None, since: str) -> str:
    """The largest feature drift and its effect on rankings, in one line."""
    if not features or rankings is None:
        return f"feature drift since {since}: not known, for the model remembers no features"
    furthest = features[0]
    if furthest.by == 0.0:
        return f"feature drift since {since}: none"
    return (
        f"feature drift since {since}: up to {furthest.by:.2g} standard deviations "
        f"('{furthest.feature}'); {rankings.words}"
    )
