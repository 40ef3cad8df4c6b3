"""Ranked lists of TREC runs: `query Q0 document rank score tag` lines."""

from __future__ import annotations

import math
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import read_text, shown


def read_run_lists(path: Path) -> dict[str, list[str]]:
    """The documents of each query, best score first; equal scores stay as they stand.

    Raises BadInput, naming the line, for what is no such line and for a document that stands twice.
    """
    scored: dict[str, dict[str, float]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        fields = line.split()
        score = _number(fields[4]) if len(fields) == 6 else math.nan
        if math.isnan(score):
            raise BadInput(
                f"cannot read {path}, line {number}: {shown(line)} is not 'query Q0 document rank "
                "score tag'"
            )
        of_query = scored.setdefault(fields[0], {})
        if fields[2] in of_query:
            raise BadInput(
                f"cannot read {path}, line {number}: document {shown(fields[2])} stands twice for "
                f"query {shown(fields[0])}"
            )
        of_query[fields[2]] = score
    if not scored:
        raise BadInput(f"cannot read {path}: it is empty")
    return {query: sorted(found, key=lambda d: -found[d]) for query, found in scored.items()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
