"""Queries that teach nothing: of one document, or with all documents of one grade."""

from __future__ import annotations

from collections.abc import Iterator

from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding, Severity
from owpc_ltr.inspection.gathered import Gathered


def queries_without_contrast(found: Gathered) -> Iterator[Finding]:
    """A finding on each kind, a warning where there are many."""
    if found.single_ids:
        yield _finding(
            found,
            "one-document-queries",
            found.lengths[1],
            "one document",
            thresholds.ONE_DOCUMENT,
            found.single_ids,
            "judge more documents of them: there is no order to learn, and any metric is perfect",
        )
    if found.alike:
        yield _finding(
            found,
            "no-contrast",
            found.alike,
            "documents of one grade only",
            thresholds.WITHOUT_CONTRAST,
            found.alike_ids,
            "training passes over them: judge further documents, or grade finer",
        )


def _finding(
    found: Gathered, check: str, count: int, what: str, limit: float, ids: list[str], advice: str
) -> Finding:
    share = count / found.queries
    many = share > limit and found.queries >= thresholds.FEWEST_QUERIES
    severity: Severity = WARNING if many else NOTE
    several = "1 query has" if count == 1 else f"{count:,} queries have"
    return Finding(
        check,
        severity,
        f"{count:,} queries",
        f"{several} {what} ({share:.1%}), as '{ids[0]}'",
        advice,
        (),
        tuple(ids),
    )
