"""Sessions: lists that rankers show in the course of time, and what users click on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import UsageError
from owpc_ltr_clicks.simulation.users import Users, World, truth

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
    """What users do, one event a row: impressions of what is shown, and clicks.

    Columns: session, client, time, query, document, position (from 1), action. Each of the
    `rankers` serves for an equal time: a score for each document, or a number from 0 (chance) to 1
    (the truth). A session is one query, drawn with chance ∝ (its place)^−`popularity`; a client
    has some `visits`. A share `drift` of the documents is new in the course of time. Raises
    UsageError.
    """
    users = users or Users()
    world = truth(world, users) if isinstance(world, RankingDataset) else world
    if sessions < 1 or shown < 1 or visits <= 0 or not rankers or not 0 <= drift <= 1:
        raise UsageError("a simulation needs sessions, rankers, and lists of at least one document")
    rng = np.random.default_rng(seed)
    lists = _lists(world, rankers, shown, drift, rng)
    chance = np.arange(1.0, len(world.queries) + 1) ** -popularity
    parts = [
        _events(
            world,
            users,
            lists,
            np.cumsum(chance) / chance.sum(),
            first,
            last,
            sessions,
            visits,
            rng,
        )
        for first, last in _stretches(sessions)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return _table(world, columns)


def _stretches(sessions: int) -> list[tuple[int, int]]:
    return [(first, min(first + _SESSIONS, sessions)) for first in range(0, sessions, _SESSIONS)]


def _lists(
    world: World, rankers: Sequence[float | Vector], shown: int, drift: float, rng: Any
) -> NDArray[np.int64]:
    """The documents that each ranker shows for each query, best first; _NONE where none is left."""
    sizes = np.diff(world.offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    born = np.where(rng.random(len(query)) < drift, rng.integers(0, len(rankers), len(query)), 0)
    found = np.full((len(rankers), len(sizes), shown), _NONE)
    for number, ranker in enumerate(rankers):
        scores = np.where(born <= number, _scores(world, ranker, rng), -np.inf)
        order = np.lexsort((-scores, query))
        place = np.arange(len(query)) - np.repeat(world.offsets[:-1], sizes)
        there = (place < shown) & np.isfinite(scores[order])
        found[number, query[there], place[there]] = order[there]
    return found


def _scores(world: World, ranker: float | Vector, rng: Any) -> Vector:
    if not isinstance(ranker, int | float):
        scores = np.asarray(ranker, np.float64)
        if scores.shape != world.attraction.shape:
            raise UsageError(
                f"a ranker has {scores.shape} scores for {len(world.attraction)} documents"
            )
        return scores
    spread = float(world.attraction.std()) or 1.0
    known = (world.attraction - world.attraction.mean()) / spread
    noise = rng.normal(size=len(known))
    mixed: Vector = ranker * known + np.sqrt(max(1.0 - ranker**2, 0.0)) * noise
    return mixed


def _events(
    world: World, users: Users, lists: NDArray[np.int64], popular: Vector, first: int, last: int,
    sessions: int, visits: float, rng: Any,
) -> dict[str, NDArray[np.int64]]:  # fmt: skip
    """The events of some sessions, session by session: what was shown, then what was clicked."""
    session = np.arange(first, last)
    ranker = session * len(lists) // sessions
    query = np.searchsorted(popular, rng.random(len(session)), side="right")
    query = np.minimum(query, len(popular) - 1)
    client = rng.integers(0, max(int(sessions / visits), 1), len(session))
    shown = lists[ranker, query]
    clicked = _clicked(world, users, shown, rng)
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
    there = shown != _NONE
    drawn = (rng.random(shown.shape) < world.attraction[shown]) & there
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
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        arrays[name] = pa.array(values)
        if name in texts:
            dictionary = pa.array(texts[name], pa.string())
            arrays[name] = pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), dictionary)
        if name == "time":
            arrays[name] = arrays[name].cast(pa.timestamp("s", "UTC"))
    return pa.table(arrays)
