"""Tables of reproductions, and rerankings of bases."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_papers.folders import find_collections
from owpc_ltr_papers.jobs import UNCHANGED, DataFold, Job, Tools, fitted
from owpc_ltr_papers.reproduce import Reproduction, Row, compared, interval, mean_over_folds

from owpc_ltr.host.registry import load
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Run
from tests.datasets import write_parts

names = st.text(alphabet=st.sampled_from("ab |&%$#_{}~^\\<>\"'`*[]−–λ\n\t,é"), max_size=12)
numbers = st.none() | st.floats(-1, 1, allow_nan=False)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    own, gain = draw(numbers), draw(numbers)
    return Row(
        draw(names),
        draw(names),
        draw(names),
        published=draw(numbers),
        cited=draw(names),
        ours=own,
        difference=draw(numbers),
        low=own,
        high=own,
        queries=draw(st.none() | st.integers(0, 10**6)),
        against=draw(names),
        gain=gain,
        gain_low=gain,
        gain_high=gain,
        p=gain if gain is None else abs(gain),
        note=draw(names),
    )


@st.composite
def findings(draw: st.DrawFn) -> Reproduction:
    drawn = draw(st.lists(rows(), min_size=1, max_size=4))
    notes, citations = draw(st.lists(names, max_size=2)), draw(st.lists(names, max_size=2))
    return Reproduction("owpc2009", tuple(drawn), tuple(notes), tuple(citations), 0, quick=False)


@given(findings())
def test_the_frame_and_json_have_every_figure_unrounded(reproduction: Reproduction) -> None:
    row_dicts = json.loads(json.dumps(reproduction.as_dict()))["rows"]
    assert row_dicts == [row.as_dict() for row in reproduction.rows]
    assert reproduction.to_frame().columns.tolist() == [field.name for field in fields(Row)]
    assert len(reproduction.to_frame()) == len(reproduction.rows)


@given(findings())
def test_a_notebook_shows_every_row_and_runs_nothing(reproduction: Reproduction) -> None:
    page = reproduction._repr_html_()
    groups = {(row.data_set, row.metric) for row in reproduction.rows}
    gains = [(row.data_set, row.metric) for row in reproduction.rows if row.gain is not None]
    tables = len(reproduction.rows) + len(groups), len(gains) + len({*gains})
    assert page.count("<tr>") == sum(tables)
    assert set(re.findall(r"</?([a-z]+)", page)) <= {"div", "b", "table", "tr", "th", "td"}


def test_a_table_shows_figures_gains_and_notes() -> None:
    row = Row(
        "MQ2008", "map", "OWPC", published=0.6, ours=0.5, difference=-0.1, low=0.4, high=0.6,
        queries=5, against="RankSVM", gain=-0.01, gain_low=-0.1, gain_high=0.1, p=0.25, note="odd",
    )  # fmt: skip
    reproduction = Reproduction("owpc2009", (row,), ("a note",), ("a paper",), 0, quick=False)
    assert str(reproduction).splitlines() == [
        "reproduce owpc2009",
        "",
        "MQ2008, map",
        "METHOD  PUBLISHED  OURS    DIFFERENCE  95 %              QUERIES",
        "OWPC    0.6000     0.5000  −0.1000     [0.4000, 0.6000]  5",
        "",
        "METHOD  AGAINST  GAIN [95 %], P",
        "OWPC    RankSVM  −0.0100 [−0.1000, +0.1000], 0.25",
        "",
        "- MQ2008, OWPC: odd",
        "- a note",
        "- a paper",
    ]
    assert repr(reproduction) == "Reproduction of owpc2009: 1 rows, 1 notes"


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_mean_over_folds_is_the_mean_of_the_values_that_its_interval_is_of(
    folds: list[list[float]],
) -> None:
    values = [np.array(values_of_fold) for values_of_fold in folds]
    zeros = [np.zeros(len(values_of_fold)) for values_of_fold in folds]
    comparison = compared(values, zeros, 0)
    if sum(map(len, folds)) == 1:
        assert comparison is None
        assert interval(values, 0) == (None, None)
        return
    assert comparison is not None
    assert comparison.mean_difference == pytest.approx(mean_over_folds(values), abs=1e-12)
    low, high = interval(values, 0)
    assert low is not None
    assert high is not None
    assert low - 1e-9 <= mean_over_folds(values) <= high + 1e-9


TOOLS = Tools(load(), Run(), (parse_metric("ndcg-letor@10"),))
BASE = Job("RankSVM", "pairwise", "larank", is_base=True)


def fold(folder: Path) -> DataFold:
    (collection,) = find_collections(write_parts(folder))[0]
    return collection.readers()["Fold1"]()


def test_a_penalty_that_allows_nothing_leaves_the_base_and_says_so(tmp_path: Path) -> None:
    data = fold(tmp_path)
    base = fitted(BASE, data, TOOLS).model
    assert base is not None
    job = Job("still", "listnet", grid={"reranker.penalty": "1e30,1e31"}, base=BASE)
    done = fitted(job, data, TOOLS, base)
    assert done.notes == (UNCHANGED,)
    own = parse_metric("ndcg-letor@10").per_query(
        base.score(data.test.features), data.test.labels, data.test.offsets
    )
    assert done.values["ndcg-letor@10"].tolist() == own.tolist()
