"""`owpc-ltr bounds`: what theory promises of a model, and whether that is anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.files import A_MODEL, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, MaxFeatures, PluginFiles
from owpc_ltr.cli.output import print_json, print_table

if TYPE_CHECKING:
    from owpc_ltr.api.results import Bound


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
    max_features: MaxFeatures = None,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Evaluate the papers' risk bounds for a linear model.

    It is said which are vacuous.

    Usunier, Buffoni & Gallinari (2009), Theorem 4; Riezler & De Bona (2009), Theorems 3 and 4 and
    Corollaries 1 to 3.
    """
    from owpc_ltr.api.models import risk_bounds
    from owpc_ltr.data.datasets import read_dataset

    sample = read_dataset(data, max_features=max_features)
    found = risk_bounds(model, sample, delta=delta, generator=generator, plugins=plugin or ())
    if as_json:
        told = [bound.as_dict() for bound in found]
        print_json({"delta": delta, "trained_here": told[0]["trained_here"], "bounds": told})
        return
    _print(found)
    whose = "it was trained on" if found[0].trained_here else "drawn as these are"
    typer.echo(f"\nwith probability {1 - delta:g}, {sample.n_queries} queries, for queries {whose}")


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


def _power(log: float) -> str:
    return f"{math.exp(log):.4g}" if log < 30 else f"10^{log / math.log(10):.1f}"


def _verdict(bound: Bound) -> str:
    if not bound.vacuous:
        return "holds and says something"
    if math.isinf(bound.queries_needed):
        return "vacuous, for any number of queries"
    return f"vacuous; would bite from {bound.queries_needed:.3g} queries"
