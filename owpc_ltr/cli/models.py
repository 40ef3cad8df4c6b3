"""`owpc-ltr models`: what is uploaded, what it is made of, and one step forth or back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import ClusterOptions, StoreOptions
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, UploadedName
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.api.results import Alias

app = typer.Typer(
    help="Uploaded models: list, show, promote, roll back, prune.", no_args_is_help=True
)

ModelName = Annotated[str, typer.Argument(help="NAME, NAME:challenger or NAME@HASH.")]


@app.command(name="list")
@grouped
def list_all(*, place: StoreOptions, as_json: Json = False) -> None:
    """List the names in use, and the models that they point to."""
    cluster = place.connect()
    aliases, models = cluster.models.aliases(), cluster.models.names()
    if as_json:
        listed = [asdict(alias) for alias in aliases]
        print_json({"aliases": listed, "models": models, "store_kind": cluster.store.kind})
        return
    _print_aliases(aliases)
    used = {model for alias in aliases for model in alias.models}
    for model in sorted(set(models) - used):
        typer.echo(f"unused: '{model}'")


@app.command()
@grouped
def show(name: ModelName, *, cluster: ClusterOptions, as_json: Json = False) -> None:
    """Show where a model comes from and what was proven of it.

    That is its certificate in the cluster.
    """
    models = cluster.connect().models
    if as_json:
        print_json(models.show(name).as_dict())
        return
    print_table(
        ["FACT", "VALUE"], [(fact, _shown(value)) for fact, value in models.facts(name).items()]
    )


@app.command()
@grouped
def diff(
    name: ModelName,
    other: Annotated[str, typer.Argument(help="The same, of another model.")],
    *,
    cluster: ClusterOptions,
    as_json: Json = False,
) -> None:
    """Show in what two models differ.

    Data, settings, proofs, and weights where both are linear.
    """
    models = cluster.connect().models
    found = models.differences(name, other)
    one, two = models.resolve(name), models.resolve(other)
    if as_json:
        print_json({"models": [one, two], "differences": [list(row) for row in found]})
        return
    print_table(
        ["FACT", one, two],
        [(fact, _shown(a), _shown(b)) for fact, a, b in found if fact != "model"],
    )


@app.command()
@grouped
def promote(name: UploadedName, *, cluster: ClusterOptions, as_json: Json = False) -> None:
    """Let NAME point to its challenger from now on."""
    _print_alias(cluster.connect().models.promote(name), as_json=as_json)


@app.command()
@grouped
def prune(
    model: Annotated[
        str | None, typer.Argument(help="The exact name, NAME@HASH, of a model to take out.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove all that are unused.")] = False,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Remove unused models; without MODEL or --yes, list them.

    Unused is what no name points to, nor can go back to.
    """
    models = place.connect().models
    chosen = [model] if model else models.unused()
    done = bool(model) or yes
    if done:
        models.prune(chosen)
    if as_json:
        print_json({"models": chosen, "taken_out": done})
        return
    for one in chosen:
        typer.echo(f"took out '{one}'" if done else f"unused: '{one}'")
    if not chosen:
        typer.echo("no model is unused")
    elif not done:
        typer.echo("take one out by its exact name, or all with --yes")


@app.command()
@grouped
def rollback(name: UploadedName, *, cluster: ClusterOptions, as_json: Json = False) -> None:
    """Let NAME point again to the model before the last upload."""
    _print_alias(cluster.connect().models.rollback(name), as_json=as_json)


def _print_aliases(aliases: Sequence[Alias]) -> None:
    """What each name points to; a column for challengers only where there is one."""
    challenged = any(p.challenger for p in aliases)
    headers = ["NAME", "POINTS TO", "BEFORE", "CHALLENGER"]
    rows = [
        (p.name, p.current, ", ".join(reversed(p.previous)) or "–", p.challenger or "–")
        for p in aliases
    ]
    columns = len(headers) if challenged else len(headers) - 1
    print_table(headers[:columns], [row[:columns] for row in rows])


def _print_alias(alias: Alias, *, as_json: bool) -> None:
    if as_json:
        content = {"current": alias.current, "previous": list(alias.previous)}
        print_json({"name": alias.name, **content})
    else:
        typer.echo(f"'{alias.name}' now points to '{alias.current}'")


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
