"""The queries that commands send: an application's own, filled with what a user types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads, read_json_object
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine

_UNRANKED = {"query", "size", "from", "_source", "fields", "aggs", "highlight", "track_total_hits"}
"""The parts of a search's body that do not change its ranking, and its query."""


@dataclass(frozen=True)
class Question:
    """What is asked, how much of it is shown, and how much rescored."""

    size: Annotated[int, typer.Option(min=1, help="How many results.")] = 10
    window: Annotated[
        int, typer.Option(min=1, help="How many of the best documents are rescored.")
    ] = 100
    query: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Your application's query (JSON), with {{keywords}} where the user's words go; "
            "default: all text fields.",
        ),
    ] = None
    param: Annotated[
        list[str] | None, typer.Option(help="A further parameter of the features, NAME=VALUE.")
    ] = None

    def template(self, engine: Engine, index: str) -> dict[str, Any]:
        """The query, with places to fill in."""
        return read_template(engine, index, self.query)

    def params(self, keywords: str) -> dict[str, str]:
        """What fills the query and the features."""
        return {"keywords": keywords, "query": keywords, **_named(self.param or ())}


def read_template(engine: Engine, index: str, path: Path | None) -> dict[str, Any]:
    """The query of a file, else a plain one over all text fields of the index."""
    from owpc_ltr.engine.search.request import check_query, default_query

    if path is None:
        return default_query(engine, index)
    content = read_json_object(path)
    query = content.get("query")
    if not isinstance(query, dict):
        return content
    # The whole body of a search is welcome too: its query is what is rescored.
    check_query(content)
    changes = sorted(content.keys() - _UNRANKED)
    if changes:
        raise UsageError(
            f"{path} has a '{changes[0]}' beside its query, which would not be asked for: give the "
            "query alone"
        )
    return query


def _named(texts: Iterable[str]) -> dict[str, str]:
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"cannot read the parameter '{text}': write it as NAME=VALUE")
        params[name] = value
    return params
