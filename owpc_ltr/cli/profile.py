"""`owpc-ltr profile`: what features, windows and a model cost in the live query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import (
    CaFile,
    Index,
    Insecure,
    StoreKind,
    StoreName,
    Url,
    open_engine,
    open_store,
)
from owpc_ltr.cli.options import Json, Seed
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.engine.client import Engine
    from owpc_ltr.engine.profiling import FeatureCost, Samples, Subject
    from owpc_ltr.engine.stores import Store


def profile(
    index: Index,
    featureset: Annotated[
        str | None, typer.Option(help="The name of a feature set in the cluster.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The name of an uploaded model; it has its own feature set.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Judged queries, for what users type: TSV, CSV, qrels …")
    ] = None,
    keywords: Annotated[
        list[str] | None, typer.Option(help="What a user types; may be repeated.")
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(help="Your application's query (JSON), with {{keywords}}; as for search."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Searches of each way of asking.")] = 30,
    window: Annotated[int, typer.Option(min=1, help="The window in which features are timed.")] = (
        100
    ),
    seed: Seed = 0,
    store_kind: StoreKind = None,
    store: StoreName = None,
    url: Url = None,
    ca: CaFile = None,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Time the live query with all features, without each, with each alone, and by window.

    With a model it is rescored; without, the features of the window come back. Quartiles of a cost
    on both sides of 0 say that it is not told from noise.
    """
    from owpc_ltr.engine.capacity import capacity
    from owpc_ltr.engine.profiling import feature_costs, window_latencies

    params = _params(queries, keywords)
    engine = open_engine(url, ca, insecure)
    kept_in = open_store(engine, store_kind, store)
    subject = _subject(engine, kept_in, index, featureset, model, query)
    with progress() as show:
        costs, whole = feature_costs(
            engine, kept_in, subject, params, repeat=repeat, window=window, seed=seed,
            progress=lambda done: show("features", done),
        )  # fmt: skip
        latencies = window_latencies(
            engine, kept_in, subject, params, repeat=repeat, seed=seed,
            progress=lambda done: show("windows", done),
        )  # fmt: skip
    size = capacity(engine, kept_in, subject.featureset, subject.model, params[0])
    if as_json:
        print_json(
            {
                "index": index,
                "store_kind": kept_in.kind,
                "queries": len(params),
                "repeat": repeat,
                "window": window,
                "features": [cost.as_dict() for cost in costs],
                "searches": {name: samples.as_dict() for name, samples in whole.items()},
                "windows": [{"window": w, **s.as_dict()} for w, s in latencies.items()],
                "capacity": size.as_dict(),
            }
        )
        return
    _print_costs(costs, whole)
    _print_windows(latencies)
    for sentence in size.sentences():
        typer.echo(sentence)


def _params(queries: Path | None, keywords: list[str] | None) -> list[dict[str, Any]]:
    from owpc_ltr.judgments import read_judgments

    typed = [{"keywords": text, "query": text} for text in keywords or []]
    if queries is not None:
        typed += [query.params for query in read_judgments(queries).queries]
    if not typed:
        raise UsageError("there is no query to profile with: give --keywords or --queries")
    return typed


def _subject(
    engine: Engine,
    store: Store,
    index: str,
    featureset: str | None,
    model: str | None,
    query: Path | None,
) -> Subject:
    from owpc_ltr.cli.files import read_json_object
    from owpc_ltr.engine.names import check_index
    from owpc_ltr.engine.pointers import Pointers
    from owpc_ltr.engine.profiling import Subject
    from owpc_ltr.engine.search import default_query

    check_index(index)
    if featureset is None and model is None:
        raise UsageError("say what to profile: --featureset, or --model, which has its own set")
    body = default_query(engine, index) if query is None else read_json_object(query)
    body = body["query"] if isinstance(body.get("query"), dict) else body
    if model is None:
        return Subject(index, body, store.get_featureset(str(featureset)))
    stored = store.get_model(Pointers(engine).resolve(model))
    if featureset not in {None, stored.featureset.name}:
        raise UsageError(
            f"the model '{model}' has the feature set '{stored.featureset.name}', not "
            f"'{featureset}': leave --featureset out"
        )
    # Without the plugin only linear models run in the engine: for others it gives the features.
    runs = store.kind == "ltr-plugin" or stored.type == "model/linear"
    return Subject(index, body, stored.featureset, stored if runs else None)


def _print_costs(costs: list[FeatureCost], whole: dict[str, Samples]) -> None:
    print_table(
        ["FEATURE", "COSTS MS", "QUARTILES", "ALONE MS", "BY THE ENGINE'S CLOCK"],
        [
            (cost.feature, cost.without, f"[{cost.low:+.2f}, {cost.high:+.2f}]", cost.alone,
             cost.took)
            for cost in costs
        ],
    )  # fmt: skip
    for name, words in (("all", "with all features"), ("none", "without any")):
        times = whole[name].as_dict()
        typer.echo(f"{words}: {times['wall_median_ms']:.2f} ms (95 %: {times['wall_p95_ms']:.2f})")


def _print_windows(latencies: dict[int, Samples]) -> None:
    typer.echo("")
    rows = [(window, *samples.as_dict().values()) for window, samples in latencies.items()]
    print_table(["WINDOW", "MEDIAN MS", "95 % MS", "ENGINE'S MEDIAN", "ENGINE'S 95 %"], rows)
