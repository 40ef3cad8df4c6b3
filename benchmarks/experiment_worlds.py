"""False and true verdicts of experiments with simulated users, looked at after every client.

    python benchmarks/experiment_worlds.py --worlds 500

1. Without a difference: how often a difference is claimed at any look from 100 clients on. `wrong`
   is the verdict's, `exponent 1` the same with a fixed exponent of examination, `z test` a test at
   5 % at every look, `checks` how often a check of the log stops the verdict without need.
2. With one: the searches until a difference is claimed, by the same interval for all methods, and
   how many of the worlds have the wrong ranker or none.
3. With a broken log: what is claimed at any look, and the verdict at the end.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from experiment_users import (
    PAGE,
    QUERIES,
    Clicks,
    Numbers,
    Rng,
    Searches,
    Users,
    World,
    cascade_users,
    clicks_of,
    drawn_world,
    mirrored,
    nearly_tied,
    orders_of,
    position_users,
    searches_of,
    totals_of,
    trust_users,
    with_bots,
    without,
)
from owpc_ltr_experiment.verdict import (
    BETS,
    CAP,
    examination_exponent,
    experiment_result,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.significance import LEVEL, Outcome

CLIENTS = 10_000
FEWEST = 100
"""Clients of the first look."""
_BLOCKS = 40
"""The exponent is estimated, and the log checked, at so many clients of the same ratio."""
LONGEST = 60_000
"""Searches after which no method goes on."""
CHECKS = {"sample-ratio", "lost-clicks"}
Logged = tuple[Searches, Clicks]


class Null(NamedTuple):
    """Worlds without a difference: the users, the world, the searches of each client, bots."""

    users: Users
    world: Callable[[Rng], World]
    counts: Callable[[Rng], Numbers]
    loyal: float = 0.0
    bots: float = 0.0


def _single(_rng: Rng) -> Numbers:
    return np.ones(CLIENTS, np.int64)


def _several(rng: Rng) -> Numbers:
    return rng.geometric(0.4, 4000)


def _heavy(rng: Rng) -> Numbers:
    """One client in a hundred searches a hundred times and more."""
    return np.minimum(1 + rng.pareto(1.0, 4000), 500).astype(np.int64)


def _mirrored(rng: Rng, scale: float = 1.0, documents: int = 10) -> World:
    return mirrored(drawn_world(rng, scale=scale, documents=documents))


def _tied(rng: Rng) -> World:
    return mirrored(nearly_tied(rng, drawn_world(rng)))


def _equal(rng: Rng) -> World:
    """All documents attract alike, and the lists have nothing to do with each other."""
    a, b = (orders_of(rng.random((QUERIES, PAGE))) for _ in range(2))
    return World(np.full(a.shape, 0.2), a, b, np.full(QUERIES, 1 / QUERIES))


NULLS = {
    "position users": Null(position_users(1.0), _mirrored, _single),
    "steep, exponent 1.6": Null(position_users(1.6), _mirrored, _single),
    "flat, exponent .4": Null(position_users(0.4), _mirrored, _single),
    "cascade users": Null(cascade_users, _mirrored, _single),
    "trust users": Null(trust_users, _mirrored, _single),
    "30 documents": Null(position_users(1.0), partial(_mirrored, documents=30), _single),
    "rare clicks, 1 %": Null(position_users(1.0), partial(_mirrored, scale=0.03), _single),
    "A and B nearly the same": Null(position_users(1.0), _tied, _single),
    "clients of many searches": Null(position_users(1.0), _mirrored, _several),
    "heavy clients": Null(position_users(1.0), _mirrored, _heavy, loyal=0.7),
    "heavy cascade clients": Null(cascade_users, _mirrored, _heavy, loyal=0.7),
    "bots dropped": Null(position_users(1.0), _mirrored, _several, bots=0.01),
    "equal, position users": Null(position_users(1.0), _equal, _single),
    "equal, cascade users": Null(cascade_users, _equal, _single),
    "equal, trust users": Null(trust_users, _equal, _single),
}


class Looks(NamedTuple):
    """Which looks have a claim: +1 for B, -1 for A; 0 is none."""

    verdict: Numbers
    z_test: Numbers


def log_wealth(credit: Vector) -> Vector:
    """The logarithms of the wealth that bets on A, and on B, at each number of clients."""
    sides = []
    for values in (-credit, credit):
        x = np.clip(values, -CAP, CAP) / CAP
        logs = np.stack([np.cumsum(np.log1p(bet * x)) for bet in BETS.ravel()])
        largest = logs.max(axis=0)
        sides.append(largest + np.log(np.exp(logs - largest).mean(axis=0)))
    return np.array(sides)


def looks_at(credit: Vector, first: int) -> Looks:
    """The claims at each number of clients above `first`."""
    n = np.arange(1, len(credit) + 1)
    means = np.cumsum(credit) / n
    squares = np.cumsum(credit**2)
    deviations = np.sqrt(np.maximum(squares - n * means**2, 0) / np.maximum(n - 1, 1))
    against, for_b = log_wealth(credit)[:, first:] >= np.log(2 / LEVEL)
    by_z = (np.abs(means) > deviations * 1.96 / np.sqrt(n))[first:]
    signs = np.sign(means)[first:].astype(np.int64)
    return Looks(for_b.astype(np.int64) - against, signs * by_z)


def blocks(clients: int) -> Iterator[tuple[int, int]]:
    """Numbers of clients between which the exponent is not estimated anew."""
    ends = np.unique(np.geomspace(FEWEST, clients, _BLOCKS).astype(int)).tolist()
    yield from zip([FEWEST - 1, *ends], ends, strict=False)


@dataclass(frozen=True)
class Course:
    """What was claimed in the course of an experiment."""

    verdict: Numbers
    fixed: Numbers
    z_test: Numbers
    checks: frozenset[str]
    at_end: str


def course_of(searches: Searches, clicks: Clicks, clients: int) -> Course:
    """All looks, one after each client."""
    of_client = searches.client[clicks.search]
    claims, tests, checks, at_end = [], [], set[str](), ""
    for first, last in blocks(clients):
        before = clicks.part(of_client < last)
        exponent = examination_exponent(before.positions, PAGE)
        totals = totals_of(searches.part(searches.client < last), before, exponent, last)
        looks = looks_at(totals.credit, first)
        result = experiment_result(totals, exponent=exponent)
        doubts = {warning.check for warning in result.verdict.warnings}
        sign = {Outcome.BETTER: 1, Outcome.WORSE: -1}.get(result.verdict.outcome)
        # What is counted here for all looks is what the product says.
        assert sign is None or sign == looks.verdict[-1]
        checks |= CHECKS & doubts
        at_end = ", ".join(sorted(doubts)) or str(result.verdict.outcome)
        claims.append(np.where(bool(CHECKS & doubts), 0, looks.verdict))
        tests.append(looks.z_test)
    fixed = totals_of(searches, clicks, 1.0, clients)
    return Course(
        np.concatenate(claims), looks_at(fixed.credit, FEWEST - 1).verdict,
        np.concatenate(tests), frozenset(checks), at_end,
    )  # fmt: skip


def null_course(name: str, seed: int) -> Course:
    """One world without a difference."""
    null, rng = NULLS[name], np.random.default_rng([seed, [*NULLS].index(name)])
    world = null.world(rng)
    counts = null.counts(rng)
    searches = searches_of(rng, world, counts, null.loyal)
    if null.bots:
        searches, clicks = with_bots(rng, world, searches, null.users, null.bots)
    else:
        clicks = clicks_of(rng, world, searches, null.users)
    clients = int(searches.client.max()) + 1
    return course_of(searches, clicks, clients)


def returning_course(seed: int) -> tuple[int, int]:
    """Claims at any look, of the verdict and a z test, where 400 clients come back all the time."""
    rng = np.random.default_rng([seed, 99])
    world = _mirrored(rng)
    searches = searches_of(rng, world, np.full(400, 25))
    order = rng.permutation(len(searches.client))
    searches = Searches(searches.client[order], searches.query[order], searches.b_leads[order])
    clicks = clicks_of(rng, world, searches, position_users(1.0))
    claims = np.zeros(2, np.int64)
    for last in range(200, len(order) + 1, 50):
        before = clicks.part(clicks.search < last)
        exponent = examination_exponent(before.positions, PAGE)
        client = np.unique(searches.client[:last], return_inverse=True)[1]
        so_far = Searches(client, searches.query[:last], searches.b_leads[:last])
        clients = int(client.max()) + 1
        totals = totals_of(so_far, before, exponent, clients)
        result = experiment_result(totals, exponent=exponent)
        error = float(totals.credit.std(ddof=1)) / clients**0.5
        claims |= [
            result.verdict.outcome in {Outcome.BETTER, Outcome.WORSE},
            abs(result.mean) > 1.96 * error,
        ]
    return int(claims[0]), int(claims[1])


def null_table(names: list[str], worlds: int, workers: ProcessPoolExecutor) -> None:
    """The first table."""
    print(f"no difference, {worlds} worlds: share with a claim at any look")
    print(f"{'':26s} {'wrong':>6s} {'exponent 1':>11s} {'z test':>7s} {'checks':>7s}")
    for name in names:
        courses = list(workers.map(partial(null_course, name), range(worlds), chunksize=10))
        shares = [
            np.mean([getattr(course, column).any() for course in courses])
            for column in ("verdict", "fixed", "z_test")
        ]
        checks = np.mean([bool(course.checks) for course in courses])
        bad = "  MISSED" if shares[0] > 0.05 else ""
        print(
            f"{name:26s} {shares[0]:6.1%} {shares[1]:11.1%} {shares[2]:7.1%} {checks:7.1%}{bad}",
            flush=True,
        )
    back = np.mean(list(workers.map(returning_course, range(worlds), chunksize=10)), axis=0)
    print(f"{'clients come back':26s} {back[0]:6.1%} {'':11s} {back[1]:7.1%}\n", flush=True)


METHODS = ("debiased", "balanced", "team draft", "A/B")


def found_after(claims: Numbers) -> tuple[int, int]:
    """The searches until the first claim, and its sign; LONGEST and 0 for none."""
    places = np.flatnonzero(claims)
    return (int(places[0]) + FEWEST, int(claims[places[0]])) if len(places) else (LONGEST, 0)


def balanced_credit(clicks: Clicks, searches: int) -> Vector:
    """Classical credit: clicks on the first k of B less those of A, to the lowest click's rank."""
    positions = clicks.positions
    rank = np.minimum(positions.a, positions.b)
    deepest = np.zeros(searches, np.int64)
    # Clicks are in the order of the page: the last one of a search stays.
    deepest[clicks.search] = rank
    k = deepest[clicks.search]
    gain = (positions.b <= k).astype(np.float64) - (positions.a <= k)
    return np.bincount(clicks.search, gain, searches).astype(np.float64)


