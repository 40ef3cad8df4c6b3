"""Judgments as JSON lines, several a line: an example of a judgment reader.

{"query_id": "q1", "query": "rambo", "judged": [["7555", 4], ["1370", 0.5]]}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from owpc_ltr import BadInput, hookimpl
from owpc_ltr.types import JudgmentLines, JudgmentReader, read_text, shown

_FORM = '{"query_id": …, "query": …, "judged": [[document, grade], …]}'


@dataclass(frozen=True)
class JsonLines:
    """One object a line, with query_id, query, and the documents judged for it, with grades."""

    name: ClassVar[str] = "json-lines"
    precedence: ClassVar[int] = 10

    def recognises(self, _path: Path, head: bytes) -> bool:
        """Whether the first line that is not blank begins an object, and has `judged` in it."""
        return head.lstrip().startswith(b'{"') and b'"judged"' in head.lstrip().split(b"\n")[0]

    def read(self, path: Path, topics: Mapping[str, str] | None = None) -> JudgmentLines:
        """The judgments. Raises BadInput for a line that is no such object."""
        numbers: list[int] = []
        rows: list[tuple[str, str, str, str]] = []
        # Unicode has more line ends than one, which may stand inside a text.
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if line.strip():
                found = _judged(line, f"{path}, line {number}")
                numbers += [number] * len(found)
                rows += found
        if not rows:
            raise BadInput(f"cannot read {path}: it has no judgment")
        ids, texts, documents, grades = (list(column) for column in zip(*rows, strict=True))
        params = {"query": texts, "keywords": texts}
        lines = JudgmentLines(path, numbers, ids, documents, grades=grades, params=params)
        lines.check_texts(lambda query_id: f"query {shown(query_id)} has no text")
        return lines

    def example(self) -> bytes:
        """Two judgments of one query."""
        judged = {"query_id": "q1", "query": "rambo", "judged": [["7555", 4], ["1370", 0.5]]}
        return f"{json.dumps(judged)}\n".encode()


def _judged(line: str, where: str) -> list[tuple[str, str, str, str]]:
    """Query id, query, document id and grade of each judgment in a line."""
    try:
        content = json.loads(line)
        query, text = content["query_id"], content["query"]
        return [
            (_text(query), _text(text), _text(document), _text(grade))
            for document, grade in content["judged"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"cannot read {where}: {shown(line)} is not {_FORM}") from error


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise TypeError(f"{value!r} is neither text nor a number")


@hookimpl
def ltr_judgment_readers() -> list[type[JudgmentReader]]:
    """Offer the format `json-lines`."""
    return [JsonLines]
