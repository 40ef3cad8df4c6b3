"""What a model costs in a live search of a plain node, by the form in which it runs, side by side.

    python benchmarks/plain_engine.py http://127.0.0.1:9200 movies queries.tsv MODEL.json …

Every query is asked in all ways in turn, in a new order each time: medians and 95th percentiles of
one run, by our clock, and what each adds to the search alone. A model is asked in each form that it
has: linear as a few rescorers and, for comparison, as a chain of one a feature; trees as tables and
additive models as curves inside the engine; and any but linear ones scored by the client too, which
gets the features of the whole window where the others get a page of ten hits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.connect import connect
from owpc_ltr.engine.search.client_scoring import Serve, Served, with_stored
from owpc_ltr.engine.search.request import SearchRequest, default_query, rescore_clauses
from owpc_ltr.engine.stores import Store
from owpc_ltr.engine.stores.feature_queries import compile_featureset
from owpc_ltr.errors import Refused
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.plugin_free import plugin_free_model, store_plugin_free
from owpc_ltr.formats.stored_model import StoredModel, is_client_scored, store_for_client
from owpc_ltr.host.judgment_lists import read_judgments
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model

WARM_UP = 12


def main() -> None:
    """Time every way on the same queries, and print a line each."""
    given = arguments()
    cluster = connect(given.url, store_kind="plugin-free")
    engine, store = cluster.engine, cluster.store
    featureset = store.get_featureset(given.featureset)
    ways: dict[str, Serve] = {"the search alone": shown(engine, lambda _request: {})}
    for path in given.models:
        for what, stored in forms(Path(path), featureset):
            if is_client_scored(stored):
                ways[what] = with_stored(engine, store, stored)
            else:
                ways[what] = shown(engine, partial(in_engine, store, stored))
        model = load_scoring_model(path)
        if isinstance(model, LinearModel):
            ways[f"{Path(path).stem}: linear, a rescorer a feature"] = chained(
                engine, featureset, model
            )
    query = default_query(engine, given.index)
    asked = read_judgments(given.queries).queries
    chosen = np.random.default_rng(0).permutation(len(asked))[: given.repeat + WARM_UP]
    requests = [
        SearchRequest(given.index, query, asked[number].params, 10, given.window)
        for number in chosen.tolist()
    ]
    print_table(timed(ways, requests))


def forms(path: Path, featureset: Any) -> list[tuple[str, StoredModel]]:
    """The forms that a model can have in a plain store."""
    model = load_scoring_model(path)
    if isinstance(model, LinearModel):
        return [(f"{path.stem}: linear, few rescorers", export_linear(model, featureset, "m"))]
    found = [(f"{path.stem}: client-scored", store_for_client(model, featureset, "m"))]
    try:
        stored = store_plugin_free(model, featureset, "m")
    except Refused:
        return found
    form = plugin_free_model(stored)
    words = form.in_words() if form else ""
    return [(f"{path.stem}: {words}", stored), *found]


def shown(engine: Engine, added: Callable[[SearchRequest], dict[str, Any]]) -> Serve:
    """A search that shows a page of hits, with what is added to its body."""

    def serve(request: SearchRequest) -> Served:
        body = {"query": request.filled, "size": request.size, "_source": False, **added(request)}
        answer = engine.request("POST", f"/{request.index}/_search", body=body)
        return Served(tuple(hit["_id"] for hit in answer["hits"]["hits"]), answer["took"])

    return serve


def in_engine(store: Store, stored: StoredModel, request: SearchRequest) -> dict[str, Any]:
    """The rescorers of a model that the engine runs."""
    return {"rescore": rescore_clauses(store, stored, request.params, request.window)}


def chained(engine: Engine, featureset: Any, model: LinearModel) -> Serve:
    """A linear model as a chain of rescorers, one a feature with a weight."""
    weights, _ = model.folded()
    weighed = {name: float(w) for name, w in zip(model.feature_names, weights, strict=True) if w}
    compiled = compile_featureset(featureset, set(weighed))

    def added(request: SearchRequest) -> dict[str, Any]:
        steps = [
            {
                "window_size": request.window,
                "query": {
                    "rescore_query": part.query(request.params),
                    "query_weight": 1.0 if place else 0.0,
                    "rescore_query_weight": weighed[part.name],
                },
            }
            for place, part in enumerate(compiled.queries)
        ]
        return {"rescore": steps}

    return shown(engine, added)


def timed(ways: dict[str, Serve], requests: list[SearchRequest]) -> dict[str, Any]:
    """Milliseconds of every request in every way, (n_ways, n_requests) by name."""
    order, names = np.random.default_rng(1), list(ways)
    for request in requests[:WARM_UP]:
        for serve in ways.values():
            serve(request)
    found = np.empty((len(names), len(requests) - WARM_UP))
    for turn, request in enumerate(requests[WARM_UP:]):
        for place in order.permutation(len(names)).tolist():
            started = time.perf_counter()
            ways[names[place]](request)
            found[place, turn] = 1000 * (time.perf_counter() - started)
    return dict(zip(names, found, strict=True))


def print_table(found: dict[str, Any]) -> None:
    alone = next(iter(found.values()))
    print(f"{'MEDIAN':>8} {'P95':>8} {'ADDED':>8}  MS")
    for name, samples in found.items():
        added = float(np.median(samples - alone))
        print(f"{np.median(samples):8.1f} {np.percentile(samples, 95):8.1f} {added:+8.1f}  {name}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("index")
    parser.add_argument("queries", help="judgments whose queries are asked")
    parser.add_argument("models", nargs="+", help="model files of the feature set")
    parser.add_argument("--featureset", default="movies")
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=60)
    return parser.parse_args()


if __name__ == "__main__":
    main()