def team_drafts(rng: Rng, world: World, drafts: int = 64) -> tuple[Numbers, Numbers]:
    """Pages of each query, and which team each result is of: 1 for B, -1 for A."""
    pages = np.zeros((QUERIES, drafts, PAGE), np.int64)
    teams = np.zeros_like(pages)
    for query in range(QUERIES):
        lists = world.a[query].tolist(), world.b[query].tolist()
        for draft in range(drafts):
            page: dict[int, int] = {}
            while len(page) < PAGE:
                for side in rng.permutation(2).tolist():
                    document = next((d for d in lists[side] if d not in page), None)
                    if document is not None:
                        page[document] = 2 * side - 1
            pages[query, draft], teams[query, draft] = [*page][:PAGE], [*page.values()][:PAGE]
    return pages, teams


def difference_of(documents: int, seed: int) -> dict[str, tuple[int, int]]:
    """One world with a better ranker: the searches and the sign by method; 1 is right."""
    rng = np.random.default_rng([seed, documents])
    noise = (0.8, 0.6) if rng.random() < 0.5 else (0.6, 0.8)
    world = drawn_world(rng, documents=documents, noise=noise)
    right = 1 if world.difference(1.0) > 0 else -1
    users, one = position_users(1.0), np.ones(LONGEST, np.int64)
    searches = searches_of(rng, world, one)
    clicks = clicks_of(rng, world, searches, users)
    claims = {"debiased": course_of(searches, clicks, LONGEST).verdict}
    pages, teams = team_drafts(rng, world)
    draft = rng.integers(0, pages.shape[1], LONGEST)
    shown = pages[searches.query, draft]
    clicked = users(rng, world.attraction[searches.query[:, None], shown])
    by_b = searches.b_leads[:, None]
    alone = np.where(by_b, world.b[searches.query, :PAGE], world.a[searches.query, :PAGE])
    on_one = users(rng, world.attraction[searches.query[:, None], alone]).sum(1)
    values = {
        "balanced": balanced_credit(clicks, LONGEST),
        "team draft": (clicked * teams[searches.query, draft]).sum(1).astype(np.float64),
        "A/B": 2.0 * on_one * np.where(searches.b_leads, 1, -1),
    }
    for name, credit in values.items():
        claims[name] = looks_at(credit, FEWEST - 1).verdict
    decided = {name: found_after(each) for name, each in claims.items()}
    return {name: (after, sign * right) for name, (after, sign) in decided.items()}


