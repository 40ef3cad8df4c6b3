"""A list as it was served, explained: every document, or one of them fully."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.errors import UsageError
from owpc_ltr.explanations.contributions import contributions, in_words, paths
from owpc_ltr.explanations.explanation import ExplainedHit, Explanation, ScorePart
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import ExplainingReordering, ListTerm, Model

LUMP = "the list"
TERMS_TOLERANCE = 1e-6
"""How far terms may be from what a list did, of the range of the scores."""
_NAMED = 3
"""How many documents a part names."""


def list_terms(
    ranker: ReorderingModel, features: Matrix, fields: Fields
) -> tuple[list[ListTerm], str, tuple[str, ...]]:
    """The terms of one list, how they were computed, and warnings; no term of a base alone.

    A reranker that does not explain its lists, or explains them by terms that do not add up, is
    explained by one term.
    """
    if ranker.reordering is None:
        return [], "", ()
    base = ranker.base.score(features)
    scores = ranker.reordering.rerank(features, base, None, fields)
    lump = [ListTerm(LUMP, scores - base)]
    name = ranker.reranker
    if not isinstance(ranker.reordering, ExplainingReordering):
        return lump, f"reranker {name} as one term: what the list added to the base score", ()
    terms = list(ranker.reordering.explain(features, base, fields))
    if not add_up(terms, scores - base):
        warning = (
            f"the terms by which reranker '{name}' explains its lists do not add up to its scores: "
            "they are shown as one"
        )
        return lump, f"reranker {name} as one term", (warning,)
    return terms, f"reranker {name} by its own terms", ()


def add_up(terms: Sequence[ListTerm], moved: Vector) -> bool:
    """Whether amounts are one number a document each, which add up to what a list did."""
    if any(np.shape(term.amounts) != moved.shape for term in terms):
        return False
    total = np.sum([term.amounts for term in terms], axis=0) if terms else np.zeros(len(moved))
    allowed = TERMS_TOLERANCE * max(float(np.ptp(moved)), float(np.abs(moved).max()), 1e-300)
    # NaN must not pass the comparison.
    return bool((np.abs(total - moved) <= allowed).all())


def part_of(term: ListTerm, row: int, ids: Sequence[str]) -> ScorePart:
    """A term of one document, and who added most to it."""
    documents: tuple[tuple[str, float], ...] = ()
    if term.by_document is not None:
        added: Any = np.asarray(term.by_document)[row]
        largest = np.argsort(-np.abs(added), kind="stable")[:_NAMED].tolist()
        documents = tuple((ids[j], float(added[j])) for j in largest if added[j] != 0)
    logarithm = None if term.logarithms is None else float(term.logarithms[row])
    return ScorePart(term.name, float(term.amounts[row]), logarithm, documents)


SCORE_TOLERANCE = 1e-5
"""How far a served score may be from the explained one: what uploads allow, relative above 1."""


@dataclass(frozen=True, eq=False)
class ServedList:
    """The documents of one query as they were served, best first, with features and scores.

    `query` and `model` are names to show. `ranks_before` are the ranks without the model, None
    where they are not known. `fields` are the document fields that a reranker reads.
    """

    query: str
    model: str
    doc_ids: Sequence[str]
    titles: Sequence[str]
    features: Matrix
    scores: Vector
    ranks_before: Sequence[int | None]
    fields: Fields = field(default_factory=dict)

    def place(self, document: str) -> int:
        """Where a document is, from 0. Raises UsageError where it is not."""
        if document not in self.doc_ids:
            raise UsageError(
                f"document '{document}' is not among the {len(self.doc_ids)} documents of "
                f"'{self.query}': ask for a larger window, or check its id"
            )
        return list(self.doc_ids).index(document)


def explain_list(
    ranker: Model | ReorderingModel,
    listed: ServedList,
    *,
    size: int | None = None,
    document: str | None = None,
) -> Explanation:
    """Why the best `size` documents of a list are where they are; or fully one `document`.

    Raises UsageError for a document that is not in the list, Refused for a kind of model that is
    not known.
    """
    place = None if document is None else listed.place(document)
    base = ranker.base if isinstance(ranker, ReorderingModel) else ranker
    shares = contributions(base, listed.features)
    amounts, method = shares.amounts, shares.method
    means = amounts.mean(axis=0) if len(amounts) else np.zeros(amounts.shape[1])
    terms: Sequence[ListTerm] = []
    warnings: tuple[str, ...] = ()
    if isinstance(ranker, ReorderingModel):
        terms, how, warnings = list_terms(ranker, listed.features, listed.fields)
        method = f"{method}; {how}" if how else method
    explained = shares.scores + sum((term.amounts for term in terms), np.zeros(1))

    def hit(row: int) -> ExplainedHit:
        values = listed.features[row]
        return ExplainedHit(
            document_id=listed.doc_ids[row],
            title=listed.titles[row],
            rank=row + 1,
            rank_before=listed.ranks_before[row],
            score=float(listed.scores[row]),
            feature_names=ranker.feature_names,
            values=values.astype(np.float64),
            contributions=amounts[row],
            parts=tuple(part_of(term, row, listed.doc_ids) for term in terms),
            how=() if place is None else in_words(base, values),
            paths=() if place is None else paths(base, values, listed.features),
        )

    rows = range(len(listed.doc_ids))[:size] if place is None else [place]
    return Explanation(
        query=listed.query,
        model=listed.model,
        kind=ranker.kind,
        feature_names=ranker.feature_names,
        hits=tuple(map(hit, rows)),
        baseline=shares.baseline,
        method=method,
        documents=len(listed.doc_ids),
        mean_contributions=means,
        warnings=(*warnings, *_difference_warning(listed, explained)),
    )


def _difference_warning(listed: ServedList, explained: Vector) -> tuple[str, ...]:
    """The warning where served scores are not the explained ones."""
    apart = np.abs(listed.scores - explained) / np.maximum(1.0, np.abs(explained))
    # NaN must not pass the comparison.
    apart = np.where(np.isnan(apart), np.inf, apart)
    if not (apart > SCORE_TOLERANCE).any():
        return ()
    worst = int(apart.argmax())
    return (
        f"what was served is not what is explained: document '{listed.doc_ids[worst]}' has "
        f"the score {listed.scores[worst]:.6g}, and its terms add up to {explained[worst]:.6g} "
        f"({int((apart > SCORE_TOLERANCE).sum())} documents differ): prove the model again with "
        "owpc-ltr verify",
    )
