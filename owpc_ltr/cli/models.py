"""`owpc-ltr models`: what is uploaded, what it is made of, one step forth or back, or away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, UploadedName
from owpc_ltr.cli.output import print_json, print_table, warn
from owpc_ltr.cli.stops import finishing

if TYPE_CHECKING:
    from owpc_ltr.api.results import Alias
    from owpc_ltr.api.uploaded_models import UploadedModels

app = typer.Typer(help="Uploaded models: list, show, promote, roll back, prune.")

ModelName = Annotated[str, typer.Argument(help="NAME, NAME:challenger or NAME-HASH.")]


@app.command(name="list")
@grouped
def list_all(*, place: StoreOptions, as_json: Json = False) -> None:
    """List the names in use, and the models that they point to.

    Those of all stores, with --store of that one. Unused models are those of the one store.
    """
    cluster = place.connect()
    models = cluster.models
    aliases = models.aliases(everywhere=place.store is None)
    kept, unused = models.names(), models.unused()
    if as_json:
        listed = [asdict(alias) for alias in aliases]
        content = {"aliases": listed, "models": kept, "unused": unused}
        print_json({**content, "store_kind": cluster.store.kind, "store": cluster.store.name})
        return
    _print_aliases(aliases)
    for model in unused:
        typer.echo(f"unused: '{model}'")


@app.command()
@grouped
def show(
    name: Annotated[
        str, typer.Argument(help="NAME, NAME:challenger or NAME-HASH; or a model's FILE.json.")
    ],
    *,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show where a model comes from, and what it makes of features.

    What is known, and was proven, of a model in the cluster is in its certificate there; of a
    FILE, in its record.
    """
    from owpc_ltr.engine.deployment.deployment_record import describe_model_file

    file = Path(name)
    local = file.suffix == ".json" and file.is_file()
    models = None if local else place.connect().models
    content, facts, features = describe_model_file(file) if models is None else _known(models, name)
    if as_json:
        print_json({**content, "importances": features})
        return
    for told in content["record"].get("warnings") or ():
        warn(f"in training: {told}")
    print_table(["FACT", "VALUE"], [(fact, _shown(value)) for fact, value in facts.items()])
    _print_importances(features)


@app.command()
@grouped
def diff(
    name: ModelName,
    other: Annotated[str, typer.Argument(help="The same, of another model.")],
    *,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show in what two models differ.

    Data, settings, proofs, and weights where both are linear.
    """
    models = place.connect().models
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
def promote(
    name: Annotated[str, typer.Argument(help="NAME, or one of its models: NAME-HASH.")],
    *,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Switch NAME to its challenger, or to the model NAME-HASH.

    Requests that applications already hold keep the former model: fetch them again.
    """
    models = place.connect().models
    with finishing():
        alias = models.promote(name)
        left = alias.previous[-1] if alias.previous else None
        _print_switched(models, alias, left, place, as_json=as_json)


@app.command()
@grouped
def delete(
    name: Annotated[
        str, typer.Argument(help="A model, NAME-HASH, or NAME for it and all of its models.")
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; else it is only shown.")] = False,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Delete an unused model, or a name with all of its models.

    Without --yes it is only shown.

    A model that a name could only go back to is forgotten by that name.
    """
    models = place.connect().models
    gone = models.delete(name) if yes else models.deletable(name)
    if as_json:
        print_json({"models": gone, "taken_out": yes})
        return
    for one in gone:
        typer.echo(f"took out '{one}'" if yes else f"would take out '{one}'")
    if yes and name not in gone:
        typer.echo(f"'{name}' points to nothing any more")
    if not yes:
        typer.echo("do so with --yes")


@app.command()
@grouped
def prune(
    model: Annotated[
        str | None, typer.Argument(help="The exact name, NAME-HASH, of a model to take out.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove all that are unused.")] = False,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Remove unused models; without MODEL or --yes, list them.

    Unused is what no name points to, nor can go back to. Models that owpc-ltr did not make are
    left alone.
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
def rollback(name: UploadedName, *, place: StoreOptions, as_json: Json = False) -> None:
    """Roll NAME back to the model before.

    `models promote NAME-HASH` goes forward again. Requests that applications already hold keep the
    model that was rolled back: fetch them again.
    """
    models = place.connect().models
    left = models.resolve(name)
    with finishing():
        alias = models.rollback(name)
        _print_switched(models, alias, left, place, as_json=as_json)
        if not as_json:
            typer.echo(f"forward again: owpc-ltr models promote {left}{_at(place)}")


def _known(
    models: UploadedModels, name: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """The certificate of a model in the cluster, in few words, and what its features do."""
    return models.show(name).as_dict(), models.facts(name), models.importances(name)


def _print_aliases(aliases: Sequence[Alias]) -> None:
    """What each name points to; a column for challengers only where there is one."""
    challenged = any(p.challenger for p in aliases)
    headers = ["NAME", "STORE", "POINTS TO", "BEFORE", "CHALLENGER"]
    rows = [
        (
            p.name,
            f"{p.store or 'default'} ({p.store_kind})" if p.store_kind else p.store or "default",
            p.current,
            ", ".join(reversed(p.previous)) or "–",
            p.challenger or "–",
        )
        for p in aliases
    ]
    columns = len(headers) if challenged else len(headers) - 1
    print_table(headers[:columns], [row[:columns] for row in rows])


def _print_importances(features: Mapping[str, Mapping[str, Any]]) -> None:
    """A row a feature, a column a fact; nothing where no feature has one."""
    facts = list(dict.fromkeys(fact for one in features.values() for fact in one))
    if facts:
        typer.echo()
        print_table(
            ["FEATURE", *(fact.upper() for fact in facts)],
            [(name, *(_shown(one.get(fact)) for fact in facts)) for name, one in features.items()],
        )


def _print_switched(
    models: UploadedModels, alias: Alias, left: str | None, place: StoreOptions, *, as_json: bool
) -> None:
    """What the alias is switched to, and what applications must fetch again to follow it."""
    fetch = None
    if models.serving_mode(alias.current) == "engine":
        fetch = f"owpc-ltr request --model {alias.name}{_at(place)}"
    if as_json:
        content = {"current": alias.current, "previous": list(alias.previous)}
        print_json({"name": alias.name, "store": alias.store, **content, "fetch_again": fetch})
        return
    typer.echo(f"'{alias.name}' now points to '{alias.current}'")
    if left is not None:
        instead = f"fetch them again: {fetch}" if fetch else "it is scored by the client instead"
        typer.echo(f"search templates and requests made before still use '{left}': {instead}")


def _at(place: StoreOptions) -> str:
    """The options that name the store, for commands to be typed."""
    kind = f" --store-kind {place.store_kind}" if place.store_kind else ""
    return kind + (f" --store {place.store}" if place.store else "")


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
