"""Users whose behaviour is known: clicks on judged queries, to try click models and learning on.

    import simulated_users as simulate

    world = simulate.truth(data)                       # how attractive every document is
    events = simulate.clicks(world, sessions=100_000)  # an Arrow table, one event a row

Everything is drawn from `seed`: the same call gives the same events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.dataset import RankingDataset


@dataclass(frozen=True)
class Users:
    """How users click on a list.

    Users of kind `position` examine rank r with probability r^−`steepness`, and click on an
    examined document if it attracts them. Users of kind `cascade` read from the top; after a click
    they leave with probability `satisfied`, else they go on with probability `patience`. A document
    of the best grade attracts with probability `most`, an irrelevant one with probability `noise`.
    """

    kind: Literal["position", "cascade"] = "position"
    steepness: float = 1.0
    satisfied: float = 0.6
    patience: float = 0.9
    most: float = 0.8
    noise: float = 0.05

    def examination(self, ranks: int) -> Vector:
        """The probability with which users of kind `position` examine each rank."""
        looked: Vector = np.arange(1.0, ranks + 1) ** -self.steepness
        return looked

    def attraction(self, labels: Labels) -> Vector:
        """The attractiveness of documents of these grades, by their gain 2^grade − 1."""
        gain = np.exp2(labels.astype(np.float64)) - 1
        return self.noise + (self.most - self.noise) * gain / max(float(gain.max(initial=0.0)), 1.0)


@dataclass(frozen=True, eq=False)
class World:
    """Queries and documents, and the attractiveness of each document.

    Query q owns the documents from `offsets[q]` to `offsets[q + 1]`.
    """

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    offsets: NDArray[np.int64]
    attraction: Vector


def truth(data: RankingDataset, users: Users | None = None) -> World:
    """The world of a judged dataset: the higher its label, the more attractive a document."""
    params = data.query_params.to_pylist() if data.query_params is not None else []
    ids = data.query_ids.to_pylist()
    names = data.doc_ids.to_pylist() if data.doc_ids is not None else []
    return World(
        tuple(_text(param) or query for param, query in zip(params or ids, ids, strict=True)),
        tuple(names or (f"d{row}" for row in range(data.n_documents))),
        data.offsets,
        (users or Users()).attraction(data.labels),
    )


def example_world(
    queries: int = 300, documents: int = 30, users: Users | None = None, seed: int = 0
) -> World:
    """A world without a dataset: grades 0 to 4, most of them low."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, queries * documents, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return World(
        tuple(f"query {number}" for number in range(queries)),
        tuple(f"q{q}-d{d}" for q in range(queries) for d in range(documents)),
        np.arange(queries + 1) * documents,
        (users or Users()).attraction(labels.astype(np.float32)),
    )


def _text(param: Any) -> str:
    """The query's text among its parameters, which are JSON."""
    if not isinstance(param, str) or not param.startswith("{"):
        return ""
    content = json.loads(param)
    text = content.get("keywords", content.get("query", ""))
    return text if isinstance(text, str) else ""


_SESSIONS = 1 << 17
_BEGIN = 1_767_225_600  # 2026-01-01, in seconds
_NONE = -1


