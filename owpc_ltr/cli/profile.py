"""`owpc-ltr profile`: what features, windows and a model cost in the live query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index, Json, Params, Seed
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.engine.options import DEFAULT_WINDOW

if TYPE_CHECKING:
    from owpc_ltr.api.results import FeatureCost, Samples


@dataclass(frozen=True)
class Profiled:
    """What is profiled: the features of a set, or a model with those it has."""

    featureset: Annotated[
        str | None, typer.Option(help="The name of a feature set in the cluster.")
    ] = None
    model: Annotated[
        str | None,
        typer.Option(help="An uploaded model's name, or a model's FILE.json; it has its own set."),
    ] = None


@dataclass(frozen=True)
class Typed:
    """What users type: words that are given, or those of judged queries, and what goes with it."""

    queries: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Judged queries, for what users type: TSV, CSV, qrels …"),
    ] = None
    keywords: Annotated[
        list[str] | None, typer.Option(help="What a user types; may be repeated.")
    ] = None
    param: Params = None


@grouped
def profile(
    *,
    index: Index = None,
    profiled: Profiled,
    typed: Typed,
    query: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Your application's query (JSON), with {{keywords}}; as for search."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Queries that are asked in every way.")] = 30,
    window: Annotated[
        int, typer.Option(min=1, help="The window in which features are timed.")
    ] = DEFAULT_WINDOW,
    seed: Seed = 0,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Time what features, windows and a model cost in a search.

    The live query is timed without features, with all, with groups of them that tell what each
    costs, and by window.

    With a model it is rescored; without, the features of the window come back. Costs and their
    intervals are clipped at 0: one whose interval begins there is within the noise of the timing.
    """
    from owpc_ltr.features.parameters import named_params

    with progress() as show:
        found = place.connect().profile(
            typed.keywords or (),
            queries=typed.queries,
            params=named_params(typed.param or ()),
            model=profiled.model,
            featureset=profiled.featureset,
            index=index,
            query=query,
            repeat=repeat,
            window=window,
            seed=seed,
            progress=show,
        )
    if as_json:
        how = {"queries": found.queries, "repeat": repeat, "window": window}
        print_json({"index": found.index, "store_kind": found.store_kind, **how, **found.as_dict()})
        return
    _print_costs(found.costs, found.searches)
    _print_windows(found.windows)
    for sentence in found.capacity.sentences():
        typer.echo(sentence)


def _print_costs(costs: Sequence[FeatureCost], whole: dict[str, Samples]) -> None:
    print_table(
        ["FEATURE", "COSTS MS", "95 %", "BY THE ENGINE'S CLOCK"],
        [
            (cost.feature, cost.milliseconds, f"[{cost.low:.2f}, {cost.high:.2f}]", cost.took)
            for cost in costs
        ],
    )
    noise = sum(cost.in_noise for cost in costs)
    if noise:
        typer.echo(
            f"{noise} of {len(costs)} within the noise of the timing (interval clipped at 0): a "
            "larger --repeat tells smaller costs"
        )
    for name, words in (("all", "with all features"), ("none", "without any")):
        times = whole[name].as_dict()
        typer.echo(f"{words}: {times['wall_median_ms']:.2f} ms (95 %: {times['wall_p95_ms']:.2f})")


def _print_windows(latencies: dict[int, Samples]) -> None:
    typer.echo("")
    rows = [(window, *samples.as_dict().values()) for window, samples in latencies.items()]
    print_table(["WINDOW", "MEDIAN MS", "95 % MS", "ENGINE'S MEDIAN", "ENGINE'S 95 %"], rows)
