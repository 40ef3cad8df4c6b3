"""Sheets to rate, of documents whose true grades are known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.judgment_tables import write_sheet
from owpc_ltr.data.judgments import JudgedQuery

WORDS = ("alien", "robot", "wizard", "desert", "ocean", "castle", "engine", "garden", "winter")


def grading_sheet(
    path: Path, queries: int = 6, documents: int = 5, hostile: bool = False
) -> dict[tuple[str, str], int]:
    """Write a sheet; the true grade of each pair: how often the document has the query's word."""
    judged, shown, truth = [], {}, {}
    for number in range(queries):
        word = f"{WORDS[number % len(WORDS)]}{number}"
        ids = [f"d{number}-{place}" for place in range(documents)]
        for place, document in enumerate(ids):
            grade = place % 4
            others = " ".join(f"other{number}{n}" for n in range(8))
            title = f"{word} " * grade + f"title {place}"
            end = " </script><!-- \u2028 =1+1" if hostile else ""
            shown[document] = {"title": title.strip(), "body": f"{others}{end}"}
            truth[f"q{number}", document] = grade
        params = {"query": word, "keywords": word, "information_need": f"all about {word}"}
        judged.append(JudgedQuery(f"q{number}", params, ids, np.zeros(documents, np.float32)))
    write_sheet(judged, ("title", "body"), shown, path)
    return truth


def posted(app: Any, body: bytes) -> tuple[int, str]:
    """The answer of the service of a page to a rater's answer, without a connection."""
    headers = {"host": "127.0.0.1", "content-type": "application/json"}
    scope = {
        "type": "http", "method": "POST", "path": "/answers", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], sent[1]["body"].decode()
