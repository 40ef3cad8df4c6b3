"""Simulated users of an experiment: queries with two rankers' lists, searches, and clicks.

`benchmarks/experiment_worlds.py` asks for the verdicts on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from owpc_ltr_experiment.verdict import (
    ClickedPositions,
    ClientTotals,
    adjusted_credit,
    coin_residuals,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.interleaving import balanced_merge

PAGE = 10
QUERIES = 40
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rng = np.random.Generator
Users = Callable[[Rng, Vector], Flags]
"""Clicks on the positions of pages, one search a row, by the attraction of what stands there."""


def position_users(exponent: float) -> Users:
    """They look at position p with the chance p**-exponent, and click on what attracts them."""

    def clicks(rng: Rng, attraction: Vector) -> Flags:
        looks = np.arange(1, attraction.shape[1] + 1) ** -exponent
        clicked: Flags = rng.random(attraction.shape) < looks * attraction
        return clicked

    return clicks


def cascade_users(rng: Rng, attraction: Vector) -> Flags:
    """They go down the page, leave after most clicks, and may leave after any result."""
    clicks = np.zeros(attraction.shape, bool)
    looks = np.ones(len(attraction), bool)
    for place in range(attraction.shape[1]):
        clicks[:, place] = looks & (rng.random(len(looks)) < attraction[:, place])
        looks = looks & ~(clicks[:, place] & (rng.random(len(looks)) < 0.7))
        looks &= rng.random(len(looks)) < 0.9
    return clicks


def trust_users(rng: Rng, attraction: Vector) -> Flags:
    """They look at position p with the chance p**-.7, and click on what stands high unseen."""
    p = np.arange(1, attraction.shape[1] + 1)
    chance = p**-0.7 * ((0.98 - 0.02 * p) * attraction + 0.15 / p * (1 - attraction))
    clicked: Flags = rng.random(attraction.shape) < chance
    return clicked


def orders_of(scores: Vector) -> Numbers:
    """The documents of each query by falling score."""
    return np.argsort(-scores, axis=1, kind="stable")


@dataclass(frozen=True, eq=False)
class World:
    """Queries with the attraction of their documents, both rankers' orders, and popularity."""

    attraction: Vector
    a: Numbers
    b: Numbers
    popularity: Vector

    def merged(self) -> Numbers:
        """The pages that A and B lead, of each query."""
        pairs = [
            [balanced_merge(one.tolist(), two.tolist())[:PAGE] for one, two in ((a, b), (b, a))]
            for a, b in zip(self.a, self.b, strict=True)
        ]
        return np.array(pairs).transpose(1, 0, 2)

    def difference(self, exponent: float) -> float:
        """Clicks of a search under B minus clicks under A, of position users."""
        looks = np.arange(1, PAGE + 1) ** -exponent
        clicks = [
            np.take_along_axis(self.attraction, order[:, :PAGE], 1) @ looks
            for order in (self.a, self.b)
        ]
        return float(self.popularity @ (clicks[1] - clicks[0]))


def drawn_world(
    rng: Rng, *, documents: int = 10, noise: tuple[float, float] = (0.6, 0.6), scale: float = 1.0
) -> World:
    """Two rankers that see attraction with such noise."""
    attraction = rng.beta(0.5, 3.0, (QUERIES, documents))
    orders = [
        orders_of(3 * attraction + width * rng.normal(size=attraction.shape)) for width in noise
    ]
    popularity = 1 / np.arange(1, QUERIES + 1)
    return World(attraction * scale, orders[0], orders[1], popularity / popularity.sum())


def mirrored(world: World) -> World:
    """Each second query is the one before with the rankers changed: no difference for any user."""
    first = np.repeat(np.arange(0, QUERIES, 2), 2)
    change = (np.arange(QUERIES) % 2 == 1)[:, None]
    a, b = world.a[first], world.b[first]
    weights = world.popularity[first]
    return World(
        world.attraction[first],
        np.where(change, b, a),
        np.where(change, a, b),
        weights / weights.sum(),
    )


def nearly_tied(rng: Rng, world: World) -> World:
    """B is A with two neighbours changed in one pair of queries of ten."""
    b = world.a.copy()
    for query in range(0, QUERIES, 20):
        place = int(rng.integers(0, PAGE - 1))
        b[query, [place, place + 1]] = b[query, [place + 1, place]]
    return World(world.attraction, world.a, b, world.popularity)


@dataclass(frozen=True, eq=False)
class Searches:
    """Searches with their client (from 0), query, and coin (True: B leads), in time's order."""

    client: Numbers
    query: Numbers
    b_leads: Flags

    def part(self, which: Flags) -> Searches:
        """Some of them."""
        return Searches(self.client[which], self.query[which], self.b_leads[which])


