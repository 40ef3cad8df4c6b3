"""`owpc-ltr export`: a model as the file that an engine takes by itself."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import A_FEATURE_SET, A_MODEL, check_writable
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json


class Target(StrEnum):
    """What takes models: the LTR plugin of two engines, and two engines' own."""

    opensearch = "opensearch"
    elasticsearch = "elasticsearch"
    elastic = "elastic"
    solr = "solr"


@grouped
def export_model(
    model: Annotated[Path, A_MODEL, typer.Argument(help="A model file.")],
    *,
    target: Annotated[
        Target,
        typer.Option(
            "--for",
            help="opensearch or elasticsearch with the LTR plugin; elastic: Elasticsearch's own "
            "learning to rank; solr.",
        ),
    ],
    version: Annotated[str, typer.Option(help="The engine's version, as 3.8.")],
    out: Annotated[Path, typer.Option(help="Where the request's body goes (JSON).")],
    name: Annotated[str, typer.Option(help="The model's name in the engine.")] = "owpc-ltr",
    featureset: Annotated[
        Path | None,
        A_FEATURE_SET,
        typer.Option(help="The feature set that it was trained on (JSON)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the file that makes a model in an engine, for those who send it themselves.

    It scores there as here, or is refused: what the engine leaves out is written otherwise. What it
    does with real documents only `upload` proves.
    """
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.files.atomic import write_atomically
    from owpc_ltr.interop.engine_versions import serving_profile
    from owpc_ltr.interop.export_file import export_file
    from owpc_ltr.models.linear import load_model

    check_writable(out)
    profile = serving_profile(target.value, version)
    known = None if featureset is None else load_featureset(featureset)
    made = export_file(load_model(model), profile, name, known)
    content = json.dumps(made.content, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(out, f"{content}\n".encode())
    if as_json:
        print_json({"file": str(out), "for": str(profile), "type": made.type,
                    "request": made.request})  # fmt: skip
        return
    typer.echo(f"wrote {out}: {made.type} for {profile}; send it by {made.request}")
