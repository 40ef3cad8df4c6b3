"""Experiments that a few clients, early searches or documents without clicks could decide.

    python benchmarks/experiment_clients.py --worlds 500

1. Clients whose credit is skewed, looked at every 50 clients from 50 to 6,000: how often a claim is
   wrong without a difference, and how many clients (median) it takes with one of .03 and .1 clicks.
   A difference is that of what clients count, 3 clicks at most.
2. Whole logs of simulated users: what the verdict is at 10 looks, and at the last one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from experiment_users import (
    QUERIES,
    Clicks,
    Flags,
    Numbers,
    Rng,
    Searches,
    World,
    clicks_of,
    drawn_world,
    mirrored,
    orders_of,
    position_users,
    searches_of,
)
from experiment_worlds import log_wealth
from owpc_ltr_experiment.experiment_log import EVENT_FIELDS, QUERY_FIELDS, ExperimentLog
from owpc_ltr_experiment.status import ExperimentStatus, status_of
from owpc_ltr_experiment.verdict import CAP

from owpc_ltr.arrays import Vector
from owpc_ltr.engine.experiments import Experiment
from owpc_ltr.evaluation.significance import LEVEL, Outcome

MOST, EVERY = 6_000, 50
EFFECTS = (0.03, 0.1)


def shares(*parts: tuple[float, float], sd: float = 0.0) -> Callable[[Rng, int], Vector]:
    """Clients of whom such shares have such credit; the others have noise around 0."""

    def drawn(rng: Rng, n: int) -> Vector:
        chances, values = zip(*parts, strict=True)
        rest = 1 - sum(chances)
        credit = rng.choice([*values, 0.0], n, p=[*chances, rest])
        return np.where(credit == 0, rng.normal(0, sd, n), credit) if sd else credit

    return drawn


def normal(rng: Rng, n: int) -> Vector:
    """Clients alike."""
    return rng.normal(0, 0.55, n)


def student(rng: Rng, n: int) -> Vector:
    """Heavy tails."""
    return 0.55 / 3**0.5 * rng.standard_t(3, n)


SKEWED: dict[str, Callable[[Rng, int], Vector]] = {
    "normal": normal,
    "t3": student,
    "sparse, 5 % at ±1": shares((0.05, 1.0), (0.05, -1.0)),
    "1 % at +20, 3 % at -1": shares((0.01, 20.0), (0.03, -1.0)),
    "1 % at +20, 20 % at -.15": shares((0.01, 20.0), (0.2, -0.15)),
    "2 % at +10, 6 % at -1": shares((0.02, 10.0), (0.06, -1.0)),
    ".3 % at +20, rest at -.009": shares((0.003, 20.0), (0.99, -0.003 * CAP / 0.99)),
    ".5 % at +20, noise": shares((0.005, 20.0), (0.015, -1.0), sd=0.55),
}
"""Worlds whose clients count 0 on average."""
BEYOND = {
    "1 % at +20, 20 % at -1": shares((0.01, 20.0), (0.2, -1.0)),
    "2 % at +10, 20 % at -1": shares((0.02, 10.0), (0.2, -1.0)),
}
"""Worlds whose credit is 0 on average, without what a client counts at most."""


class Found(NamedTuple):
    """The sign of the first claim and its clients, of a z test's, and at the last look.

    There `few` says that credit above the cap is more, and of the other sign.
    """

    sign: int
    clients: int
    z_sign: int
    last: int
    few: bool


def claim(world: str, effect: float, seed: int) -> Found:
    """What is claimed first in a world where the credit of all clients is larger by `effect`."""
    credit = {**SKEWED, **BEYOND}[world](np.random.default_rng(seed), MOST)
    if effect:
        # A client that counts the most counts so with the effect, too.
        credit = np.clip(credit, -CAP + effect, CAP - effect) + effect
    looks = np.arange(EVERY - 1, MOST, EVERY)
    against, for_b = log_wealth(credit)[:, looks] >= np.log(2 / LEVEL)
    capped = np.clip(credit, -CAP, CAP)
    n, sums, squares = looks + 1, np.cumsum(capped)[looks], np.cumsum(capped**2)[looks]
    z = sums / np.sqrt(np.maximum(squares - sums**2 / n, 1e-12))
    signs = for_b.astype(np.int64) - against
    found, by_z = np.flatnonzero(signs), np.flatnonzero(np.abs(z) > 1.96)
    first, clients = (int(signs[found[0]]), int(n[found[0]])) if len(found) else (0, MOST)
    few = bool(credit.sum() * capped.sum() < 0)
    z_sign = int(np.sign(z[by_z[0]])) if len(by_z) else 0
    return Found(first, clients, z_sign, int(signs[-1]), few)


RETURNING = {
    "400 return 25 times": (400, 25, 0.0),
    "400 with tastes return 25 times": (400, 25, 0.3),
    "2,000 with tastes return 3 times": (2000, 3, 0.8),
}
"""Clients, the searches of each, and how far a taste shifts each of its credits, for B or for A."""


def returning(world: str, seed: int) -> bool:
    """Whether a difference is ever claimed where clients come back, and change what they count."""
    clients, times, taste = RETURNING[world]
    rng = np.random.default_rng(seed)
    tastes = taste * rng.choice([-1.0, 1.0], clients)
    client = rng.permutation(np.repeat(np.arange(clients), times))
    values = rng.choice([-1.0, 0.0, 1.0], len(client), p=[0.2, 0.6, 0.2]) + tastes[client]
    totals = np.zeros(clients)
    for start in range(0, len(client), EVERY):
        look = slice(start, start + EVERY)
        np.add.at(totals, client[look], values[look])
        # A client that has not come yet counts 0, which changes no wealth.
        if log_wealth(totals)[:, -1].max() >= np.log(2 / LEVEL):
            return True
    return False


def skewed_table(worlds: int, workers: ProcessPoolExecutor) -> None:
    """The first table."""
    print(f"{worlds} worlds: share with a wrong claim; median clients and share found, by effect")
    print(f"{'':28s} {'wrong':>6s} {'z test':>7s}" + "".join(f" {each:>14}" for each in EFFECTS))
    for name in SKEWED:
        seeds = range(worlds)
        nulls = list(workers.map(partial(claim, name, 0.0), seeds, chunksize=20))
        wrong, by_z = (
            np.mean([getattr(one, part) != 0 for one in nulls]) for part in ("sign", "z_sign")
        )
        line = f"{name:28s} {wrong:6.1%} {by_z:7.1%}"
        for effect in EFFECTS:
            found = list(workers.map(partial(claim, name, effect), seeds, chunksize=20))
            right = np.mean([one.sign == 1 for one in found])
            line += f" {np.median([one.clients for one in found]):7,.0f} {right:6.1%}"
        print(line + ("  MISSED" if wrong > LEVEL else ""), flush=True)
    for name in RETURNING:
        ever = np.mean(list(workers.map(partial(returning, name), range(worlds), chunksize=20)))
        print(f"{name:33s} {ever:6.1%}" + ("  MISSED" if ever > LEVEL else ""), flush=True)
    print(f"\nno difference but by what a client counts at most; at {MOST:,} clients")
    for name in BEYOND:
        nulls = list(workers.map(partial(claim, name, 0.0), range(worlds), chunksize=20))
        shown = [one for one in nulls if not one.few]
        signs = [np.mean([one.last == sign for one in shown]) * len(shown) for sign in (1, -1)]
        better, worse = (number / worlds for number in signs)
        few = 1 - len(shown) / worlds
        print(f"{name:28s} better {better:.1%}, worse {worse:.1%}, a few clients decide {few:.1%}")
    print()


@dataclass(frozen=True, eq=False)
class UserLog:
    """Searches in time's order, their clicks, and the document clicked on."""

    world: World
    searches: Searches
    clicks: Clicks
    hour: Vector

    def status(self, upto: int) -> ExperimentStatus:
        """What the product says of the first so many searches."""
        world, positions = self.world, self.clicks.positions
        pages = world.merged()[:, :, 0]
        query, leads = self.searches.query[:upto], self.searches.b_leads[:upto]
        first = pages[leads.astype(np.int64), query]
        clicks = self.clicks.search < upto
        of = self.clicks.search[clicks]
        # The rank in A's list says which document it is.
        document = world.a[self.searches.query[of], positions.a[clicks] - 1]
        queries = {
            "search": _texts("s", np.arange(upto)),
            "client": _texts("u", self.searches.client[:upto]),
            "time": _times(self.hour[:upto]),
            "shown": pa.ListArray.from_arrays(
                pa.array(np.arange(upto + 1), pa.int32()), _documents(query, first)
            ),
            "leads": _leaders(leads),
        }
        events = {
            "search": _texts("s", of),
            "time": _times(self.hour[of]),
            "document": _documents(self.searches.query[of], document),
            "leads": _leaders(positions.leads[clicks]),
            **{
                name: _texts("", getattr(positions, name)[clicks])
                for name in ("a", "b", "in_a", "in_b")
            },
        }
        tables = [_table(queries, QUERY_FIELDS)], [_table(events, EVENT_FIELDS)]
        return status_of(EXPERIMENT, ExperimentLog(EXPERIMENT, *tables))


