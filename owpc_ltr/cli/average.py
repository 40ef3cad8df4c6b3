"""`owpc-ltr average`: several models as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import A_MODEL, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json


@grouped
def average(
    models: Annotated[
        list[Path], A_MODEL, typer.Argument(help="Model files of the same features.")
    ],
    out: Annotated[Path, Writes(), typer.Option(help="Where the mean goes (JSON).")],
    weight: Annotated[
        list[float] | None, typer.Option(help="One weight a model, in order; default: equal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Average the scores of several models into one model.

    The mean of linear models is one linear model.
    """
    from owpc_ltr.api.models import average as mean_of
    from owpc_ltr.api.models import save_model

    mean = mean_of(models, weight)
    save_model(mean, out)
    if as_json:
        print_json({"model": str(out), "kind": mean.kind, "models": len(models)})
    else:
        typer.echo(f"wrote {out}: a {mean.kind} model, the mean of {len(models)}")
