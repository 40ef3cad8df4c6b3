"""`owpc-ltr profile`: what features, windows and a model cost in the live query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.cluster import Place
from owpc_ltr.cli.files import Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Index, Json, Seed
from owpc_ltr.cli.output import print_json, print_table, progress
from owpc_ltr.cli.queries import read_template
from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.engine.http.client import Engine
    from owpc_ltr.engine.search.latency import FeatureCost, Samples, Subject
    from owpc_ltr.engine.store.base import Store
    from owpc_ltr.interop.stored_model import StoredModel


@dataclass(frozen=True)
class Profiled:
    """What is profiled: the features of a set, or a model with those it has."""

    featureset: Annotated[
        str | None, typer.Option(help="The name of a feature set in the cluster.")
    ] = None
    model: Annotated[
        str | None, typer.Option(help="The name of an uploaded model; it has its own feature set.")
    ] = None

    def subject(self, engine: Engine, store: Store, index: str, template: Path | None) -> Subject:
        """The query with the features or the model in it. Raises UsageError for neither."""
        from owpc_ltr.engine.search.latency import Subject
        from owpc_ltr.names import check_index

        check_index(index)
        if self.featureset is None and self.model is None:
            raise UsageError("say what to profile: --featureset, or --model, which has its own set")
        query = read_template(engine, index, template)
        if self.model is None:
            return Subject(index, query, store.get_featureset(str(self.featureset)))
        stored = self._stored(engine, store, self.model)
        # Without the plugin only linear models run in the engine: for others it gives the features.
        runs = store.kind == "ltr-plugin" or stored.type == "model/linear"
        return Subject(index, query, stored.featureset, stored if runs else None)

    def _stored(self, engine: Engine, store: Store, name: str) -> StoredModel:
        from owpc_ltr.engine.deployment.aliases import Aliases

        stored = store.get_model(Aliases(engine).resolve(name))
        if self.featureset not in {None, stored.featureset.name}:
            raise UsageError(
                f"the model '{name}' has the feature set '{stored.featureset.name}', not "
                f"'{self.featureset}': leave --featureset out"
            )
        return stored


@dataclass(frozen=True)
class Typed:
    """What users type: words that are given, or those of judged queries."""

    queries: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Judged queries, for what users type: TSV, CSV, qrels …"),
    ] = None
    keywords: Annotated[
        list[str] | None, typer.Option(help="What a user types; may be repeated.")
    ] = None

    def params(self) -> list[dict[str, Any]]:
        """What fills the query, once for each query. Raises UsageError where there is none."""
        from owpc_ltr.data.judgments import read_judgments

        typed = [{"keywords": text, "query": text} for text in self.keywords or []]
        if self.queries is not None:
            typed += [query.params for query in read_judgments(self.queries).queries]
        if not typed:
            raise UsageError("there is no query to profile with: give --keywords or --queries")
        return typed


@grouped
def profile(
    *,
    index: Index,
    profiled: Profiled,
    typed: Typed,
    query: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="Your application's query (JSON), with {{keywords}}; as for search."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Searches of each way of asking.")] = 30,
    window: Annotated[
        int, typer.Option(min=1, help="The window in which features are timed.")
    ] = 100,
    seed: Seed = 0,
    place: Place,
    as_json: Json = False,
) -> None:
    """Time the live query with all features, without each, with each alone, and by window.

    With a model it is rescored; without, the features of the window come back. Quartiles of a cost
    on both sides of 0 say that it is not told from noise.
    """
    from owpc_ltr.engine.search.capacity import capacity
    from owpc_ltr.engine.search.latency import derived_from, feature_costs, window_latencies

    params = typed.params()
    engine, store = place.open()
    subject = profiled.subject(engine, store, index, query)
    asked = (engine, store, subject, params)
    with progress() as show:
        costs, whole = feature_costs(
            *asked, repeat=repeat, window=window, seed=seed,
            progress=lambda done: show("features", done),
        )  # fmt: skip
        latencies = window_latencies(
            *asked, repeat=repeat, seed=seed, progress=lambda done: show("windows", done)
        )
    size = capacity(engine, store, subject.featureset, subject.model, params[0])
    if as_json:
        how = {"queries": len(params), "repeat": repeat, "window": window}
        figures = _summary(costs, whole, latencies)
        where = {"index": index, "store_kind": store.kind}
        more = {"derived": derived_from(subject.featureset), "capacity": size.as_dict()}
        print_json({**where, **how, **figures, **more})
        return
    _print_costs(costs, whole)
    _print_windows(latencies)
    for sentence in size.sentences():
        typer.echo(sentence)


def _summary(
    costs: list[FeatureCost], whole: dict[str, Samples], latencies: dict[int, Samples]
) -> dict[str, Any]:
    return {
        "features": [cost.as_dict() for cost in costs],
        "searches": {name: samples.as_dict() for name, samples in whole.items()},
        "windows": [{"window": w, **samples.as_dict()} for w, samples in latencies.items()],
    }


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
