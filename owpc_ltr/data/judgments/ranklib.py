"""RankLib judgment lists: `# qid:1: keywords` lines, then `4 qid:1 # 7555 title` lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from owpc_ltr.data.judgments.lines import JudgmentLines
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

HEADER = re.compile(r"#\s*qid:(\S+):\s+(\S.*)")
ROW = re.compile(r"(\S+)\s+qid:(\S+)((?:\s+\d+:\S+)*)\s*#\s*(?:docid\s*=\s*)?(\S+)(?:\s.*)?")
_WEIGHT = re.compile(r"(.*\S)\*(\d+(?:\.\d+)?)")


def parse_ranklib(
    text: str, path: Path, topics: Mapping[str, str] | None
) -> tuple[JudgmentLines, list[str]]:
    """The judgments, and notes: the document id is the comment's first word.

    Feature values on the lines are passed over. A query's text is its header line's, without the
    `*weight` after it, or the topics'.
    """
    texts = dict(topics or {})
    named: dict[str, int] = {}
    numbers, rows, weighted, valued = [], [], 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if header := HEADER.fullmatch(stripped):
            query, content = header.groups()
            if weight := _WEIGHT.fullmatch(content):
                content = weight.group(1)
                weighted += float(weight.group(2)) != 1
            if query in named and texts[query] != content:
                raise BadInput(
                    f"cannot read {path}, line {number}: query {shown(query)} has the text "
                    f"{shown(content)}, and {shown(texts[query])} on line {named[query]}: keep one"
                )
            named[query], texts[query] = number, content
        elif stripped and not stripped.startswith("#"):
            row = ROW.fullmatch(stripped)
            if row is None:
                raise BadInput(
                    f"cannot read {path}, line {number}: {shown(stripped)} is not 'grade qid:ID # "
                    "document …'"
                )
            numbers.append(number)
            rows.append((row[1], row[2], row[4]))
            valued += bool(row[3])
    if not rows:
        raise BadInput(f"cannot read {path}: it has no judgment")
    grades, query_ids, document_ids = zip(*rows, strict=True)
    keywords = [texts.get(query, "") for query in query_ids]
    lines = JudgmentLines(
        path, numbers, query_ids, document_ids, grades, {"keywords": keywords, "query": keywords}
    )
    if "" in keywords:
        missing = keywords.index("")
        raise lines.bad(
            missing,
            f"query {shown(query_ids[missing])} has no text: write '# qid:{query_ids[missing]}: "
            "keywords' above, or name a topics file",
        )
    return lines, _notes(weighted, valued, len(named.keys() - set(query_ids)))


def _notes(weighted: int, valued: int, unjudged: int) -> list[str]:
    counts = (
        (weighted, "queries have a weight other than 1, which is not used"),
        (valued, "lines have feature values, which were passed over"),
        (unjudged, "queries have a text and no judgment"),
    )
    return [f"{count} {what}" for count, what in counts if count]
