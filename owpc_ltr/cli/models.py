"""`owpc-ltr models`: what is uploaded, what it is made of, and one step forth or back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import Cluster, Place
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, UploadedName
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.engine.deployment.aliases import Alias
    from owpc_ltr.engine.deployment.certificates import Certificate
    from owpc_ltr.engine.http.client import Engine

app = typer.Typer(
    help="List uploaded models, and change what names point to.", no_args_is_help=True
)

ModelName = Annotated[str, typer.Argument(help="NAME, NAME:challenger or NAME@HASH.")]


@app.command(name="list")
@grouped
def list_all(*, place: Place, as_json: Json = False) -> None:
    """List the names that applications use, and the models that they point to."""
    from owpc_ltr.engine.deployment.aliases import Aliases

    engine, store = place.open()
    aliases = Aliases(engine).all()
    models = store.list_models()
    if as_json:
        listed = [asdict(alias) for alias in aliases]
        print_json({"aliases": listed, "models": models, "store_kind": store.kind})
        return
    _print_aliases(aliases)
    used = {model for alias in aliases for model in alias.models}
    for model in sorted(set(models) - used):
        typer.echo(f"unused: '{model}'")


@app.command()
@grouped
def show(name: ModelName, *, cluster: Cluster, as_json: Json = False) -> None:
    """Show where a model comes from and what was proven of it: its certificate in the cluster."""
    from owpc_ltr.engine.deployment.provenance import provenance

    certificate = _certificate(cluster.connect(), name)
    if as_json:
        print_json(certificate.as_dict())
        return
    print_table(
        ["FACT", "VALUE"], [(fact, _shown(v)) for fact, v in provenance(certificate).items()]
    )


@app.command()
@grouped
def diff(
    name: ModelName,
    other: Annotated[str, typer.Argument(help="The same, of another model.")],
    *,
    cluster: Cluster,
    as_json: Json = False,
) -> None:
    """Show in what two models differ: data, settings, proofs, and weights where both are linear."""
    from owpc_ltr.engine.deployment.provenance import differences

    engine = cluster.connect()
    one, two = _certificate(engine, name), _certificate(engine, other)
    found = differences(one, two)
    if as_json:
        print_json({"models": [one.model, two.model], "differences": [list(row) for row in found]})
        return
    print_table(
        ["FACT", one.model, two.model],
        [(fact, _shown(a), _shown(b)) for fact, a, b in found if fact != "model"],
    )


@app.command()
@grouped
def promote(name: UploadedName, *, cluster: Cluster, as_json: Json = False) -> None:
    """Let NAME point to its challenger from now on."""
    from owpc_ltr.engine.deployment.aliases import Aliases

    _print_alias(Aliases(cluster.connect()).promote(name), as_json=as_json)


@app.command()
@grouped
def prune(
    model: Annotated[
        str | None, typer.Argument(help="The exact name, NAME@HASH, of a model to take out.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove all that are unused.")] = False,
    place: Place,
    as_json: Json = False,
) -> None:
    """Remove unused models; without MODEL or --yes, list them.

    Unused is what no name points to, nor can go back to.
    """
    from owpc_ltr.engine.deployment.prune import prunable
    from owpc_ltr.engine.deployment.prune import prune as take_out

    engine, store = place.open()
    chosen = [model] if model else prunable(engine, store)
    done = bool(model) or yes
    if done:
        take_out(engine, store, chosen)
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
def rollback(name: UploadedName, *, cluster: Cluster, as_json: Json = False) -> None:
    """Let NAME point again to the model before the last upload."""
    from owpc_ltr.engine.deployment.aliases import Aliases

    _print_alias(Aliases(cluster.connect()).roll_back(name), as_json=as_json)


def _certificate(engine: Engine, name: str) -> Certificate:
    from owpc_ltr.engine.deployment.aliases import Aliases
    from owpc_ltr.engine.deployment.certificates import Certificates

    return Certificates(engine).get(Aliases(engine).resolve(name))


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
