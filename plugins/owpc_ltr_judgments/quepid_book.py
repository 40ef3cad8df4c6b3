"""Quepid's books as JSON, with the judgments of several judges.

A book has `query_doc_pairs`, each with `judgements` by `user_email`; what is unrateable is left out
and counted. A document that several judged is there as often: `judge merge` settles it, and
`--duplicates` does elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.data.judgments.grouping import decimal
from owpc_ltr.data.judgments.pools import refuse_alike
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text
from owpc_ltr.files.strict_json import read_json_value
from owpc_ltr.protocols import JudgmentReader

_KEY = re.compile(rb'"query_doc_pairs"\s*:')


@dataclass(frozen=True)
class QuepidBook:
    """A book of Quepid, exported or to be imported."""

    name: ClassVar[str] = "quepid-book"
    precedence: ClassVar[int] = 21
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether it begins an object that has `query_doc_pairs`."""
        return head.lstrip().startswith(b"{") and bool(_KEY.search(head))

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """One entry for each judge of a pair. Raises BadInput for what is no book."""
        try:
            content = read_json_value(read_text(path))
        except ValueError as error:
            raise BadInput(f"cannot read {path}: it is no whole JSON ({error})") from error
        pairs = content.get("query_doc_pairs") if isinstance(content, dict) else None
        if not isinstance(pairs, list):
            raise BadInput(f"cannot read {path}: it has no list 'query_doc_pairs', as a book has")
        rows: list[tuple[int, str, str, str, str]] = []
        unrateable = 0
        for number, pair in enumerate(pairs, 1):
            for judgement in _judgements(pair, path, number):
                rating = judgement.get("rating")
                if rating is None or judgement.get("unrateable") is True:
                    unrateable += 1
                    continue
                judge = judgement.get("user_email") or ""
                rows.append((number, pair["query_text"], pair["doc_id"], str(rating), str(judge)))
        if not rows:
            raise BadInput(f"cannot read {path}: the book has no rating")
        numbers, queries, documents, grades, judges = map(list, zip(*rows, strict=True))
        return JudgmentLines(
            path,
            numbers,
            queries,
            documents,
            grades=grades,
            params={"keywords": queries, "query": queries},
            place="pair",
            judged_by=judges if any(judges) else None,
            notes=(f"{unrateable} judgements without a rating were left out",) * bool(unrateable),
        )

    def to_bytes(self, judgments: Judgments) -> bytes:
        """A book to import. Raises BadInput where two queries have the same text."""
        refuse_alike(judgments)
        grades = {grade for query in judgments.queries for grade in query.grades}
        pairs = [
            {
                "query_text": query.params["query"],
                "doc_id": document,
                "judgements": [
                    {"rating": float(decimal(grade)), **({"user_email": judge} if judge else {})}
                ],
            }
            for query in judgments.queries
            for document, grade, judge in zip(
                query.doc_ids,
                query.grades,
                query.judged_by or [""] * len(query.doc_ids),
                strict=True,
            )
        ]
        lines = ",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs)
        scale = ",".join(map(decimal, sorted(grades)))
        head = json.dumps({"name": "judgments of owpc-ltr", "scale": scale})
        return f'{head[:-1]}, "query_doc_pairs": [\n{lines}\n]}}\n'.encode()

    def example(self) -> bytes:
        """Two judgments of one query."""
        return (
            b'{"name": "movies", "scale": "0,1,2,3,4", "query_doc_pairs": [{"query_text": "rambo", '
            b'"doc_id": "7555", "judgements": [{"rating": 4.0}]}, {"query_text": "rambo", '
            b'"doc_id": "1370", "judgements": [{"rating": 0.5}]}]}\n'
        )


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `quepid-book`."""
    return [QuepidBook]


def _judgements(pair: Any, path: Path, number: int) -> list[dict[str, Any]]:
    of = pair.get("judgements") if isinstance(pair, dict) else None
    texts = [pair.get(name) for name in ("query_text", "doc_id")] if isinstance(pair, dict) else []
    if not isinstance(of, list) or not all(isinstance(text, str) for text in [*texts, ""]):
        raise BadInput(
            f"cannot read {path}, pair {number}: it needs texts 'query_text' and 'doc_id', and a "
            "list 'judgements'"
        )
    if not all(isinstance(judgement, dict) for judgement in of):
        raise BadInput(f"cannot read {path}, pair {number}: a judgement is no object")
    return of
