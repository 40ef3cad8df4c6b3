"""`owpc-ltr featureset`: feature sets of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import A_FEATURE_SET
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index, Json, Params
from owpc_ltr.cli.output import print_json, print_table

app = typer.Typer(
    help="Feature sets: push, show, list, delete.",
)

Name = Annotated[str, typer.Argument(help="The name of a feature set.")]


@app.command()
@grouped
def push(
    file: Annotated[
        Path, A_FEATURE_SET, typer.Argument(help="A feature set, in the LTR plugin's JSON.")
    ],
    *,
    index: Index = None,
    name: Annotated[
        str | None, typer.Option(help="Its name in the cluster; default: the file's.")
    ] = None,
    keywords: Annotated[
        str, typer.Option(help="The query to try every feature with before it is stored.")
    ] = "test",
    param: Params = None,
    allow_unmapped: Annotated[
        bool,
        typer.Option(
            "--allow-unmapped",
            help="Also where a template names a field that the index does not have.",
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of another one of its name.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --replace: also where uploaded models use it.")
    ] = False,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Store a feature set, every feature tried on the index first."""
    from owpc_ltr.engine.parameters import named_params

    cluster = place.connect()
    featureset = cluster.featuresets.push(
        file,
        index=index,
        name=name,
        keywords=keywords,
        params=named_params(param or ()),
        allow_unmapped=allow_unmapped,
        replace=replace,
        force=force,
    )
    tried_on = (featureset.validation or {})["index"]
    summary = {
        "featureset": featureset.name,
        "features": list(featureset.feature_names),
        "params": list(featureset.params),
        "hash": featureset.hash,
        "store_kind": cluster.store.kind,
    }
    if as_json:
        print_json(summary)
        return
    typer.echo(
        f"stored feature set '{featureset.name}' ({cluster.store.kind}): "
        f"{len(featureset.features)} features, all tried on '{tried_on}'; params: "
        f"{', '.join(featureset.params)}"
    )


@app.command()
@grouped
def show(
    name: Name,
    *,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Print the features of a set; with --json what `push` accepts."""
    found = place.connect().featuresets.get(name)
    if as_json:
        print_json(found.to_body())
        return
    rows: list[tuple[Any, ...]] = [
        (position, feature.name, ", ".join(feature.params), _shortened(feature.template))
        for position, feature in enumerate(found.features, 1)
    ]
    print_table(["#", "FEATURE", "PARAMS", "QUERY"], rows)


@app.command(name="list")
@grouped
def list_all(
    *,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """List the feature sets of the cluster."""
    cluster = place.connect()
    names = cluster.featuresets.names()
    if as_json:
        print_json({"featuresets": names, "store_kind": cluster.store.kind})
        return
    for name in names:
        typer.echo(name)


@app.command()
@grouped
def delete(
    name: Name,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also where uploaded models use it.")
    ] = False,
    place: StoreOptions,
) -> None:
    """Delete a feature set that no uploaded model uses.

    With --force also one that models use: they go on ranking by their own copy of it, but verify,
    explain and log-features have it no more.
    """
    place.connect().featuresets.delete(name, force=force)
    typer.echo(f"deleted feature set '{name}'")


def _shortened(template: Any) -> str:
    import json

    text = template if isinstance(template, str) else json.dumps(template)
    return text if len(text) <= 100 else f"{text[:99]}…"
