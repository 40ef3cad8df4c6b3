"""Judgment lists of every format → judgments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import get_args

from owpc_ltr.data.judgments.lines import JudgmentLines, group
from owpc_ltr.data.judgments.ranklib import HEADER, parse_ranklib
from owpc_ltr.data.judgments.tables import parse_table
from owpc_ltr.data.judgments.trec import parse_qrels, read_topics
from owpc_ltr.data.judgments.types import Duplicates, Format, Judgments
from owpc_ltr.data.judgments.unjudged import judged_lines
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.files.text import read_text

_LOOKED_AT = 50
_RANKLIB_ROW = re.compile(r"\S+\s+qid:\S+(\s|$)")
_QRELS_ROW = re.compile(r"\S+\s+Q?0\s+\S+\s+[+-]?[\d.]+")


def read_judgments(
    path: Path | str,
    *,
    format: Format | None = None,  # noqa: A002 - the user's word
    topics: Path | str | None = None,
    duplicates: Duplicates = "refuse",
    skip_unjudged: bool = False,
) -> Judgments:
    """The judgments in a file (plain, gzip, xz or zstandard), its format told by content.

    - csv, tsv: a header names `query_id` (or qid), `query` (keywords, query_text), `doc_id`
      (document_id, docid) and `grade` (label, relevance, rating). Further columns are parameters of
      the query; an empty cell is no parameter. Without query ids the text is the id.
    - qrels: TREC's `query 0 document grade`, with `topics` (TREC's, or id TAB text) for the texts.
      Negative grades (spam) become 0, and are counted in the notes.
    - ranklib: `# qid:1: keywords`, then `4 qid:1 # document …`.

    Lines with an empty grade are not judged yet: `skip_unjudged` leaves them out. A query's lines
    may lie apart. Raises BadInput, naming file, line and value, for anything that
    is not as said, and for a document that is judged twice unless `duplicates` names what to do.
    """
    path = Path(path)
    for what, value, known in (
        ("format", format or "csv", get_args(Format)),
        ("policy for duplicates", duplicates, get_args(Duplicates)),
    ):
        if value not in known:
            raise UsageError(f"there is no {what} '{value}': use {', '.join(known)}")
    text = read_text(path)
    texts = None if topics is None else read_topics(Path(topics))
    kind = format or _told_by_content(text, path)
    lines, notes = _parse(text, path, kind, texts)
    lines, left_out = judged_lines(lines, skip=skip_unjudged)
    notes += left_out
    grades = lines.read_grades()
    if kind == "qrels":
        spam = int((grades < 0).sum())
        notes += [f"{spam} negative grades were read as 0"] if spam else []
        grades = grades.clip(min=0)
    lines.refuse_negative(grades)
    queries = group(lines, grades, duplicates)
    kept = sum(len(query.document_ids) for query in queries)
    if kept < len(grades):
        notes.append(f"{len(grades) - kept} duplicates were merged by '{duplicates}'")
    if texts is not None and (idle := len(texts.keys() - set(lines.query_ids))):
        notes.append(f"{idle} topics have no judgment")
    return Judgments(queries, tuple(notes))


def _parse(
    text: str, path: Path, kind: Format, topics: Mapping[str, str] | None
) -> tuple[JudgmentLines, list[str]]:
    if kind == "ranklib":
        return parse_ranklib(text, path, topics)
    if kind == "qrels":
        return parse_qrels(text, path, topics), []
    return parse_table(text, path, "\t" if kind == "tsv" else None, topics), []


def _told_by_content(text: str, path: Path) -> Format:
    head = _head(text)
    if not head:
        raise BadInput(f"cannot read {path}: it is empty")
    if re.match(r"<top(ic)?\b", head[0], re.IGNORECASE):
        raise BadInput(
            f"cannot read {path}: these are topics, which have no grades: name the judgments, and "
            "this file as their topics"
        )
    if any(HEADER.fullmatch(line) or _RANKLIB_ROW.match(line) for line in head):
        return "ranklib"
    return "qrels" if all(_QRELS_ROW.fullmatch(line) for line in head) else "csv"


def _head(text: str) -> list[str]:
    """The first lines that are not blank."""
    lines = (match.group().strip() for match in re.finditer(r"[^\n]+", text))
    return list(islice((line for line in lines if line), _LOOKED_AT))
