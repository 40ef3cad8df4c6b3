"""Judgment lists of OpenSearch's Search Relevance Workbench, as their JSON has them.

A list stands in the answer that fetches it, or in the body that imports it. Ratings are texts, and
queries have no ids: the text of a query is its id, the same in whichever list it stands.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgments.grouping import CLICKS, Judgments, decimal
from owpc_ltr.data.judgments.lines import JudgmentLines, decode
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import kind_of

RATINGS = "judgmentRatings"
_COMPLETE = "COMPLETED"


def lines_of_list(content: Any, path: Path) -> JudgmentLines:
    """The ratings of a list, counted from 1; one without a value is not judged yet.

    Raises BadInput for what is no list, or not a complete one.
    """
    source = _source(content, path)
    texts: list[str] = []
    sizes: list[int] = []
    failed = 0
    documents: list[str] = []
    grades: list[str] = []
    for entry in source[RATINGS]:
        query, ratings = _query(entry, path, len(texts) + 1)
        failures = entry.get("failures")
        failed += len(failures) if isinstance(failures, list) else 0
        texts.append(query)
        sizes.append(len(ratings))
        own_documents, own_grades = _ratings(ratings, path, len(documents) + 1)
        documents += own_documents
        grades += own_grades
    if not documents:
        raise BadInput(f"cannot read {path}: it has no judgment")
    column = decode(np.repeat(np.arange(len(texts)), sizes), texts)
    left_out = {
        "queries have no rating": sizes.count(0),
        "documents that the model failed to judge were left out": failed,
    }
    judge = _judge(source)
    lines = JudgmentLines(
        path,
        range(1, len(documents) + 1),
        column,
        documents,
        grades=grades,
        params={"keywords": column, "query": column},
        place="rating",
        notes=tuple(f"{n} {what}" for what, n in left_out.items() if n),
        judged_by=None if judge is None else [judge] * len(documents),
    )
    row = lines.row_without_text()
    if row is not None:
        raise lines.bad(row, "its query is empty")
    return lines


def import_body(judgments: Judgments) -> dict[str, Any]:
    """What imports the judgments into the workbench.

    Raises BadInput where a query has no text, or two have the same.
    """
    texts = [query.params.get("query", "") for query in judgments.queries]
    refuse_alike(judgments)
    return {
        "name": "judgments of owpc-ltr",
        "description": "Written by owpc-ltr.",
        "type": "IMPORT_JUDGMENT",
        RATINGS: [
            {
                "query": text,
                "ratings": [
                    {"docId": document, "rating": decimal(grade)}
                    for document, grade in zip(query.doc_ids, query.grades, strict=True)
                ],
            }
            for text, query in zip(texts, judgments.queries, strict=True)
        ],
    }


def refuse_alike(judgments: Judgments) -> None:
    """Refuse queries that a format without ids cannot tell apart, or cannot name at all."""
    texts = Counter(query.params.get("query", "") for query in judgments.queries)
    for query in judgments.queries:
        text = query.params.get("query", "")
        if not text.strip():
            raise BadInput(f"query {shown(query.query_id)} has no text")
        if texts[text] > 1:
            raise BadInput(
                f"{texts[text]} queries have the text {shown(text)}, and the format has no ids to "
                "tell them apart: write tsv"
            )


def _judge(source: dict[str, Any]) -> str | None:
    """Who gave the ratings, where a list is not imported: users' clicks, or a model."""
    if source.get("type") == "UBI_JUDGMENT":
        return CLICKS
    about = source.get("metadata")
    model = about.get("modelId", "unnamed") if isinstance(about, dict) else "unnamed"
    return f"model:{model}" if source.get("type") == "LLM_JUDGMENT" else None


def _source(content: Any, path: Path) -> dict[str, Any]:
    """The list, wherever in the content it is: with the ratings of each query."""
    source = content
    if isinstance(content, dict) and isinstance(content.get("hits"), dict):
        hits = content["hits"].get("hits")
        if not isinstance(hits, list) or len(hits) != 1 or not isinstance(hits[0], dict):
            count = len(hits) if isinstance(hits, list) else 0
            raise BadInput(
                f"cannot read {path}: it is an answer with {count} judgment lists, not one: name "
                "one, as GET _plugins/_search_relevance/judgments/ID"
            )
        source = hits[0].get("_source")
    entries = source.get(RATINGS) if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(entries, list):
        raise BadInput(
            f"cannot read {path}: no list '{RATINGS}' is in it, as the Search Relevance Workbench "
            "has it"
        )
    status = source.get("status", _COMPLETE)
    if status != _COMPLETE:
        raise BadInput(
            f"cannot read {path}: the list is {shown(str(status))}, not {_COMPLETE}: fetch it when "
            "it is"
        )
    return source


def _query(entry: Any, path: Path, number: int) -> tuple[str, list[Any]]:
    query = entry.get("query") if isinstance(entry, dict) else None
    ratings = entry.get("ratings") if isinstance(entry, dict) else None
    if not isinstance(query, str) or not isinstance(ratings, list):
        raise BadInput(
            f"cannot read {path}, query {number}: it is {kind_of(entry)} without a text 'query' "
            "and a list 'ratings'"
        )
    return query, ratings


def _ratings(ratings: list[Any], path: Path, first: int) -> tuple[list[str], list[str]]:
    """Documents and grades of a query; `first` is the number of its first rating."""
    try:
        found = [rating["docId"] for rating in ratings], [rating["rating"] for rating in ratings]
    except (KeyError, TypeError):
        found = [None], [None]
    if not {type(value) for part in found for value in part} <= {str}:
        # Not as the workbench writes it: looked at one by one.
        looked_at = [_rating(rating, path, first + n) for n, rating in enumerate(ratings)]
        found = [one for one, _ in looked_at], [grade for _, grade in looked_at]
    return found


def _rating(rating: Any, path: Path, number: int) -> tuple[str, str]:
    document = rating.get("docId") if isinstance(rating, dict) else None
    grade = rating.get("rating") if isinstance(rating, dict) else None
    if isinstance(document, str):
        if isinstance(grade, str):
            return document, grade
        if grade is None:
            return document, ""
        if isinstance(grade, int | float) and not isinstance(grade, bool):
            return document, repr(grade)
    raise BadInput(
        f"cannot read {path}, rating {number}: {shown(str(rating))} is not "
        '{"docId": "…", "rating": "1.0"}'
    )
