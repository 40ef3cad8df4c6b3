"""Judgment lists of OpenSearch's Search Relevance Workbench, as JSON.

A file holds the answer of `GET _plugins/_search_relevance/judgments/ID`, or what
`PUT _plugins/_search_relevance/judgments` imports:

    {"type": "IMPORT_JUDGMENT", "name": "…", "judgmentRatings": [
        {"query": "rambo", "ratings": [{"docId": "7555", "rating": "4.0"}]}]}

Queries have no ids there: the text is the id. A rating of null is none yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgment_tables import (
    RATINGS,
    begins_object,
    import_body,
    lines_of_list,
    read_whole_json,
)
from owpc_ltr.data.judgments import JudgmentLines, Judgments
from owpc_ltr.files.input import read_text
from owpc_ltr.protocols import JudgmentReader

_KEY = re.compile(rf'"{RATINGS}"\s*:'.encode())


@dataclass(frozen=True)
class Srw:
    """A list of OpenSearch's Search Relevance Workbench, fetched or to be imported."""

    name: ClassVar[str] = "srw"
    precedence: ClassVar[int] = 20
    ids_are_texts: ClassVar[bool] = True

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether it begins an object that has `judgmentRatings`, and is no line of jsonl."""
        return begins_object(head, _KEY)

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:  # noqa: ARG002
        """The judgments. Raises BadInput for what is no such list, or not a complete one."""
        return lines_of_list(read_whole_json(read_text(path), path), path)

    def to_bytes(self, judgments: Judgments) -> bytes:
        """The body that imports them. Raises BadInput where two queries have the same text."""
        body = import_body(judgments)
        ratings = body.pop(RATINGS)
        # A line for each query: people look into such files.
        lines = ",\n".join(json.dumps(rating, ensure_ascii=False) for rating in ratings)
        return f'{json.dumps(body)[:-1]}, "{RATINGS}": [\n{lines}\n]}}\n'.encode()

    def example(self) -> bytes:
        """Two judgments of one query, to be imported."""
        return (
            b'{"name": "movies", "type": "IMPORT_JUDGMENT", "judgmentRatings": [{"query": "rambo", '
            b'"ratings": [{"docId": "7555", "rating": "4.0"}, {"docId": "1370", "rating": "0.5"}]}'
            b"]}\n"
        )


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `srw`."""
    return [Srw]
