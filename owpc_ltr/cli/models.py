"""`owpc-ltr models`: what is uploaded, what it is made of, and one step forth or back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import (
    CaFile,
    Insecure,
    StoreKind,
    StoreName,
    Url,
    open_engine,
    open_store,
)
from owpc_ltr.cli.options import Json
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.engine.certificates import Certificate
    from owpc_ltr.engine.client import Engine

app = typer.Typer(help="List uploaded models, and change what names mean.", no_args_is_help=True)


@app.command(name="list")
def list_all(
    store_kind: StoreKind = None,
    store: StoreName = None,
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """List the names that applications use, and the models that they mean."""
    from owpc_ltr.engine.pointers import Pointers

    engine = open_engine(url, ca, insecure)
    kept_in = open_store(engine, store_kind, store)
    pointers = Pointers(engine).all()
    models = kept_in.list_models()
    if as_json:
        print_json(
            {
                "pointers": [
                    {
                        "name": p.name,
                        "current": p.current,
                        "previous": list(p.previous),
                        "challenger": p.challenger,
                    }
                    for p in pointers
                ],
                "models": models,
                "store_kind": kept_in.kind,
            }
        )
        return
    challenged = any(p.challenger for p in pointers)
    print_table(
        ["NAME", "MEANS", "BEFORE", *(["CHALLENGER"] if challenged else [])],
        [
            (
                p.name,
                p.current,
                ", ".join(reversed(p.previous)) or "–",
                *([p.challenger or "–"] if challenged else []),
            )
            for p in pointers
        ],
    )
    meant = {model for p in pointers for model in p.models}
    for model in sorted(set(models) - meant):
        typer.echo(f"no name means '{model}'")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="NAME, NAME:challenger or NAME@HASH.")],
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Show where a model comes from and what was proven of it: its certificate in the cluster."""
    from owpc_ltr.engine.provenance import provenance

    certificate = _certificate(open_engine(url, ca, insecure), name)
    if as_json:
        print_json(certificate.as_dict())
        return
    print_table(
        ["FACT", "VALUE"], [(fact, _shown(v)) for fact, v in provenance(certificate).items()]
    )


@app.command()
def diff(
    name: Annotated[str, typer.Argument(help="NAME, NAME:challenger or NAME@HASH.")],
    other: Annotated[str, typer.Argument(help="The same, of another model.")],
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Show in what two models differ: data, settings, proofs, and weights where both are linear."""
    from owpc_ltr.engine.provenance import differences

    engine = open_engine(url, ca, insecure)
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
def promote(
    name: Annotated[str, typer.Argument(help="The name that applications use.")],
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Let NAME mean its challenger from now on."""
    from owpc_ltr.engine.pointers import Pointers

    pointer = Pointers(open_engine(url, ca, insecure)).promote(name)
    if as_json:
        print_json({"name": name, "current": pointer.current, "previous": list(pointer.previous)})
    else:
        typer.echo(f"'{name}' now means '{pointer.current}'")


@app.command()
def prune(
    model: Annotated[
        str | None, typer.Argument(help="The exact name, NAME@HASH, of a model to take out.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Take out all that no name means.")] = False,
    store_kind: StoreKind = None,
    store: StoreName = None,
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Take out models that no name means, nor can go back to; without MODEL or --yes, list them."""
    from owpc_ltr.engine.provenance import prunable
    from owpc_ltr.engine.provenance import prune as take_out

    engine = open_engine(url, ca, insecure)
    kept_in = open_store(engine, store_kind, store)
    chosen = [model] if model else prunable(engine, kept_in)
    done = bool(model) or yes
    if done:
        take_out(engine, kept_in, chosen)
    if as_json:
        print_json({"models": chosen, "taken_out": done})
        return
    for one in chosen:
        typer.echo(f"took out '{one}'" if done else f"no name means '{one}'")
    if not chosen:
        typer.echo("every model has a name that means it, or can go back to it")
    elif not done:
        typer.echo("take one out by its exact name, or all with --yes")


@app.command()
def rollback(
    name: Annotated[str, typer.Argument(help="The name that applications use.")],
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Let NAME mean the model again that it meant before the last upload."""
    from owpc_ltr.engine.pointers import Pointers

    pointer = Pointers(open_engine(url, ca, insecure)).roll_back(name)
    if as_json:
        print_json({"name": name, "current": pointer.current, "previous": list(pointer.previous)})
    else:
        typer.echo(f"'{name}' now means '{pointer.current}'")


def _certificate(engine: Engine, name: str) -> Certificate:
    from owpc_ltr.engine.certificates import Certificates
    from owpc_ltr.engine.pointers import Pointers

    return Certificates(engine).get(Pointers(engine).resolve(name))


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