def difference_table(worlds: int, workers: ProcessPoolExecutor) -> None:
    """The second table."""
    print(f"a better ranker, {worlds} worlds: searches until a claim (median), worlds by outcome")
    print(f"{'':26s} {'method':11s} {'searches':>9s} {'right':>6s} {'wrong':>6s} {'none':>5s}")
    for documents in (10, 30):
        outcomes = list(workers.map(partial(difference_of, documents), range(worlds)))
        for method in METHODS:
            after, signs = zip(*(outcome[method] for outcome in outcomes), strict=True)
            counts = Counter(signs)
            print(
                f"{f'{documents} documents, page of 10':26s} {method:11s} "
                f"{np.median(after):9,.0f} {counts[1]:6d} {counts[-1]:6d} {counts[0]:5d}",
                flush=True,
            )
    print()


def _lost_clicks(share: float, rng: Rng, searches: Searches, clicks: Clicks) -> Logged:
    lost = clicks.positions.leads & (rng.random(len(clicks.search)) < share)
    return searches, clicks.part(~lost)


def _lost_searches(share: float, rng: Rng, searches: Searches, clicks: Clicks) -> Logged:
    lost = searches.b_leads & (rng.random(len(searches.client)) < share)
    return without(searches, clicks, lost)


def _nothing_lost(_rng: Rng, searches: Searches, clicks: Clicks) -> Logged:
    return searches, clicks


