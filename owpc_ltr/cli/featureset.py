"""`owpc-ltr featureset`: feature sets of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import Place
from owpc_ltr.cli.files import A_FEATURE_SET
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index, Json
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.features.feature_set import FeatureSet

app = typer.Typer(
    help="Push, show, list and delete feature sets: the queries whose scores are the features.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The name of a feature set.")]


@app.command()
@grouped
def push(
    file: Annotated[
        Path, A_FEATURE_SET, typer.Argument(help="A feature set, in the LTR plugin's JSON.")
    ],
    *,
    index: Index,
    name: Annotated[
        str | None, typer.Option(help="Its name in the cluster; default: the file's.")
    ] = None,
    keywords: Annotated[
        str, typer.Option(help="The query to try every feature with before it is stored.")
    ] = "test",
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of another one of its name.")
    ] = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Store a feature set, after every feature has been tried on the index."""
    from owpc_ltr.features.loading import load_featureset

    featureset = _to_be_tried(load_featureset(file, name), index, keywords)
    kept_in = place.open_store()
    kept_in.prepare()
    kept_in.put_featureset(featureset, replace=replace)
    summary = {
        "featureset": featureset.name,
        "features": list(featureset.feature_names),
        "params": list(featureset.params),
        "hash": featureset.hash,
        "store_kind": kept_in.kind,
    }
    if as_json:
        print_json(summary)
        return
    typer.echo(
        f"stored feature set '{featureset.name}' ({kept_in.kind}): {len(featureset.features)} "
        f"features, all tried on '{index}'; params: {', '.join(featureset.params)}"
    )


@app.command()
@grouped
def show(
    name: Name,
    *,
    place: Place,
    as_json: Json = False,
) -> None:
    """Print a feature set of the cluster: its features, or with --json what `push` accepts."""
    found = place.open_store().get_featureset(name)
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
    place: Place,
    as_json: Json = False,
) -> None:
    """List the feature sets of the cluster."""
    kept_in = place.open_store()
    names = kept_in.list_featuresets()
    if as_json:
        print_json({"featuresets": names, "store_kind": kept_in.kind})
        return
    for name in names:
        typer.echo(name)


@app.command()
@grouped
def delete(
    name: Name,
    *,
    place: Place,
) -> None:
    """Take a feature set out; models keep their own copy of it."""
    place.open_store().delete_featureset(name)
    typer.echo(f"deleted feature set '{name}'")


def _to_be_tried(featureset: FeatureSet, index: str, keywords: str) -> FeatureSet:
    """The feature set, saying on which index it is tried, and with which parameters."""
    from dataclasses import replace

    from owpc_ltr.names import check_index

    tried = dict.fromkeys(featureset.params, keywords)
    given = (featureset.validation or {}).get("params", {})
    validation = {"index": check_index(index), "params": {**tried, **given}}
    return replace(featureset, validation=validation)


def _shortened(template: Any) -> str:
    import json

    text = template if isinstance(template, str) else json.dumps(template)
    return text if len(text) <= 100 else f"{text[:99]}…"
