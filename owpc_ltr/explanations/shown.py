"""Explained hits as text and as HTML: one line a document, a bar a term."""

from __future__ import annotations

from collections.abc import Sequence

from owpc_ltr.data import html
from owpc_ltr.explanations.hit import ExplainedHit

LISTED = 5
"""Terms of a hit in a list; the others are summed."""


def heading(hit: ExplainedHit) -> str:
    """Where a document is, and where it was without the model."""
    before = "" if hit.rank_before is None else f" (was {hit.rank_before})"
    title = hit.title if hit.title == hit.document_id else f"{hit.title} [{hit.document_id}]"
    return f"{hit.rank}{before}  {title}  {hit.score:.6g}"


def as_text(
    title: str, hits: Sequence[ExplainedHit], baseline: float, warnings: Sequence[str]
) -> str:
    """The hits in a line each, without bars."""
    lines = [title]
    for hit in hits:
        terms = [f"{term.name} {term.contribution:+.4g}" for term in hit.largest(LISTED)]
        if len(hit.terms()) > LISTED:
            terms.append(f"others {hit.rest(LISTED):+.4g}")
        lines.append(f"{heading(hit)} = {baseline:.4g} {', '.join(terms)}".rstrip())
    return "\n".join([*lines, *(f"warning: {line}" for line in warnings)])


def as_html(title: str, hits: Sequence[ExplainedHit], notes: Sequence[str]) -> str:
    """The hits with bars, as a notebook shows them; all terms of a hit that stands alone."""
    parts = []
    for hit in hits:
        shown = hit.largest(LISTED) if len(hits) > 1 else hit.terms()
        rows = [(term.name, term.contribution) for term in shown]
        if len(hit.terms()) > len(rows):
            rows.append(("others", hit.rest(len(rows))))
        parts += [html.line(heading(hit)), html.bars(rows, "{:+.4g}")]
    return html.block(title, *parts, *map(html.line, notes))
