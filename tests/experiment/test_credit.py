"""Credit is clicks under B minus clicks under A: by enumeration, by symmetry, and by example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_experiment.verdict import (
    ClickedPositions,
    adjusted_credit,
    coin_residuals,
    debiased_credit,
    examination_exponent,
)

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.interleaving import balanced_merge


def places(documents: Sequence[str], ranking: Sequence[str], most: int) -> list[int]:
    return [ranking.index(d) + 1 if d in ranking[:most] else 0 for d in documents]


def clicked(columns: Sequence[Any], leads: Any) -> ClickedPositions:
    """Clicks with these a, b, in_a, in_b."""
    a, b, in_a, in_b = (np.array(column, np.int64) for column in columns)
    return ClickedPositions(a, b, in_a, in_b, np.array(leads, bool))


def clicks_on(
    documents: Sequence[str], a: Sequence[str], b: Sequence[str], leads: bool, end: int
) -> ClickedPositions:
    """A click on each of these documents, on a page to `end` that A or B leads."""
    merges = balanced_merge(a, b), balanced_merge(b, a)
    columns = [*(places(documents, ranking, 99) for ranking in (a, b))]
    columns += [places(documents, merge, end) for merge in merges]
    return clicked(columns, [leads] * len(documents))


def seen(positions: Sequence[int], exponent: float, page: int) -> Vector:
    return np.array([p**-exponent if 0 < p <= page else 0.0 for p in positions])


def expected_credit(
    a: Sequence[str], b: Sequence[str], relevance: Vector, *, exponent: float, page: int
) -> float:
    """Over both falls of the coin, and all clicks."""
    documents = sorted(a)
    total = 0.0
    for leads, merge in ((False, balanced_merge(a, b)), (True, balanced_merge(b, a))):
        chances = seen(places(documents, merge, page), exponent, page) * relevance
        credit = debiased_credit(clicks_on(documents, a, b, leads, page), exponent, page)
        total += float(chances @ credit) / 2
    return total


def true_difference(
    a: Sequence[str], b: Sequence[str], relevance: Vector, *, exponent: float, page: int
) -> float:
    documents = sorted(a)
    looks = [seen(places(documents, ranking, page), exponent, page) for ranking in (a, b)]
    return float((looks[1] - looks[0]) @ relevance)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_expected_credit_is_clicks_under_b_minus_clicks_under_a(size: int, exponent: float) -> None:
    relevance = np.random.default_rng(size).random(size)
    a = "abcd"[:size]
    for b in permutations(a):
        world: dict[str, Any] = {"exponent": exponent, "page": size}
        assert expected_credit(a, b, relevance, **world) == pytest.approx(
            true_difference(a, b, relevance, **world)
        )


@pytest.mark.parametrize("page", [1, 2, 3])
def test_only_documents_that_neither_page_shows_are_missing(page: int) -> None:
    relevance = np.random.default_rng(page).random(4)
    for b in permutations("abcd"):
        a = "abcd"
        shown = {*balanced_merge(a, b)[:page], *balanced_merge(b, a)[:page]}
        without = relevance * [document in shown for document in a]
        world: dict[str, Any] = {"exponent": 1.0, "page": page}
        assert expected_credit(a, b, relevance, **world) == pytest.approx(
            true_difference(a, b, without, **world)
        )


def test_the_worked_example() -> None:
    """A = abc, B = bca; where only c is relevant it moves from rank 3 to 2: 1/2 - 1/3."""
    world: dict[str, Any] = {"exponent": 1.0, "page": 3}
    only_c, equal = np.array([0.0, 0.0, 1.0]), np.ones(3)
    assert expected_credit("abc", "bca", only_c, **world) == pytest.approx(1 / 2 - 1 / 3)
    assert expected_credit("abc", "bca", equal, **world) == pytest.approx(0.0)


def test_a_click_on_the_second_page_counts_nothing() -> None:
    """B's page shows the document third; the click came from A's, at position 4 of 3."""
    click = clicked([[5], [2], [4], [3]], [False])
    assert debiased_credit(click, 1.0, 3).tolist() == [0.0]
    led = replace(click, leads=np.array([True]))
    assert debiased_credit(led, 1.0, 3) == pytest.approx([(1 / 2) / (1 / 3 / 2)])


POSITIONS = st.integers(0, 12)


@given(
    st.lists(st.tuples(POSITIONS, POSITIONS, POSITIONS, POSITIONS, st.booleans()), max_size=30),
    st.floats(0, 3),
)
def test_rankers_that_change_places_change_the_sign(
    rows: list[tuple[int, int, int, int, bool]], exponent: float
) -> None:
    a, b, in_a, in_b = ([row[k] for row in rows] for k in range(4))
    clicks = clicked([a, b, in_a, in_b], [row[4] for row in rows])
    swapped = clicked([b, a, in_b, in_a], ~clicks.leads)
    for values in (debiased_credit, adjusted_credit, coin_residuals):
        first, second = (values(each, exponent, 10) for each in (clicks, swapped))
        np.testing.assert_allclose(first, -second, atol=1e-12)
        assert np.isfinite(first).all()
    assert examination_exponent(clicks, 10) == pytest.approx(examination_exponent(swapped, 10))


def drawn(rng: np.random.Generator, n: int, exponent: float, lost: float = 0.0) -> ClickedPositions:
    """Clicks on documents at two random positions of a page, some of those lost that B leads."""
    in_a, in_b = rng.integers(1, 11, (2, n))
    leads = rng.random(n) < in_b**-exponent / (in_a**-exponent + in_b**-exponent)
    arrives = ~leads | (rng.random(n) >= lost)
    return clicked([column[arrives] for column in (in_a, in_b, in_a, in_b)], leads[arrives])


@pytest.mark.parametrize("exponent", [0.3, 1.0, 1.8])
def test_the_exponent_of_users_is_estimated(exponent: float) -> None:
    rng = np.random.default_rng(1)
    exponents = np.array([examination_exponent(drawn(rng, 2000, exponent), 10) for _ in range(100)])
    assert exponents.mean() == pytest.approx(exponent, abs=0.03)
    assert exponents.std() < 0.1


def test_few_clicks_leave_the_exponent_that_is_usual() -> None:
    nothing = drawn(np.random.default_rng(0), 0, 1.0)
    assert examination_exponent(nothing, 10) == pytest.approx(1.0)
    alike = clicked([[3]] * 4, [True])
    assert examination_exponent(alike, 10) == pytest.approx(1.0)
    assert 0.0 < examination_exponent(drawn(np.random.default_rng(0), 20, 0.0), 10) < 1.0


def test_clicks_beyond_the_page_say_nothing_of_the_exponent() -> None:
    """Nobody turns the page, unless for a document that B leads."""
    clicks = drawn(np.random.default_rng(3), 500, 1.0)
    columns = zip((clicks.a, clicks.b, clicks.in_a, clicks.in_b), (9, 12, 9, 12), strict=True)
    longer = [np.concatenate([column, np.full(500, place)]) for column, place in columns]
    beyond = clicked(longer, np.concatenate([clicks.leads, np.ones(500, bool)]))
    assert examination_exponent(beyond, 10) == examination_exponent(clicks, 10)


def test_the_leader_of_clicks_is_as_predicted_unless_some_are_lost() -> None:
    rng = np.random.default_rng(2)
    for lost, low, high in ((0.0, -0.01, 0.01), (0.2, -0.07, -0.03)):
        clicks = drawn(rng, 20_000, 1.0, lost)
        assert low < coin_residuals(clicks, 1.0, 10).mean() < high


def whole_clicks(relevance: Vector, arriving: float) -> ClickedPositions:
    """All clicks of 2 x 3600 searches on A = abc and B = bca, of which B's pages lose some."""
    parts = []
    for leads, merge in (
        (False, balanced_merge("abc", "bca")),
        (True, balanced_merge("bca", "abc")),
    ):
        chances = seen(places("abc", merge, 3), 1.0, 3) * relevance
        counts = np.round(3600 * chances * (arriving if leads else 1.0)).astype(int)
        documents = [d for d, count in zip("abc", counts, strict=True) for _ in range(count)]
        parts.append(clicks_on(documents, "abc", "bca", leads, 3))
    names = ("a", "b", "in_a", "in_b")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    return clicked(columns, np.concatenate([part.leads for part in parts]))


@pytest.mark.parametrize("arriving", [0.95, 0.8])
def test_lost_clicks_of_one_leader_give_nobody_credit(arriving: float) -> None:
    """A = abc, B = bca, and all attract alike: without the adjustment, A gets credit."""
    clicks = whole_clicks(np.ones(3), arriving)
    assert debiased_credit(clicks, 1.0, 3).sum() / 7200 < -0.1 * (1 - arriving)
    assert abs(adjusted_credit(clicks, 1.0, 3).sum()) / 7200 < 0.1 * (1 - arriving) ** 2


def test_without_lost_clicks_the_adjustment_changes_nothing() -> None:
    for relevance in (np.ones(3), np.array([0.0, 0.0, 1.0]), np.array([0.2, 0.7, 0.4])):
        clicks = whole_clicks(relevance, 1.0)
        plain, adjusted = (f(clicks, 1.0, 3).sum() for f in (debiased_credit, adjusted_credit))
        assert plain == pytest.approx(adjusted, abs=1e-6)
        world: dict[str, Any] = {"exponent": 1.0, "page": 3}
        assert plain / 7200 == pytest.approx(true_difference("abc", "bca", relevance, **world))