def searches_of(rng: Rng, world: World, counts: Numbers, loyal: float = 0.0) -> Searches:
    """So many searches of each client; the share `loyal` repeats the client's first query."""
    client = np.repeat(np.arange(len(counts)), counts)
    query = rng.choice(QUERIES, len(client), p=world.popularity)
    first = query[np.cumsum(counts) - counts]
    query = np.where(rng.random(len(client)) < loyal, first[client], query)
    coins = rng.random((len(counts), QUERIES)) < 0.5
    return Searches(client, query, coins[client, query])


@dataclass(frozen=True, eq=False)
class Clicks:
    """Clicks on interleaved pages, with the place of the search of each."""

    search: Numbers
    positions: ClickedPositions

    def part(self, which: Flags) -> Clicks:
        """Some of them."""
        old = self.positions
        columns = (old.a, old.b, old.in_a, old.in_b)
        a, b, in_a, in_b = (column[which] for column in columns)
        return Clicks(self.search[which], ClickedPositions(a, b, in_a, in_b, old.leads[which]))


def clicks_of(rng: Rng, world: World, searches: Searches, users: Users) -> Clicks:
    """What users click on balanced pages of both rankers."""
    pages = world.merged()
    shown = pages[searches.b_leads.astype(np.int64), searches.query]
    clicked = users(rng, world.attraction[searches.query[:, None], shown])
    search, place = np.nonzero(clicked)
    query, document = searches.query[search], shown[search, place]
    a, b, in_a, in_b = (
        ranks_of(each, world.attraction.shape[1])[query, document]
        for each in (world.a, world.b, *pages)
    )
    return Clicks(search, ClickedPositions(a, b, in_a, in_b, searches.b_leads[search]))


def with_bots(
    rng: Rng, world: World, searches: Searches, users: Users, share: float
) -> tuple[Searches, Clicks]:
    """Some clients click on half of all they see; those of more than 100 clicks are dropped."""
    counts = np.bincount(searches.client)
    bots = rng.random(len(counts)) < share
    searches = searches_of(rng, world, np.where(bots, rng.integers(5, 60, len(counts)), counts))
    of_bots = bots[searches.client]
    people, blind = (clicks_of(rng, world, searches, each) for each in (users, _blind_users))
    kinds = [people.part(~of_bots[people.search]), blind.part(of_bots[blind.search])]
    clicks = joined(*kinds)
    dropped = np.bincount(searches.client[clicks.search], minlength=len(counts)) > 100
    return without(searches, clicks, dropped[searches.client])


def _blind_users(rng: Rng, attraction: Vector) -> Flags:
    clicked: Flags = rng.random(attraction.shape) < 0.5
    return clicked


def joined(first: Clicks, second: Clicks) -> Clicks:
    """Both, in time's order."""
    search = np.concatenate([first.search, second.search])
    old = first.positions, second.positions
    a, b, in_a, in_b, leads = (
        np.concatenate([getattr(each, name) for each in old])
        for name in ("a", "b", "in_a", "in_b", "leads")
    )
    o = np.argsort(search, kind="stable")
    return Clicks(search[o], ClickedPositions(a[o], b[o], in_a[o], in_b[o], leads[o]))


def without(searches: Searches, clicks: Clicks, dropped: Flags) -> tuple[Searches, Clicks]:
    """All but some searches, and their clicks; clients are numbered anew."""
    left = clicks.part(~dropped[clicks.search])
    place = np.cumsum(~dropped) - 1
    rest = searches.part(~dropped)
    client = np.unique(rest.client, return_inverse=True)[1]
    return Searches(client, rest.query, rest.b_leads), Clicks(place[left.search], left.positions)


def ranks_of(orders: Numbers, documents: int) -> Numbers:
    """The rank of each document from 1; 0 where it is not in the list."""
    ranks = np.zeros((len(orders), documents), np.int64)
    np.put_along_axis(ranks, orders, np.arange(1, orders.shape[1] + 1)[None, :], 1)
    return ranks


def totals_of(searches: Searches, clicks: Clicks, exponent: float, clients: int) -> ClientTotals:
    """What counts of the first so many clients."""
    of_client = searches.client[clicks.search]
    late = clicks.search >= len(searches.client) * 2 // 3

    def total(values: Vector) -> Vector:
        return np.bincount(of_client, values, clients).astype(np.float64)

    credit = adjusted_credit(clicks.positions, exponent, PAGE)
    return ClientTotals(
        credit=total(credit),
        late=total(credit * late),
        searches=np.bincount(searches.client, minlength=clients),
        clicks=np.bincount(of_client, minlength=clients),
        led_b=np.bincount(searches.client[searches.b_leads], minlength=clients),
        residual=total(coin_residuals(clicks.positions, exponent, PAGE)),
        unlogged=np.zeros(clients),
    )
