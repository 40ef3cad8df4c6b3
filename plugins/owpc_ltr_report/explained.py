"""Examples out of explanations: the hits of a list as documents that moved."""

from __future__ import annotations

import numpy as np

from owpc_ltr.explanations.explanation import ExplainedHit, Explanation
from owpc_ltr_report.examples import TERMS, Example, Moved
from owpc_ltr_report.figures import signed
from owpc_ltr_report.verdict import NEUTRAL, Verdict


def example_of(found: Explanation) -> Example:
    """The query with its best hits, as far as they were explained."""
    moved = tuple(_moved(hit, found) for hit in found.hits)
    return Example(found.query, "", None, None, found.documents, moved)


def explained_verdict(found: Explanation) -> Verdict:
    """The verdict of a page that is of this alone: what brings the first document up."""
    hit = found.hits[0]
    name = f"{hit.title} ({hit.document_id})" if hit.title != hit.document_id else hit.title
    why = ", ".join(f"{word} {signed(amount, 2)}" for word, amount in _moved(hit, found).why)
    before = f", and was at {hit.rank_before} without the model" if hit.rank_before else ""
    reasons = f" Against the mean of the list, {why} add most to its score." if why else ""
    said = (
        f"For “{found.query}”, {name} is at rank {hit.rank} of {found.documents} by "
        f"{found.model}{before}.{reasons}"
    )
    return Verdict(NEUTRAL, said, found.warnings, heading="Why it is there")


def _moved(hit: ExplainedHit, found: Explanation) -> Moved:
    """A hit, with the terms that set it apart from the mean of its list."""
    apart = hit.contributions - found.mean_contributions
    order = np.argsort(-np.abs(apart), kind="stable")[:TERMS]
    why = [(hit.feature_names[n], float(apart[n])) for n in order.tolist() if apart[n] != 0]
    why += [(part.name, part.amount) for part in hit.parts if part.amount != 0]
    title = "" if hit.title == hit.document_id else hit.title
    return Moved(hit.document_id, title, hit.rank, hit.rank_before, None, tuple(why[:TERMS]))