EXPERIMENT = Experiment("x", "a-1", "b-1", index="i", started="2026-01-01T00:00:00Z")


def _table(columns: dict[str, pa.Array], fields: dict[str, str]) -> pa.Table:
    n = len(next(iter(columns.values())))
    return pa.table({name: columns.get(name, pa.nulls(n, pa.string())) for name in fields})


def _texts(prefix: str, numbers: Numbers) -> pa.Array:
    return pa.array(np.char.add(prefix, numbers.astype(str)).tolist(), pa.string())


def _documents(query: Numbers, document: Numbers) -> pa.Array:
    return _texts("d", query * 1000 + document)


def _leaders(leads: Flags) -> pa.Array:
    return pa.array(np.where(leads, "b", "a").tolist(), pa.string())


def _times(hours: Vector) -> pa.Array:
    return _texts("", (1_767_225_600 + 3600 * hours).astype(np.int64))


def in_time(rng: Rng, searches: Searches) -> Searches:
    """The same searches in another order: clients come back later; numbered as they come."""
    order = rng.permutation(len(searches.client))
    return Searches(searches.client[order], searches.query[order], searches.b_leads[order])


CLIENTS = 6_000


def _log(rng: Rng, world: World, searches: Searches, untracked: Flags | None = None) -> UserLog:
    """What users of position do; clicks on untracked documents are not in the log."""
    clicks = clicks_of(rng, world, searches, position_users(1.0))
    if untracked is not None:
        query = searches.query[clicks.search]
        document = world.a[query, clicks.positions.a - 1]
        clicks = clicks.part(~untracked[query, document])
    n = len(searches.client)
    return UserLog(world, searches, clicks, np.arange(n) / 50)


