"""Files of each judgment format, for the contract of judgment readers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from owpc_ltr.data.judgments import Judgments
from owpc_ltr.plugin_checks import Judged

IDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]), min_size=1, max_size=5
)
"""Ids that every format can hold: without blanks and characters that nobody sees."""


def table(rows: Sequence[Judged], delimiter: str) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["query_id", "query", "doc_id", "grade"])
    writer.writerows([row.query_id, row.query, row.document_id, row.grade] for row in rows)
    return out.getvalue().encode()


def qrels(rows: Sequence[Judged]) -> bytes:
    for row in rows:
        refuse_blanks(row)
    return "".join(
        f"{row.query_id} 0 {row.document_id} {row.grade}\n" for row in rows
    ).encode()  # fmt: skip


def ranklib(rows: Sequence[Judged]) -> bytes:
    for row in rows:
        refuse_blanks(row)
    texts = {row.query_id: row.query for row in rows}
    heads = "".join(f"# qid:{query}: {text}\n" for query, text in texts.items())
    return (
        heads + "".join(f"{row.grade} qid:{row.query_id} # {row.document_id}\n" for row in rows)
    ).encode()


def refuse_blanks(row: Judged) -> None:
    for value in (row.query_id, row.document_id):
        if value.split() != [value]:
            raise ValueError(f"an id with blanks: {value!r}")


def parquet(rows: Sequence[Judged]) -> bytes:
    columns = {
        "query_id": [row.query_id for row in rows],
        "query": [row.query for row in rows],
        "doc_id": [row.document_id for row in rows],
        "grade": [float(row.grade) for row in rows],
    }
    return table_bytes(columns)


def table_bytes(columns: Mapping[str, Any]) -> bytes:
    """A Parquet file."""
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), file)
    return bytes(file.getvalue())


def jsonl(rows: Sequence[Judged]) -> bytes:
    lines = (
        {
            "qid": row.query_id,
            "query": row.query,
            "document_id": row.document_id,
            "grade": row.grade,
        }
        for row in rows
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def srw(rows: Sequence[Judged]) -> bytes:
    entries: list[dict[str, Any]] = []
    for query, own in groupby(rows, lambda row: row.query):
        ratings = [{"docId": row.document_id, "rating": row.grade} for row in own]
        entries.append({"query": query, "ratings": ratings})
    body = {"name": "a", "type": "IMPORT_JUDGMENT", "judgmentRatings": entries}
    return json.dumps(body).encode()


def quepid(rows: Sequence[Judged]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["query", "docid", "rating"])
    writer.writerows([row.query, row.document_id, row.grade] for row in rows)
    return out.getvalue().encode()


def quepid_book(rows: Sequence[Judged]) -> bytes:
    pairs = [
        {
            "query_text": row.query,
            "doc_id": row.document_id,
            "judgements": [{"rating": row.grade, "user_email": "ann@a.org"}],
        }
        for row in rows
    ]
    return json.dumps({"name": "a", "scale": "0,1,2,3,4", "query_doc_pairs": pairs}).encode()


def quepid_judges(rows: Sequence[Judged]) -> bytes:
    return quepid(rows).replace(b"query,docid,rating", b"query,docid,ann@a.org", 1)


def ratings(rows: Sequence[Judged]) -> bytes:
    lines = (
        {
            "sheet": "5ee7",
            "judged_by": "ann",
            "query_id": row.query_id,
            "query": row.query,
            "doc_id": row.document_id,
            "grade": float(row.grade),
        }
        for row in rows
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


WRITERS: Mapping[str, Callable[[Sequence[Judged]], bytes]] = {
    "csv": lambda rows: table(rows, ","),
    "tsv": lambda rows: table(rows, "\t"),
    "qrels": qrels,
    "ranklib": ranklib,
    "parquet": parquet,
    "jsonl": jsonl,
    "srw": srw,
    "quepid": quepid,
    "quepid book": quepid_book,
    "quepid judges": quepid_judges,
    "ratings": ratings,
}


Ratings = dict[str, list[tuple[Any, Any]]]
RAMBO: Ratings = {
    "rambo": [("7555", "4.000"), ("1370", "0.500")],
    "- rocky? §": [("a b", 3)],
}


def entries(ratings: Ratings) -> list[dict[str, Any]]:
    return [
        {"query": query, "ratings": [{"docId": d, "rating": r} for d, r in judged]}
        for query, judged in ratings.items()
    ]


def fetched(ratings: Ratings, **more: Any) -> dict[str, Any]:
    source = {
        "id": "b54f791a-3b02-49cb-a06c-46ab650b2ade", "timestamp": "2025-06-11T06:07:23.766Z",
        "name": "n", "status": "COMPLETED", "type": "IMPORT_JUDGMENT", "metadata": {},
        "judgmentRatings": entries(ratings), **more,
    }  # fmt: skip
    hit = {
        "_index": "search-relevance-judgment",
        "_id": source["id"],
        "_score": 1,
        "_source": source,
    }
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    total = {"value": 1, "relation": "eq"}
    return {
        "took": 3,
        "timed_out": False,
        "_shards": shards,
        "hits": {"total": total, "hits": [hit]},
    }


def rows_of(judgments: Judgments) -> list[Any]:
    return [
        (q.query_id, q.params, dict(zip(q.doc_ids, q.grades.tolist(), strict=True)))
        for q in judgments.queries
    ]


def plain(judgments: Judgments) -> list[Any]:
    """Queries, their parameters, documents in order, and grades."""
    return [(q.query_id, q.params, q.doc_ids, q.grades.tolist()) for q in judgments.queries]
