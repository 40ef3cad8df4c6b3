"""A small log of simulated users to make pages of, and what is judged by it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.judge_clicks import judge_clicks
from owpc_ltr_clicks.judgments import ClickJudgments

from tests.report.samples import HOSTILE


@cache
def events(sessions: int = 4000, queries: int = 40) -> pa.Table:
    """What users did with 20 documents a query."""
    return simulate.clicks(simulate.example_world(queries, 20), sessions=sessions)


@cache
def clicked(sessions: int = 4000, **how: Any) -> ClickJudgments:
    """The judgments of it."""
    return judge_clicks(events(sessions), **how)


def hostile_clicked() -> ClickJudgments:
    """Judgments of queries and actions whose texts would do harm."""
    table = events()
    names = table["query"].cast(pa.string()).combine_chunks().dictionary_encode()
    known = names.dictionary.to_pylist()
    # Texts are normalised before they are shown.
    texts = [*HOSTILE, *known[len(HOSTILE) :]]
    renamed = pa.array(texts).take(names.indices)
    place = table.schema.get_field_index("query")
    return judge_clicks(table.set_column(place, "query", renamed))
