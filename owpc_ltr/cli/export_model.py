"""`owpc-ltr export`: a model as the file that an engine takes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import check_writable
from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json


def export_model(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    *,
    target: Annotated[
        str,
        typer.Option(
            "--for",
            help="opensearch or elasticsearch with the LTR plugin; elastic: Elasticsearch's own "
            "learning to rank; solr; vespa; or another export target: owpc-ltr plugins.",
        ),
    ],
    version: Annotated[str, typer.Option(help="The engine's version, as 3.8.")],
    out: Annotated[
        Path,
        typer.Option(help="Where the file goes: the request's body (JSON), or Vespa's profile."),
    ],
    name: Annotated[str, typer.Option(help="The model's name in the engine.")] = "owpc-ltr",
    featureset: Annotated[
        Path | None, typer.Option(help="The feature set that it was trained on (JSON).")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the target, as target.phase=second-phase."),
    ] = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Write the file that makes a model in an engine, for those who send it themselves.

    It scores there as here, or is refused: what the engine leaves out is written otherwise. What it
    does with real documents only `upload` proves.
    """
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.files.atomic import write_atomically
    from owpc_ltr.host import registry as registries
    from owpc_ltr.interop.export_file import export_file
    from owpc_ltr.models.linear import load_model

    check_writable(out)
    registry, settings = registries.load(plugin or []), _settings(setting or [])
    registry.find("export-target", target)
    known = None if featureset is None else load_featureset(featureset)
    made = export_file(load_model(model), target, name, version, known, registry, settings)
    write_atomically(out, made.text.encode())
    engine = f"{target} {made.version}"
    if as_json:
        print_json({"file": str(out), "for": engine, "type": made.type, "request": made.request})
        return
    typer.echo(f"wrote {out}: {made.type} for {engine}; send it by {made.request}")


def _settings(texts: list[str]) -> dict[str, str]:
    """The settings of the target. Raises UsageError for those of anything else."""
    from owpc_ltr.errors import UsageError
    from owpc_ltr.host.settings import parse_settings

    grouped = parse_settings(texts)
    for kind in grouped:
        if kind != "target":
            raise UsageError(f"export has no '{kind}' to set: write target.FIELD=VALUE")
    return grouped.get("target", {})
