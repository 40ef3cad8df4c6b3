"""The page of two rankers: who leads, what is shown, and what a click carries."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_experiment.verdict import lead_check

from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.interleaving import balanced_merge, interleave, leader

PAIRS = st.integers(0, 12).flatmap(
    lambda n: st.tuples(*(st.permutations([f"d{k}" for k in range(n)]) for _ in range(2)))
)


def by_radlinski(leading: list[str], other: list[str]) -> list[str]:
    """Algorithm 1 of Radlinski, Kurup & Joachims (CIKM 2008), as it is printed."""
    merged: list[str] = []
    k_leading = k_other = 0
    while k_leading < len(leading) and k_other < len(other):
        if k_leading <= k_other:
            if leading[k_leading] not in merged:
                merged.append(leading[k_leading])
            k_leading += 1
        else:
            if other[k_other] not in merged:
                merged.append(other[k_other])
            k_other += 1
    return merged


def page_of(a: list[Any], b: list[Any], **more: Any) -> Any:
    names = {"experiment": "titles", "client": "c7", "query": "insidious", **more}
    return interleave(a, b, **names)


def client_led_by(side: str) -> str:
    return next(f"c{n}" for n in range(99) if leader("titles", f"c{n}", "insidious") == side)


@given(PAIRS)
def test_the_merge_is_the_published_one(pair: tuple[list[str], list[str]]) -> None:
    published = by_radlinski(*pair)
    merge = balanced_merge(*pair)
    assert merge[: len(published)] == published
    assert sorted(merge) == sorted(pair[0])


@given(PAIRS, st.integers(0, 12))
def test_any_beginning_reads_both_lists_equally_deep(
    pair: tuple[list[str], list[str]], length: int
) -> None:
    leading, other = pair
    shown = set(balanced_merge(leading, other)[:length])
    depths = [(k, m) for k in range(len(leading) + 1) for m in (k, k - 1) if m >= 0]
    assert any(shown == {*leading[:k], *other[:m]} for k, m in depths)


@given(PAIRS)
def test_lists_that_agree_are_shown_as_they_are(pair: tuple[list[str], list[str]]) -> None:
    assert balanced_merge(pair[0], pair[0]) == pair[0]


@given(PAIRS, st.integers(1, 5), st.sampled_from(["c1", "c2", "c3", "c4"]))
def test_pages_are_disjoint_and_make_the_longer_page(
    pair: tuple[list[str], list[str]], size: int, client: str
) -> None:
    whole = page_of(*pair, client=client, size=3 * size)
    pages = [page_of(*pair, client=client, size=size, start=n * size) for n in range(3)]
    assert [hit for page in pages for hit in page.hits] == whole.hits
    for number, page in enumerate(pages):
        for place, hit in enumerate(page.hits, number * size + 1):
            logged = page.event_attributes[hit]["experiment"]
            assert logged[f"in_{logged['leads']}"] == place
            both = logged["a"] - 1, logged["b"] - 1
            assert (pair[0][both[0]], pair[1][both[1]]) == (hit, hit)


@given(PAIRS)
def test_rankers_that_change_places_change_all_that_is_logged(
    pair: tuple[list[str], list[str]],
) -> None:
    """The coin is the same, and so the leader is the other list."""
    first = page_of(*pair, client=client_led_by("a"))
    second = page_of(*reversed(pair), client=client_led_by("b"))
    assert first.hits == second.hits
    for hit in first.hits:
        attributes, other = (page.event_attributes[hit]["experiment"] for page in (first, second))
        assert (attributes["a"], attributes["in_a"]) == (other["b"], other["in_b"])
        assert (attributes["b"], attributes["in_b"]) == (other["a"], other["in_a"])


def test_what_is_logged_of_the_worked_example() -> None:
    page = page_of(list("abc"), list("bca"), client=client_led_by("b"), size=2)
    assert page.hits == ["b", "a"]
    assert page.query_attributes == {"experiment": {"name": "titles", "leads": "b"}}
    assert page.event_attributes["a"]["experiment"] == {
        "name": "titles", "leads": "b", "a": 1, "b": 3, "in_a": 1, "in_b": 2,
    }  # fmt: skip


def test_a_document_beyond_the_depth_or_the_page_has_no_rank() -> None:
    page = page_of(["x", "y"], ["z", "x"], client=client_led_by("a"), size=2)
    assert page.hits == ["x", "z"]
    logged = page.event_attributes["z"]["experiment"]
    assert (logged["a"], logged["b"], logged["in_a"], logged["in_b"]) == (None, 1, 2, 1)
    page = page_of(["x", "y"], ["z", "x"], client=client_led_by("a"), size=1)
    logged = page.event_attributes["x"]["experiment"]
    assert (logged["in_a"], logged["in_b"]) == (1, None)


def test_hits_of_an_engine_come_out_as_the_leader_has_them() -> None:
    a, b = ([{"_id": name, "_score": score} for name in "xy"] for score in (1.0, 2.0))
    for side, score in (("a", 1.0), ("b", 2.0)):
        page = page_of(a, b, client=client_led_by(side))
        assert page.hits == [{"_id": name, "_score": score} for name in "xy"]


def test_the_coin_is_fair_and_falls_anew_for_each_of_the_three() -> None:
    falls = [
        [leader(f"e{n % 7}", f"c{n}", f"q{n % 11}") == "b" for n in range(4000)],
        [leader("e", "c", f"q{n}") == "b" for n in range(4000)],
        [leader(f"e{n}", "c", "q") == "b" for n in range(4000)],
    ]
    for fall in falls:
        assert lead_check(len(fall) - sum(fall), sum(fall)) > 0.1
    correlations = np.corrcoef(np.array(falls, float))[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(4000)


def test_the_coin_is_the_same_on_every_machine() -> None:
    """Pages that users saw before an update of the gateway go on with the same leader."""
    assert "".join(leader("titles", f"c{n}", "insidious") for n in range(12)) == "bbaabaabbabb"
    assert leader("titles", "c1", "Red  Shoe ") == leader("titles", "c1", "red shoe")
    for client in ("", "\ud800", "\0", "ß" * 10_000):
        assert leader("titles", client, client) in "ab"


def test_what_ran_into_each_other_is_told_apart() -> None:
    pairs = [(f"a{n}", "b\0c", f"a{n}\0b", "c") for n in range(64)]
    assert any(leader(e, c, "q") != leader(f, d, "q") for e, c, f, d in pairs)


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        (["x", "y"], ["y", "x"] * 2, {"start": 1, "size": 2}, "has 'y' at ranks 1 and 3"),
        (["x"], ["x"], {"start": -1}, "no page of 10 hits from -1 on"),
        (["x"], ["x"], {"size": -1}, "no page of -1 hits from 0 on"),
    ],
)
def test_lists_that_make_no_page_are_refused(
    a: list[str], b: list[str], options: dict[str, int], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        page_of(a, b, **options)


def test_a_search_with_few_results_has_a_short_page() -> None:
    assert sorted(page_of(["x", "y"], ["y", "x"]).hits) == ["x", "y"]
    assert sorted(page_of(["x"], ["y", "z"]).hits) == ["x", "y", "z"]
    assert page_of([], ["z", "y"], size=2).hits == ["z", "y"]
    assert page_of(["x"], ["x"], start=10).hits == []
    assert page_of([], []).hits == []
