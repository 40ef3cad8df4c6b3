"""`owpc-ltr rescore-body`: the request by which an application lets the engine use a model."""

from __future__ import annotations

from typing import Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index
from owpc_ltr.cli.output import print_body
from owpc_ltr.cli.queries import Question


@grouped
def rescore_body(
    keywords: Annotated[
        str, typer.Argument(help="What the user types; default: a place to fill in.")
    ] = "{{keywords}}",
    *,
    index: Index = None,
    model: Annotated[
        str | None,
        typer.Option(help="The name that it was uploaded under; NAME:challenger for its rival."),
    ] = None,
    question: Question,
    place: StoreOptions,
) -> None:
    """Print the search request that an application sends.

    POST it to /INDEX/_search.

    Without KEYWORDS it is a search template, with {{keywords}} where the user's words go. Add
    "from" for later pages: no document beyond the window passes one within it.
    """
    body = place.connect().rescore_body(keywords, model=model, index=index, **question.asked())
    print_body(body)
