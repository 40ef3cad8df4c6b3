"""Judgments as JSON lines: what a stranger writes to add a format of judgment lists.

{"query_id": "q1", "query": "rambo", "doc_id": "7555", "grade": 4}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.data.judgments import JudgmentLines
from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import read_text, shown
from owpc_ltr.protocols import JudgmentReader

_KEYS = ("query_id", "query", "doc_id", "grade")


@dataclass(frozen=True)
class JsonLines:
    """One object a line, with query_id, query, doc_id and grade; texts and numbers both do."""

    name: ClassVar[str] = "json-lines"
    precedence: ClassVar[int] = 10

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line that is not blank begins an object."""
        return head.lstrip().startswith(b'{"')

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        """The judgments. Raises BadInput for a line that is no such object."""
        numbers: list[int] = []
        rows: list[list[str]] = []
        # Unicode has more line ends than one, which may stand inside a text.
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if line.strip():
                numbers.append(number)
                rows.append(_row(line, f"{path}, line {number}"))
        if not rows:
            raise BadInput(f"cannot read {path}: it has no judgment")
        ids, texts, documents, grades = (list(column) for column in zip(*rows, strict=True))
        params = {"query": texts, "keywords": texts}
        lines = JudgmentLines(path, numbers, ids, documents, grades, params)
        row = lines.row_without_text()
        if row is not None:
            raise lines.bad(row, f"query {shown(ids[row])} has no text")
        return lines

    def example(self) -> bytes:
        """Two judgments of one query."""
        query = {"query_id": "q1", "query": "rambo"}
        judged = ({"doc_id": "7555", "grade": 4}, {"doc_id": "1370", "grade": 0.5})
        return "".join(f"{json.dumps(query | one)}\n" for one in judged).encode()


def _row(line: str, where: str) -> list[str]:
    try:
        content = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not set(_KEYS) <= set(content):
        keys = ", ".join(_KEYS)
        raise BadInput(f"cannot read {where}: {shown(line)} is not an object with {keys}")
    return [_text(content[key], f"{where}: {key}") for key in _KEYS]


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise BadInput(f"cannot read {where} is {value!r}, neither text nor a number")


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `json-lines`."""
    return [JsonLines]