FAULTS: dict[str, Callable[[Rng, Searches, Clicks], Logged]] = {
    "nothing": _nothing_lost,
    "5 % of B's clicks lost": partial(_lost_clicks, 0.05),
    "30 % of B's clicks lost": partial(_lost_clicks, 0.3),
    "5 % of B's searches lost": partial(_lost_searches, 0.05),
    "20 % of B's searches lost": partial(_lost_searches, 0.2),
}
CACHES = {"a cache shows A's to 20 %": 0.2, "a cache shows A's to all": 1.0}
BROKEN_CLIENTS = 40_000


def broken_course(fault: str, different: bool, seed: int) -> Course:
    """One world with a broken log; with a difference, B is better."""
    rng = np.random.default_rng([seed, different])
    world = drawn_world(rng, noise=(0.8, 0.6))
    world = world if different else mirrored(world)
    if different and world.difference(1.0) < 0:
        world = World(world.attraction, world.b, world.a, world.popularity)
    searches = searches_of(rng, world, np.ones(BROKEN_CLIENTS, np.int64))
    cached = rng.random(BROKEN_CLIENTS) < CACHES.get(fault, 0.0)
    searches = Searches(searches.client, searches.query, searches.b_leads & ~cached)
    clicks = clicks_of(rng, world, searches, position_users(1.0))
    if fault in FAULTS:
        searches, clicks = FAULTS[fault](rng, searches, clicks)
    return course_of(searches, clicks, int(searches.client.max()) + 1)


def broken_table(worlds: int, workers: ProcessPoolExecutor) -> None:
    """The third table."""
    print(f"a broken log, {worlds} worlds of {BROKEN_CLIENTS:,} clients: claims at any look")
    print(f"{'':26s} {'difference':10s} {'better':>7s} {'worse':>6s}  at the end")
    for fault in (*FAULTS, *CACHES):
        for different in (False, True):
            job = partial(broken_course, fault, different)
            courses = list(workers.map(job, range(worlds)))
            better, worse = (
                np.mean([(course.verdict == sign).any() for course in courses]) for sign in (1, -1)
            )
            ends = Counter(course.at_end for course in courses)
            text = "; ".join(f"{number} {end}" for end, number in ends.most_common())
            what = "B better" if different else "none"
            print(f"{fault:26s} {what:10s} {better:7.1%} {worse:6.1%}  {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts of experiments, by simulated users.")
    parser.add_argument("--worlds", type=int, default=500, help="without a difference")
    parser.add_argument("--nulls", nargs="+", default=[*NULLS], choices=[*NULLS], metavar="NAME")
    parser.add_argument("--different", type=int, default=30, help="worlds with one, or a fault")
    parser.add_argument("--tables", nargs="+", type=int, default=[1, 2, 3], choices=[1, 2, 3])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    start = time.monotonic()
    with ProcessPoolExecutor(options.workers) as workers:
        if 1 in options.tables:
            null_table(options.nulls, options.worlds, workers)
        if 2 in options.tables:
            difference_table(options.different, workers)
        if 3 in options.tables:
            broken_table(options.different, workers)
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
