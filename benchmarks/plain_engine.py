"""What a model costs in a live search of a plain node, by the form in which it runs, side by side.

    python benchmarks/plain_engine.py http://127.0.0.1:9200 movies queries.tsv MODEL.json …

Every query is asked in all ways in turn, in a new order each time: medians and 95th percentiles of
one run, by our clock, and what each adds to the search alone. A model is asked in each form that it
has: linear as a chain of rescorers and, for comparison, as one rescorer of all features; trees as
tables and additive models as curves inside the engine; and any but linear ones scored by the client
too, which gets the features of the window.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.api.cluster import connect
from owpc_ltr.api.judgments import read_judgments
from owpc_ltr.engine.search.request import SearchRequest, default_query
from owpc_ltr.engine.search.serving import Serve, Served, query_alone, with_stored
from owpc_ltr.engine.store.base import replacing_rescore
from owpc_ltr.engine.store.templates import compile_featureset
from owpc_ltr.errors import Refused
from owpc_ltr.interop.client_scored import store_for_client
from owpc_ltr.interop.export import export_linear
from owpc_ltr.interop.plain_engine.form import plain_form, store_plain
from owpc_ltr.interop.plain_engine.scripts import lowest, scripted, summed
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel, load_model

WARM_UP = 12


def main() -> None:
    """Time every way on the same queries, and print a line each."""
    given = arguments()
    cluster = connect(given.url, store_kind="plugin-free")
    engine, store = cluster.engine, cluster.store
    featureset = store.get_featureset(given.featureset)
    ways: dict[str, Serve] = {"the search alone": query_alone(engine, store)}
    for path in given.models:
        for what, stored in forms(Path(path), featureset):
            ways[what] = with_stored(engine, store, stored)
        model = load_model(path)
        if isinstance(model, LinearModel):
            ways[f"{Path(path).stem}: linear, one rescorer"] = in_one(engine, featureset, model)
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
    model = load_model(path)
    if isinstance(model, LinearModel):
        return [(f"{path.stem}: linear, chain", export_linear(model, featureset, "m"))]
    found = [(f"{path.stem}: client-scored", store_for_client(model, featureset, "m"))]
    try:
        stored = store_plain(model, featureset, "m")
    except Refused:
        return found
    form = plain_form(stored)
    words = form.in_words() if form else ""
    return [(f"{path.stem}: {words}", stored), *found]


def in_one(engine: Any, featureset: Any, model: LinearModel) -> Serve:
    """A linear model as a single rescorer: a sum of clauses, in which no score may be negative.

    What takes something away is lifted by twice the most that training saw of it.
    """
    weights, _ = model.folded()
    most = 2 * np.maximum(np.array(model.record["feature_ranges"][1], dtype=float), 1.0)
    used = [place for place in range(len(weights)) if weights[place]]
    compiled = compile_featureset(featureset, {model.feature_names[place] for place in used})
    lifted = "Math.max(0.0, params.lift - params.weight * _score)"

    def clause(query: dict[str, Any], place: int) -> dict[str, Any]:
        if weights[place] > 0:
            return {"bool": {"must": [query], "boost": float(weights[place])}}
        weight = float(-weights[place])
        return scripted(summed([query]), lifted, weight=weight, lift=weight * float(most[place]))

    def serve(request: SearchRequest) -> Served:
        queries = {part.name: part.query(request.params) for part in compiled.queries}
        clauses = [clause(queries[model.feature_names[place]], place) for place in used]
        body = {
            "query": request.filled,
            "size": max(request.size, request.window),
            "_source": False,
            "rescore": replacing_rescore(summed([*clauses, lowest(2.0**-20)]), request.window),
        }
        answer = engine.request("POST", f"/{request.index}/_search", body=body)
        return Served(tuple(hit["_id"] for hit in answer["hits"]["hits"]), answer["took"])

    return serve


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
