"""Judgments of Quepid: ratings and judges of a case as CSV or JSON, and books as JSON.

- `query,docid,rating`: what Quepid exports and imports. A query that nobody rated has a line of its
  own, without commas, and a document that nobody rated an empty rating. Quepid puts a blank before
  a text that begins with one of - = + @, so that no spreadsheet takes it for a formula, and so do
  we before an id.
- `query,docid`, then a column for each judge, whose names say so (an e-mail address, `judge 1`);
  judges of other names need `grade=ann,bob`.
- A case, or its ratings alone: `queries`, each with `query_text` (or `query`) and `ratings` by
  document.
- The ratings of RRE (Rated Ranking Evaluator), which Quepid exports too: `queries` with
  `placeholders` and `relevant_documents`, in `topics` and `query_groups` or without.
- A book: `query_doc_pairs`, each with `judgements` by `user_email`; what is unrateable is left out
  and counted.

Queries have no ids there: the text is the id. A document that several judged is there as often:
`judge merge` settles it, and `--duplicates` does elsewhere.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.compute as pc

from owpc_ltr import hookimpl
from owpc_ltr.data.judgment_tables import (
    Rating,
    are_judges,
    begins_object,
    lines_of_ratings,
    parse_table,
    read_whole_json,
    refuse_alike,
)
from owpc_ltr.data.judgments import JudgmentLines, Judgments, decimal
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import first_lines, read_text
from owpc_ltr.files.strict_json import a_json, take_list, take_text
from owpc_ltr.protocols import JudgmentReader

_FIRST = ["query", "docid"]
_KEYS = re.compile(rb'"(query_doc_pairs|queries|query_groups|topics)"\s*:\s*\[|"case_name"\s*:')
_FORMULA = re.compile(r"[-=+@]")
_GUARDED = r"^ ([-=+@])"


@dataclass(frozen=True)
class Quepid:
    """Quepid's `query,docid,rating`, its columns by judge, its cases and books; RRE's ratings."""

    name: ClassVar[str] = "quepid"
    precedence: ClassVar[int] = 21
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether it begins a book or a case, or its header is one of Quepid's."""
        first = next(iter(first_lines(head)), "")
        if first.startswith("{"):
            return begins_object(head, _KEYS)
        names = _names(first)
        lowered = [name.strip().lower() for name in names]
        return lowered == [*_FIRST, "rating"] or (lowered[:2] == _FIRST and are_judges(names[2:]))

    def read(
        self,
        path: Path,
        topics: Mapping[str, str] | None = None,  # noqa: ARG002
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentLines:
        """The judgments, one entry for each judge of a pair, and a note of what has none."""
        text = read_text(path)
        if text.lstrip().startswith("{"):
            content = read_whole_json(text, path)
            return (_book if "query_doc_pairs" in content else _case)(content, path)
        header = text.partition("\n")[0].rstrip("\r")
        if not columns and are_judges(_names(header)[2:]):
            columns = {"grade": header.split(",", 2)[2]}
        lines = parse_table(text, path, ",", None, unjudged_queries=True, columns=columns)
        query, documents = _unguarded(lines)
        params = {"keywords": query, "query": query}
        return replace(lines, query_ids=query, doc_ids=documents, params=params)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """Ratings as CSV. Raises BadInput where two queries have the same text."""
        refuse_alike(judgments)
        out = io.StringIO(newline="")
        rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
        out.write("query,docid,rating\n")
        for query in judgments.queries:
            text = _guarded(query.params["query"])
            for document, grade in zip(query.doc_ids, query.grades, strict=True):
                rows.writerow([text, _guarded(document), decimal(grade)])
        return out.getvalue().encode()

    def example(self) -> bytes:
        """Two judgments of one query, and a query that has none."""
        return b"query,docid,rating\nrambo,7555,4\nrambo,1370,0.5\nrocky\n"


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `quepid`."""
    return [Quepid]


def _names(header: str) -> list[str]:
    """The names of the columns; a carriage return within the line does not end it."""
    return next(csv.reader([header.replace("\r", " ")], skipinitialspace=True), [])


def _guarded(text: str) -> str:
    return f" {text}" if _FORMULA.match(text) else text


def _unguarded(lines: JudgmentLines) -> list[Any]:
    """The texts of queries and the ids of documents, as they were before."""
    columns = (lines.query_ids, lines.doc_ids)
    return [pc.replace_substring_regex(column, _GUARDED, r"\1") for column in columns]


def _book(content: dict[str, Any], path: Path) -> JudgmentLines:
    pairs = take_list(content, "query_doc_pairs", f"the book {path}")
    entries: list[Rating] = []
    unrateable = 0
    for number, pair in enumerate(pairs, 1):
        where = f"pair {number} of {path}"
        query, document = (take_text(pair, key, where) for key in ("query_text", "doc_id"))
        for judgement in take_list(pair, "judgements", where):
            if not isinstance(judgement, dict):
                raise BadInput(f"a judgement of {where} is {a_json(judgement)}, not an object")
            rating = judgement.get("rating")
            if rating is None or judgement.get("unrateable") is True:
                unrateable += 1
                continue
            judge = str(judgement.get("user_email") or "")
            entries.append((number, query, document, str(rating), judge))
    left_out = {"judgements without a rating were left out": unrateable}
    return lines_of_ratings(entries, path, "pair", left_out)


def _case(content: dict[str, Any], path: Path) -> JudgmentLines:
    entries: list[Rating] = []
    unrated = 0
    try:
        for text, rated in _queries_of_case(content):
            ratings = [
                (document, "" if rating is None else str(rating))
                for name, value in rated.items()
                for document, rating in _ratings(name, value)
            ]
            unrated += not ratings
            for document, rating in ratings:
                entries.append((len(entries) + 1, text, document, rating, ""))
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput(
            f"cannot read {path}: it is no case of Quepid, with 'queries' that have 'query_text' "
            "and 'ratings' by document, and no ratings of RRE, with 'placeholders' and "
            "'relevant_documents'"
        ) from error
    return lines_of_ratings(entries, path, "rating", {"queries have no rating": unrated})


def _queries_of_case(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each query's text, and what its documents are worth; in RRE a group may say it for all."""
    for topic in [content, *content.get("topics", ())]:
        for group in [topic, *topic.get("query_groups", ())]:
            for query in group.get("queries", ()):
                placeholders = query.get("placeholders", {})
                first = placeholders.get("$query", next(iter(placeholders.values()), None))
                text = query.get("query_text", query.get("query", first))
                rated = query.get("ratings", query.get("relevant_documents"))
                rated = group["relevant_documents"] if rated is None else rated
                if not isinstance(text, str):
                    raise TypeError
                yield text, rated


def _ratings(name: str, value: Any) -> list[tuple[str, Any]]:
    """Documents and their ratings, of `document: 3`, `document: {gain: 3}`, `3: [document]`."""
    if isinstance(value, list):
        return [(str(document), name) for document in value]
    return [(name, value["gain"] if isinstance(value, dict) else value)]