def better(rng: Rng, effect: float = 1.0) -> UserLog:
    """B sees what users want with less noise than A."""
    world = drawn_world(rng, noise=(0.6 + 0.2 * effect, 0.6))
    if world.difference(1.0) < 0:
        world = replace(world, a=world.b, b=world.a)
    counts = rng.geometric(0.5, CLIENTS // 2)
    return _log(rng, world, in_time(rng, searches_of(rng, world, counts)))


def no_difference(rng: Rng) -> UserLog:
    """Clients who come back, and rankers without a difference."""
    world = mirrored(drawn_world(rng))
    return _log(rng, world, in_time(rng, searches_of(rng, world, rng.geometric(0.5, CLIENTS // 2))))


def frequent(rng: Rng, times: int = 25) -> UserLog:
    """One client in a hundred searches 25 times."""
    world = mirrored(drawn_world(rng))
    counts = np.where(rng.random(CLIENTS) < 0.01, times, 1)
    return _log(rng, world, in_time(rng, searches_of(rng, world, counts)))


def one_kind(rng: Rng, burst: bool = True) -> UserLog:
    """1 % of clients search one query 35 times, for which B is far better; else A is.

    In a burst, or spread over all of the time: frequent clients are then many of the first ones.
    """
    world = drawn_world(rng, noise=(0.5, 0.7))
    world.popularity[0] = 0.0
    world = replace(world, popularity=world.popularity / world.popularity.sum())
    if world.difference(1.0) > 0:
        world = replace(world, a=world.b, b=world.a)
    best = orders_of(world.attraction)
    world.b[0], world.a[0] = best[0], best[0][::-1]
    few = rng.random(CLIENTS) < 0.01
    searches = searches_of(rng, world, np.where(few, 35, 1))
    query = np.where(few[searches.client], 0, searches.query)
    # Each search its own coin, as for queries that differ by a word.
    leads = np.where(few[searches.client], rng.random(len(query)) < 0.5, searches.b_leads)
    searches = Searches(searches.client, query, leads)
    return _log(rng, world, searches if burst else in_time(rng, searches))


def novelty(rng: Rng) -> UserLog:
    """Users click on what B puts first because it is new, until they know it: A is better."""
    world = drawn_world(rng, noise=(0.6, 0.7))
    if world.difference(1.0) > 0:
        world = replace(world, a=world.b, b=world.a)
    searches = in_time(rng, searches_of(rng, world, rng.geometric(0.5, CLIENTS // 2)))
    n = len(searches.client)
    new = world.attraction.copy()
    for query in range(QUERIES):
        fresh = [one for one in world.b[query, :3] if one not in world.a[query, :3]]
        new[query, fresh] = np.minimum(new[query, fresh] + 0.5, 1.0)
    parts = []
    # Half as new after each twelfth of the searches.
    for part in range(12):
        attraction = world.attraction + (new - world.attraction) * 0.5**part
        which = np.arange(n) * 12 // n == part
        clicks = clicks_of(
            rng, replace(world, attraction=attraction), searches.part(which), position_users(1.0)
        )
        parts.append((np.flatnonzero(which)[clicks.search], clicks.positions))
    search = np.concatenate([one for one, _ in parts])
    columns = [
        np.concatenate([getattr(positions, name) for _, positions in parts])
        for name in ("a", "b", "in_a", "in_b", "leads")
    ]
    positions = type(parts[0][1])(*columns)
    return UserLog(world, searches, Clicks(search, positions), np.arange(n) / 50)


def untracked(rng: Rng, demoted: bool = True) -> UserLog:
    """Clicks on a quarter of the documents are not logged; B puts these lower, and is worse."""
    world = drawn_world(rng)
    hidden = rng.random(world.attraction.shape) < 0.25
    if demoted:
        rank = np.argsort(world.a, axis=1).astype(np.float64)
        world = replace(world, b=np.argsort(rank + 2.5 * hidden, axis=1, kind="stable"))
    else:
        world = mirrored(world)
        hidden = hidden[np.repeat(np.arange(0, QUERIES, 2), 2)]
    searches = in_time(rng, searches_of(rng, world, rng.geometric(0.5, CLIENTS // 2)))
    return _log(rng, world, searches, hidden)


def worthless(rng: Rng, wanted: float = 0.01) -> UserLog:
    """So few users want a quarter of the documents, and B puts these lower, which is better."""
    world = drawn_world(rng)
    poor = rng.random(world.attraction.shape) < 0.25
    rank = np.argsort(world.a, axis=1).astype(np.float64)
    world = replace(
        world,
        attraction=np.where(poor, wanted, world.attraction),
        b=np.argsort(rank + 2.5 * poor, axis=1, kind="stable"),
    )
    return _log(rng, world, in_time(rng, searches_of(rng, world, rng.geometric(0.5, CLIENTS // 2))))


USERS: dict[str, Callable[[Rng], UserLog]] = {
    "B is better": better,
    "B is a little better": partial(better, effect=0.4),
    "no difference, clients return": no_difference,
    "1 % search 25 times": frequent,
    "1 % search one query 35 times": one_kind,
    "the same, spread over the time": partial(one_kind, burst=False),
    "novelty wears off": novelty,
    "a quarter untracked, no difference": partial(untracked, demoted=False),
    "a quarter untracked, B demotes it": untracked,
    "a quarter worthless, B demotes it": worthless,
    "a quarter without a click": partial(worthless, wanted=0.0),
}
LOOKS = 10


def course(name: str, seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """The outcome and the checks at each look."""
    log = USERS[name](np.random.default_rng([seed, [*USERS].index(name)]))
    seen = []
    n = len(log.searches.client)
    for look in range(1, LOOKS + 1):
        result = log.status(n * look // LOOKS).result
        assert result is not None
        checks = tuple(warning.check for warning in result.verdict.warnings)
        seen.append((str(result.verdict.outcome), checks))
    return seen


def users_table(worlds: int, names: list[str], workers: ProcessPoolExecutor) -> None:
    """The second table."""
    print(f"{worlds} worlds: share with a verdict at any of {LOOKS} looks, and at the last one")
    print(f"{'':36s} {'better':>7s} {'worse':>6s} {'better':>7s} {'worse':>6s}  at the end")
    for name in names:
        courses = list(workers.map(partial(course, name), range(worlds)))
        ever = [
            np.mean([any(one == outcome for one, _ in each) for each in courses])
            for outcome in (Outcome.BETTER, Outcome.WORSE)
        ]
        last = [
            np.mean([each[-1][0] == outcome for each in courses])
            for outcome in (Outcome.BETTER, Outcome.WORSE)
        ]
        ends = Counter(", ".join(each[-1][1]) or each[-1][0] for each in courses)
        text = "; ".join(f"{number} {end}" for end, number in ends.most_common())
        print(
            f"{name:36s} {ever[0]:7.1%} {ever[1]:6.1%} {last[0]:7.1%} {last[1]:6.1%}  {text}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Experiments that a few clients could decide.")
    parser.add_argument("--worlds", type=int, default=500, help="of the first table")
    parser.add_argument("--logs", type=int, default=30, help="worlds of the second table")
    parser.add_argument("--users", nargs="+", default=[*USERS], choices=[*USERS], metavar="NAME")
    parser.add_argument("--tables", nargs="+", type=int, default=[1, 2], choices=[1, 2])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    start = time.monotonic()
    with ProcessPoolExecutor(options.workers) as workers:
        if 1 in options.tables:
            skewed_table(options.worlds, workers)
        if 2 in options.tables:
            users_table(options.logs, options.users, workers)
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