def clicks(
    world: World | RankingDataset,
    users: Users | None = None,
    rankers: Sequence[float | Vector] = (0.7, 0.6, 0.5, 0.4),
    sessions: int = 10_000,
    *,
    shown: int = 10,
    popularity: float = 0.0,
    visits: float = 2.0,
    drift: float = 0.0,
    seed: int = 0,
) -> pa.Table:
    """The events of users, one row each: impressions of what is shown, and clicks.

    Columns: session, client, time, query, document, position (from 1), action. Each of the
    `rankers` serves for an equal time: a score for each document, or a number from 0 (random order)
    to 1 (the truth). A session is one query, drawn with probability ∝ (its place)^−`popularity`; a
    client has `visits` sessions on average. A share `drift` of the documents appears in the course
    of time.
    """
    users = users or Users()
    world = truth(world, users) if isinstance(world, RankingDataset) else world
    rng = np.random.default_rng(seed)
    lists = _lists(world, rankers, shown, drift, rng)
    chance = np.arange(1.0, len(world.queries) + 1) ** -popularity
    popular = np.cumsum(chance) / chance.sum()
    clients = max(int(sessions / visits), 1)
    parts = []
    for first in range(0, sessions, _SESSIONS):
        session = np.arange(first, min(first + _SESSIONS, sessions))
        query = np.searchsorted(popular, rng.random(len(session)), side="right")
        query = np.minimum(query, len(popular) - 1)
        client = rng.integers(0, clients, len(session))
        shown_lists = lists[session * len(lists) // sessions, query]
        clicked = _clicked(world, users, shown_lists, rng)
        parts.append(_events(session, client, query, shown_lists, clicked))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return _table(world, columns)


def _lists(
    world: World, rankers: Sequence[float | Vector], shown: int, drift: float, rng: Any
) -> NDArray[np.int64]:
    """The documents that each ranker shows for each query, best first; _NONE where none is left."""
    sizes = np.diff(world.offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    born = np.where(rng.random(len(query)) < drift, rng.integers(0, len(rankers), len(query)), 0)
    lists = np.full((len(rankers), len(sizes), shown), _NONE)
    for number, ranker in enumerate(rankers):
        scores = np.where(born <= number, _scores(world, ranker, rng), -np.inf)
        order = np.lexsort((-scores, query))
        place = np.arange(len(query)) - np.repeat(world.offsets[:-1], sizes)
        listed = (place < shown) & np.isfinite(scores[order])
        lists[number, query[listed], place[listed]] = order[listed]
    return lists


def _scores(world: World, ranker: float | Vector, rng: Any) -> Vector:
    if not isinstance(ranker, int | float):
        return np.asarray(ranker, np.float64)
    spread = float(world.attraction.std()) or 1.0
    standardised = (world.attraction - world.attraction.mean()) / spread
    noise = rng.normal(size=len(standardised))
    mixed: Vector = ranker * standardised + np.sqrt(max(1.0 - ranker**2, 0.0)) * noise
    return mixed


def _events(
    session: NDArray[np.int64],
    client: NDArray[np.int64],
    query: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicked: NDArray[np.bool_],
) -> dict[str, NDArray[np.int64]]:
    """The events of some sessions, session by session: what was shown, then what was clicked."""
    rows, places = np.nonzero(shown != _NONE)
    click_rows, click_places = np.nonzero(clicked)
    row, place = np.concatenate([rows, click_rows]), np.concatenate([places, click_places])
    action = np.repeat([0, 1], [len(rows), len(click_rows)])
    order = np.lexsort((place, action, row))
    row, place, action = row[order], place[order], action[order]
    time = _BEGIN + session[row] * 30 + np.where(action, place + 1, 0)
    return {
        "session": session[row], "client": client[row], "time": time, "query": query[row],
        "document": shown[row, place], "position": place + 1, "action": action,
    }  # fmt: skip


def _clicked(world: World, users: Users, shown: NDArray[np.int64], rng: Any) -> NDArray[np.bool_]:
    listed = shown != _NONE
    drawn = (rng.random(shown.shape) < world.attraction[shown]) & listed
    if users.kind == "position":
        looked: NDArray[np.bool_] = rng.random(shown.shape) < users.examination(shown.shape[1])
        seen: NDArray[np.bool_] = drawn & looked
        return seen
    reading = np.ones(len(shown), bool)
    clicked = np.zeros(shown.shape, bool)
    for rank in range(shown.shape[1]):
        clicked[:, rank] = drawn[:, rank] & reading
        leaves = np.where(clicked[:, rank], users.satisfied, 1.0 - users.patience)
        reading &= rng.random(len(shown)) >= leaves
    return clicked


def _table(world: World, columns: dict[str, NDArray[np.int64]]) -> pa.Table:
    texts = {
        "query": world.queries,
        "document": world.documents,
        "action": ("impression", "click"),
    }
    arrays: dict[str, Any] = {name: pa.array(values) for name, values in columns.items()}
    arrays["time"] = arrays["time"].cast(pa.timestamp("s", "UTC"))
    for name, words in texts.items():
        codes, dictionary = arrays[name].cast(pa.int32()), pa.array(words, pa.string())
        arrays[name] = pa.DictionaryArray.from_arrays(codes, dictionary)
    return pa.table(arrays)
