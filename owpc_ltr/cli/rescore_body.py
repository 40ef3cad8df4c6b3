"""`owpc-ltr rescore-body`: the request by which an application lets the engine use a model."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import Place
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index
from owpc_ltr.cli.output import warn
from owpc_ltr.cli.queries import Question

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.interop.stored_model import StoredModel
    from owpc_ltr.models.score_range import ScoreInterval


@grouped
def rescore_body(
    keywords: Annotated[
        str, typer.Argument(help="What the user types; default: a place to fill in.")
    ] = "{{keywords}}",
    *,
    index: Index,
    model: Annotated[
        str,
        typer.Option(help="The name that it was uploaded under; NAME:challenger for its rival."),
    ],
    question: Question,
    place: Place,
) -> None:
    """Print the search request that an application sends: POST it to /INDEX/_search.

    Without KEYWORDS it is a search template, with {{keywords}} where the user's words go. Add
    "from" for later pages: no document beyond the window passes one within it.
    """
    from owpc_ltr.engine.deployment.aliases import Aliases
    from owpc_ltr.engine.search.request import request_body
    from owpc_ltr.names import check_index

    check_index(index)
    engine, store = place.open()
    stored = store.get_model(Aliases(engine).resolve(model))
    params = question.params(keywords)
    size, window = question.size, question.window
    interval = _interval(engine, stored)
    if not math.isfinite(interval.low):
        warn(
            f"nothing is known of the scores of '{stored.name}': documents beyond the window of "
            f"{max(window, size)} may pass those within it; upload it again to be safe"
        )
    template = question.template(engine, index)
    body = request_body(store, stored, template, params, size, window, interval)
    typer.echo(json.dumps(body, indent=2, ensure_ascii=False))


def _interval(engine: Engine, stored: StoredModel) -> ScoreInterval:
    """Between which numbers the model's scores lie, as its certificate says."""
    from owpc_ltr.engine.deployment.certificates import Certificates
    from owpc_ltr.models.score_range import UNKNOWN

    certificate = Certificates(engine).find(stored.name, whole=False)
    return certificate.interval if certificate else UNKNOWN
