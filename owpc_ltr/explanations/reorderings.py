"""What a list did to the scores of its documents, by the reranker's own account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.explanations.hit import Part
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import ExplainingReordering, ListTerm

LUMP = "the list"
TOLERANCE = 1e-6
"""How far terms may be from what a list did, of the range of the scores."""
_NAMED = 3
"""How many documents a part names."""


def list_terms(
    ranker: ReorderingModel, features: Matrix, fields: Fields
) -> tuple[list[ListTerm], str, tuple[str, ...]]:
    """The terms of one list, how they were come by, and warnings; no term of a base alone.

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
        told = (
            f"the terms by which reranker '{name}' explains its lists do not add up to its scores"
        )
        return lump, f"reranker {name} as one term", (f"{told}: they are shown as one",)
    return terms, f"reranker {name} by its own terms", ()


def add_up(terms: Sequence[ListTerm], moved: Vector) -> bool:
    """Whether amounts are one number a document each, which add up to what a list did."""
    if any(np.shape(term.amounts) != moved.shape for term in terms):
        return False
    total = np.sum([term.amounts for term in terms], axis=0) if terms else np.zeros(len(moved))
    allowed = TOLERANCE * max(float(np.ptp(moved)), float(np.abs(moved).max()), 1e-300)
    # What is no number must not slip through a comparison.
    return bool((np.abs(total - moved) <= allowed).all())


def part_of(term: ListTerm, row: int, ids: Sequence[str]) -> Part:
    """A term of one document, and who added most to it."""
    documents: tuple[tuple[str, float], ...] = ()
    if term.by_document is not None:
        added: Any = np.asarray(term.by_document)[row]
        largest = np.argsort(-np.abs(added), kind="stable")[:_NAMED].tolist()
        documents = tuple((ids[j], float(added[j])) for j in largest if added[j] != 0)
    logarithm = None if term.logarithms is None else float(term.logarithms[row])
    return Part(term.name, float(term.amounts[row]), logarithm, documents)
