"""The demo's users: what live searches show them in the course of time, and what they click on.

Users are simulated, so that the truth is known; the lists are not. The application's query finds
the candidates, and several weightings of fields take turns in ordering them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from owpc_ltr_clicks.judgments import write_columns

from owpc_ltr.engine.client.responses import hits_of
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.search.serving import Serve, Served, serve_all
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr_demo.judged import POOL_SIZE, DemoQuery, Pool, pool_query
from owpc_ltr_demo.tuned_bm25 import MultiMatch, field_columns, untuned
from owpc_ltr_demo.walk import INDEX, Cluster, Walk

if TYPE_CHECKING:
    import pyarrow as pa
    from owpc_ltr_clicks.simulation import Users, World

    from owpc_ltr.arrays import Vector
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits

SHOWN = 10
SESSIONS = 50
"""Searches a query, in the mean: some are asked three times as often, some half as often."""
_POPULARITY = 0.3
_HEAVY = 4.0


@dataclass(frozen=True, eq=False)
class Clicked:
    """What users did, and how they look in truth: the chance of each rank."""

    events: pa.Table
    examination: Vector


def let_users_click(
    walk: Walk, cluster: Cluster, sides: DatasetSplits[RankingDataset], found: Sequence[Pool]
) -> Clicked:
    """Clicks of users on what searches show for the queries that are not held out, as a file."""
    from owpc_ltr_clicks.simulation import Users, clicks

    with walk.step("users", "let users search and click, on what live searches show"):
        held_out = set(sides.test.query_ids.to_pylist())
        asked = [pool.query for pool in found if pool.query.query_id not in held_out]
        weightings = rankers(field_columns(cluster.featureset))
        with walk.narrator.working() as show:
            ways = [_serving(cluster, weighting) for weighting in weightings.values()]
            requests = [_request(query) for query in asked]
            lists = serve_all(ways, requests, progress=show)
        users = Users()
        world, scores = world_of(asked, lists, users)
        events = clicks(
            world, users, scores, SESSIONS * len(asked),
            shown=SHOWN, popularity=_POPULARITY, seed=walk.options.seed,
        )  # fmt: skip
        path = walk.options.file("-events.parquet")
        write_columns(events, path)
        walk.narrator.line(
            f"{SESSIONS * len(asked):,} searches of {len(asked):,} queries, {SHOWN} results each; "
            f"{len(held_out)} other queries are held out"
        )
        walk.narrator.line(f"rankers taking turns: {', '.join(weightings)}")
        walk.narrator.line(
            f"users are simulated: they look at rank r with chance 1/r; what they look at they "
            f"click on with a chance of {users.noise:g} where it is irrelevant, of "
            f"{_chance(users, 1):.2g} where it is relevant, and of {users.most:g} where it is best"
        )
        walk.narrator.line(f"wrote {path}: {len(events):,} events")
        walk.figures["users"] = {
            "events": len(events),
            "sessions": SESSIONS * len(asked),
            "queries": len(asked),
            "rankers": list(weightings),
        }
    return Clicked(events, users.examination(SHOWN))


def rankers(columns: Mapping[str, int]) -> dict[str, MultiMatch | None]:
    """The rankers that have served: None is the application's query as it is."""

    def heavier(*names: str) -> MultiMatch:
        boosts = {field: _HEAVY if field.startswith(names) else 1.0 for field in columns}
        return MultiMatch(boosts, 0.3)

    return {
        "the application's query": None,
        "BM25, untuned": untuned(columns),
        "names first": heavier("name", "qualified_name"),
        "texts first": heavier("text", "doc", "context"),
    }


def world_of(
    asked: Sequence[DemoQuery], lists: Sequence[Sequence[Served]], users: Users
) -> tuple[World, list[Vector]]:
    """The documents that anybody was shown, and of each ranker a score for each of them.

    How a document draws is known by its true grade; one that a ranker does not show has −∞ there.
    """
    from owpc_ltr_clicks.simulation import World

    shown = [
        sorted({name for served in lists for name in served[number].document_ids})
        for number in range(len(asked))
    ]
    grades = [
        query.relevant.get(name, 0)
        for query, names in zip(asked, shown, strict=True)
        for name in names
    ]
    offsets = np.cumsum([0, *map(len, shown)])
    scores = [np.full(len(grades), -np.inf) for _ in lists]
    for of_ranker, served in zip(scores, lists, strict=True):
        for number, names in enumerate(shown):
            ranks = {name: rank for rank, name in enumerate(served[number].document_ids)}
            rows = slice(int(offsets[number]), int(offsets[number + 1]))
            of_ranker[rows] = [-float(ranks.get(name, np.inf)) for name in names]
    attraction = users.attraction(np.array(grades, np.float32))
    texts = tuple(query.text for query in asked)
    documents = tuple(name for names in shown for name in names)
    return World(texts, documents, offsets.astype(np.int64), attraction), scores


def _request(query: DemoQuery) -> SearchRequest:
    params = {"keywords": query.text, "query": query.text}
    return SearchRequest(INDEX, pool_query("{{keywords}}"), params, SHOWN, POOL_SIZE)


def _serving(cluster: Cluster, weighting: MultiMatch | None) -> Serve:
    """A search that shows the first candidates, in the order that a weighting of fields gives."""

    def serve(request: SearchRequest) -> Served:
        body: dict[str, Any] = {"query": request.filled, "size": request.size, "_source": False}
        if weighting is not None:
            rescored = render(weighting.query(), request.params)
            body["rescore"] = {
                "window_size": request.window,
                "query": {
                    "rescore_query": rescored,
                    "query_weight": 0.0,
                    "rescore_query_weight": 1.0,
                },
            }
        answer = cluster.engine.request(
            "POST", f"/{request.index}/_search",
            params={"allow_partial_search_results": "false"}, body=body,
        )  # fmt: skip
        hits = hits_of(answer, "what users are shown", "_id")
        return Served(tuple(str(hit["_id"]) for hit in hits), 0)

    return serve


def _chance(users: Users, grade: int) -> float:
    """How often a document of this grade draws, where the best has 2."""
    return float(users.attraction(np.array([grade, 2], np.float32))[0])
