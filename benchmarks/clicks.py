"""Click models against the truth of simulated users: 6 settings, 10 seeds; and how fast they are.

    python benchmarks/clicks.py [--sessions 30000] [--seeds 10] [--events 10000000]

NDCG@10 of the judged documents, in the order that the judgments give, with the true attractiveness
as gain. Beside each, its difference to clicks over expected clicks without a prior, with a 95 %
interval over seeds; and which model `auto` chose in each, by the likelihood of the
lists of people held out. Users of a cascade leave with their first click, those of a DBN read on
with chance .9, and .4 after a click (Chapelle & Zhang 2009).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import simulated_users as simulate
from owpc_ltr_clicks.cleaning import EventOptions
from owpc_ltr_clicks.counting import count_events
from owpc_ltr_clicks.log_files import table_events
from owpc_ltr_clicks.model_selection import choose_model
from scipy import stats

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts
from owpc_ltr.host.registry import installed

USERS = {
    "position-based": simulate.Users(),
    "cascade": simulate.Users("cascade", satisfied=1.0, patience=1.0),
    "DBN": simulate.Users("cascade", satisfied=0.6, patience=0.9),
}
RANKERS = {"informative": (0.7, 0.6, 0.5, 0.4), "weak": (0.3, 0.2, 0.1, 0.0)}
SETTINGS = {
    f"{users}, {rankers}": (USERS[users], RANKERS[rankers])
    for users in USERS
    for rankers in RANKERS
}
QUERIES, DOCUMENTS = 300, 30
AUTO, NO_PRIOR = "auto", "COEC, no prior"


@dataclass(frozen=True)
class WayFigures:
    """NDCG@10 by way of judging, the chosen model, how far PBM's examination is from the truth."""

    ndcg: dict[str, float]
    chosen: str
    examination: float


def judged(
    users: simulate.Users, rankers: tuple[float, ...], sessions: int, seed: int
) -> WayFigures:
    """One simulated log, judged in every way."""
    world = simulate.example_world(QUERIES, DOCUMENTS, users, seed)
    events = simulate.clicks(world, users, rankers, sessions, seed=seed)
    behaviour = count_events(table_events(events, {}), EventOptions(min_people=1))
    counts = behaviour.counts
    row = {name: number for number, name in enumerate(world.documents)}
    rows = np.array([row[name] for name in counts.documents.to_pylist()])[counts.pair_document]
    truth = world.attraction[rows]
    clicks, shown = counts.by_pair(counts.clicked), counts.by_pair(counts.shown)
    orders = {"raw CTR": clicks / shown, NO_PRIOR: _coec(counts)}
    away = 0.0
    models = {plugin.name: plugin.cls() for plugin in installed().all("click-model")}
    for name, model in models.items():
        fit = model.fit(counts)
        orders[name] = fit.attractiveness
        if name == "pbm":
            away = float(np.abs(fit.examination - users.examination(10)).max())
    ndcg = {name: _ndcg(order, truth, counts) for name, order in orders.items()}
    chosen = choose_model(behaviour, models).name
    ndcg[AUTO] = ndcg[chosen]
    return WayFigures(ndcg, chosen, away)


def _coec(counts: ClickCounts) -> Vector:
    rates = counts.by_rank(counts.clicked) / counts.by_rank(counts.shown)
    expected = counts.by_pair(counts.shown * rates[counts.rank - 1])
    return counts.by_pair(counts.clicked) / expected


def _ndcg(order: Vector, truth: Vector, counts: ClickCounts, depth: int = 10) -> float:
    query = counts.pair_query
    gains = truth - truth.min()

    def dcg(by: Vector) -> Vector:
        ranked = np.lexsort((-by, query))
        place = np.arange(len(query)) - np.searchsorted(query, query)
        top = place < depth
        each = gains[ranked][top] / np.log2(place[top] + 2)
        total: Vector = np.bincount(query[top], each).astype(np.float64)
        return total

    found, best = dcg(order), dcg(gains)
    return float((found[best > 0] / best[best > 0]).mean())


def quality(sessions: int, seeds: int) -> None:
    for name, (users, rankers) in SETTINGS.items():
        values: dict[str, list[float]] = defaultdict(list)
        away, chosen = [], Counter[str]()
        for seed in range(seeds):
            found = judged(users, rankers, sessions, seed)
            away.append(found.examination)
            chosen[found.chosen] += 1
            for way, value in found.ndcg.items():
                values[way].append(value)
        print(f"\n{name}: {sessions:,} sessions, {seeds} seeds")
        for way, over in values.items():
            gain = np.array(over) - np.array(values[NO_PRIOR])
            half = stats.t.ppf(0.975, max(seeds - 1, 1)) * gain.std(ddof=min(1, seeds - 1))
            half /= np.sqrt(seeds)
            print(
                f"  {way:15} {np.mean(over):.3f}   {gain.mean():+.3f} "
                f"[{gain.mean() - half:+.3f}, {gain.mean() + half:+.3f}]"
            )
        print(f"  auto chose {', '.join(f'{name} in {n}' for name, n in chosen.items())}")
        if users.kind == "position":
            print(f"  examination by pbm is off by {max(away):.3f} at most")


def speed(events: int) -> None:
    world = simulate.example_world(3000, 50)
    begun = time.perf_counter()
    table = simulate.clicks(world, sessions=int(events / 11.3), popularity=0.5)
    made = time.perf_counter() - begun
    begun = time.perf_counter()
    behaviour = count_events(table_events(table, {}), EventOptions())
    counted = time.perf_counter() - begun
    print(f"\n{len(table):,} events: simulated in {made:.1f} s, counted in {counted:.1f} s "
          f"({len(table) / counted:,.0f} a second)")  # fmt: skip
    for plugin in installed().all("click-model"):
        begun = time.perf_counter()
        plugin.cls().fit(behaviour.counts)
        print(f"  {plugin.name} fitted in {time.perf_counter() - begun:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--events", type=int, default=0)
    given = parser.parse_args()
    quality(given.sessions, given.seeds)
    if given.events:
        speed(given.events)


if __name__ == "__main__":
    main()
