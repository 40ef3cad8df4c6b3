"""Search requests: the query with its keywords, and the rescore clauses that a model adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.http.responses import part_of
from owpc_ltr.engine.search.window import window_safe
from owpc_ltr.engine.store.base import Store
from owpc_ltr.engine.store.templates import render
from owpc_ltr.errors import Refused, UsageError
from owpc_ltr.files.json_object import read_json_object
from owpc_ltr.interop.client_scored import is_client_scored
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.names import check_index

KEYWORDS = "{{keywords}}"


@dataclass(frozen=True)
class SearchRequest:
    """What a search asks for, with a model or without.

    `query` is a template such as `{"match": {"title": "{{keywords}}"}}`; `params` fill it and the
    features. The best `size` documents are shown, the best `window` rescored. Raises UsageError
    for a query that cannot be rescored.
    """

    index: str
    query: dict[str, Any]
    params: dict[str, Any]
    size: int = 10
    window: int = 100

    def __post_init__(self) -> None:
        check_index(self.index)
        check_query(self.query)

    @property
    def filled(self) -> dict[str, Any]:
        """The query with its parameters in their places."""
        return render(self.query, self.params)

    def showing_window(self) -> SearchRequest:
        """The request that shows the whole window."""
        return replace(self, size=max(self.size, self.window))


def default_query(engine: Engine, index: str) -> dict[str, Any]:
    """A plain full-text query over all text fields of an index, for `{{keywords}}`."""
    mapping = engine.request("GET", f"/{check_index(index)}/_mapping")
    words = f"the mapping of '{index}'"
    fields: set[str] = set()
    for name in mapping if isinstance(mapping, dict) else [""]:
        found = part_of(part_of(mapping, name, words), "mappings", words)
        fields |= set(_text_fields(found.get("properties", {})))
    if not fields:
        raise UsageError(
            f"the index '{index}' has no text field to search: give your application's query with "
            "--query FILE"
        )
    return {"multi_match": {"query": KEYWORDS, "fields": sorted(fields)}}


def check_query(query: dict[str, Any]) -> None:
    """Refuse what an engine cannot rescore, before it answers with a riddle."""
    for part in ("sort", "collapse", "rescore", "scroll"):
        if part in query:
            raise UsageError(
                f"the query has a '{part}', and results cannot be rescored with one: give the "
                "query alone"
            )


UNRANKED = frozenset(
    {"query", "size", "from", "_source", "fields", "aggs", "highlight", "track_total_hits"}
)
"""The parts of a search's body that do not change its ranking, and its query."""


def read_query(path: Path) -> dict[str, Any]:
    """The query of a file (JSON), which may hold the whole body of a search.

    Raises UsageError where the body has what would rank otherwise.
    """
    content = read_json_object(path)
    query = content.get("query")
    if not isinstance(query, dict):
        return content
    check_query(content)
    changes = sorted(content.keys() - UNRANKED)
    if changes:
        raise UsageError(
            f"{path} has a '{changes[0]}' beside its query, which would not be asked for: give the "
            "query alone"
        )
    return query


def request_body(
    store: Store,
    model: StoredModel | None,
    request: SearchRequest,
    interval: ScoreInterval | None = None,
) -> dict[str, Any]:
    """The body that an application sends: the query, and the rescoring of its best documents.

    The window is never smaller than what is shown: a document beyond it would keep a score of
    another scale. With the `interval` of the model's scores, that is also safe for later pages,
    beyond the window (see `window.py`).
    """
    body: dict[str, Any] = {"query": request.filled, "size": request.size}
    if model is not None:
        if is_client_scored(model):
            raise Refused(
                f"'{model.name}' is scored by the client, so that there is no request for the "
                "engine alone: use owpc-ltr search, or a cluster with the LTR plugin"
            )
        clauses = store.rescore(model, request.params, max(request.window, request.size))
        body["rescore"] = window_safe(clauses, interval) if interval else clauses
    return body


def _text_fields(properties: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, content in properties.items():
        if content.get("type") == "text":
            found.append(prefix + name)
        found += _text_fields(content.get("properties", {}), f"{prefix}{name}.")
    return found
