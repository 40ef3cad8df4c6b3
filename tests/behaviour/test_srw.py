"""The ratings of Search Relevance Workbench, digit by digit as its code comes to them."""

from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.judge_clicks import judge_clicks

from owpc_ltr.errors import BadInput
from tests.behaviour.logs import event


def coec_click_model(events: list[dict[str, Any]], max_rank: int) -> dict[tuple[str, str], Decimal]:
    """`CoecClickModel.java`, event by event, with the ordinals as they are."""
    events = [one for one in events if one["position"] <= max_rank]
    clicks: dict[int, int] = defaultdict(int)
    impressions: dict[int, int] = defaultdict(int)
    rates: dict[tuple[str, str], list[int]] = {}
    for one in events:
        of_action = clicks if one["action"] == "click" else impressions
        of_action[one["position"]] += 1
        rate = rates.setdefault((one["query"], one["document"]), [0, 0, 2**31 - 1])
        rate[0] += one["action"] == "click"
        rate[1] += one["action"] == "impression"
        rate[2] = min(rate[2], one["position"])
    by_rank = {
        rank: clicks[rank] / impressions[rank] if impressions[rank] else 0.0
        for rank in range(max_rank)
    }
    found = {}
    for pair, (clicked, shown, rank) in rates.items():
        expected = by_rank.get(rank, 0.0) * shown
        rating = clicked / expected if expected > 0 else 0.0
        found[pair] = Decimal(repr(rating)).quantize(Decimal("0.001"), ROUND_HALF_UP)
    return found


def ours(events: Any, max_rank: int, first: int | None = None) -> dict[tuple[str, str], Decimal]:
    import pyarrow as pa

    table = pa.Table.from_pylist(events)
    judged = judge_clicks(table, as_srw=True, srw_max_rank=max_rank, first_position=first).table
    return {
        (row["query"], row["doc_id"]): Decimal(f"{row['grade']:.3f}") for row in judged.to_pylist()
    }


@pytest.mark.parametrize("max_rank", [10, 20, 6])
@pytest.mark.parametrize("first", [0, 1])
def test_ratings_of_simulated_events_are_those_of_its_code(max_rank: int, first: int) -> None:
    world = simulate.example_world(20, 15)
    events = simulate.clicks(world, sessions=1500).to_pylist()
    for one in events:
        one["position"] += first - 1
    wanted = coec_click_model(events, max_rank)
    found = ours(events, max_rank)
    # It rates what lies at its last rank 0; what lies lower it never sees.
    assert {pair: rating for pair, rating in found.items() if pair in wanted} == wanted
    assert all(rating == 0 for pair, rating in found.items() if pair not in wanted)


EVENT = st.builds(
    event,
    st.sampled_from(["s", "t"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(1, 4),
    st.sampled_from(["impression", "impression", "click"]),
)


@given(st.lists(EVENT, min_size=1, max_size=30))
def test_ratings_of_any_events_are_those_of_its_code(events: list[dict[str, Any]]) -> None:
    try:
        found = ours(events, 4, first=1)
    except BadInput:
        # Clicks alone, or not one.
        assert len({one["action"] for one in events}) == 1
        return
    assert found == coec_click_model(events, 4)


def test_where_positions_begin_with_1_its_last_rank_rates_nothing() -> None:
    events = [event(f"s{n}", "last", 10, action) for n in range(9)
              for action in ("impression", "click")]  # fmt: skip
    events += [event("s", "first", 1), event("s", "first", 1, "click")]
    assert ours(events, 10)["rambo", "last"] == 0
    assert ours(events, 11)["rambo", "last"] == 1
