"""`owpc-ltr bounds`: what theory promises of a model, and whether that is anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import A_MODEL, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.evaluation.risk_bounds import Bound


@grouped
def bounds(
    model: Annotated[Path, A_MODEL, typer.Argument(help="A linear model.")],
    data: Annotated[Path, Reads(), typer.Argument(help="The queries it was trained on.")],
    delta: Annotated[
        float, typer.Option(help="The bounds hold with probability 1 − DELTA.")
    ] = 0.05,
    generator: Annotated[
        str | None,
        typer.Option(help="The OWPC weights of the ranking error; default: the model's own."),
    ] = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Evaluate the papers' risk bounds for a model and a sample, and say which are vacuous.

    Usunier, Buffoni & Gallinari (2009), Theorem 4; Riezler & De Bona (2009), Theorems 3 and 4 and
    Corollaries 1 to 3.
    """
    from owpc_ltr.data.parquet import read_dataset
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.evaluation.risk_bounds import all_bounds
    from owpc_ltr.host import registry as registries
    from owpc_ltr.host.settings import configure
    from owpc_ltr.models.linear import load_model

    registry = registries.load(plugin or [])
    ranker = load_model(model)
    settings = {"generator": generator} if generator else _own_settings(ranker.record)
    owpc = configure(registry.find("loss", "owpc"), settings)
    sample, _ = model_data(ranker, read_dataset(data), "all")
    position = configure(registry.find("loss", "position-sensitive"), {})
    precision = configure(registry.find("loss", "average-precision"), {})
    found = all_bounds(ranker, sample.without_missing(), owpc, position, precision, delta)
    if as_json:
        print_json({"delta": delta, "bounds": [bound.as_dict() for bound in found]})
        return
    _print(found)
    typer.echo(f"\nwith probability {1 - delta:g}, {sample.n_queries} queries")


def _print(bounds: Sequence[Bound]) -> None:
    print_table(
        ["BOUND", "OF", "EMPIRICAL", "BOUND SAYS", "AT MOST", "VERDICT"],
        [
            (
                bound.name,
                bound.about,
                _power(bound.log_empirical),
                _power(bound.log_value),
                _power(bound.log_largest_risk),
                _verdict(bound),
            )
            for bound in bounds
        ],
    )


def _own_settings(record: dict[str, object]) -> dict[str, object]:
    loss = record.get("loss")
    if isinstance(loss, dict) and loss.get("name") == "owpc":
        return {key: loss["settings"][key] for key in ("generator", "p")}
    return {}


def _power(log: float) -> str:
    return f"{math.exp(log):.4g}" if log < 30 else f"10^{log / math.log(10):.1f}"


def _verdict(bound: Bound) -> str:
    if not bound.vacuous:
        return "holds and says something"
    if math.isinf(bound.queries_needed):
        return "vacuous, for any number of queries"
    return f"vacuous; would bite from {bound.queries_needed:.3g} queries"
