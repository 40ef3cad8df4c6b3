"""`owpc-ltr export`: a model as the file that an engine takes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import A_FEATURE_SET, A_MODEL, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json


@grouped
def export_model(
    model: Annotated[Path, A_MODEL, typer.Argument(help="A model file.")],
    *,
    target: Annotated[
        str,
        typer.Option(
            "--for",
            help="opensearch or elasticsearch with the LTR plugin; elastic: Elasticsearch's own "
            "learning to rank; plugin-free-trees: either without a plugin; solr; vespa; or another "
            "export target: owpc-ltr plugins.",
        ),
    ],
    version: Annotated[str, typer.Option(help="The engine's version, as 3.8.")],
    out: Annotated[
        Path,
        Writes(),
        typer.Option(help="Where the file goes: the request's body (JSON), or Vespa's profile."),
    ],
    name: Annotated[str, typer.Option(help="The model's name in the engine.")] = "owpc-ltr",
    featureset: Annotated[
        Path | None,
        A_FEATURE_SET,
        typer.Option(help="The feature set that it was trained on (JSON)."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the target, as target.phase=second-phase."),
    ] = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Write the file that makes a model in an engine.

    It is for those who send it themselves.

    It scores there as here (up to a constant, which moves no document), or is refused: what the
    engine leaves out is written otherwise. What it does with real documents only `upload` proves.
    """
    from owpc_ltr.api.models import export_model as export
    from owpc_ltr.api.plugins import named_settings

    made = export(
        model,
        out,
        target=target,
        version=version,
        name=name,
        featureset=featureset,
        settings=named_settings(setting or ()),
        plugins=plugin or (),
    )
    engine = f"{target} {made.version}"
    if as_json:
        told = {"file": str(out), "for": engine, "type": made.type, "request": made.request}
        print_json(told | ({"notes": list(made.notes)} if made.notes else {}))
        return
    typer.echo(f"wrote {out}: {made.type} for {engine}; send it by {made.request}")
    for note in made.notes:
        typer.echo(f"- {note}")
