"""Charts: specifications are data, so that what they draw can be tested without drawing."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from owpc_ltr_report.material import Material, page_of
from owpc_ltr_report.models import curves_of
from owpc_ltr_report.page import Chart, Page, drawing, dumbbells, lines, svg_of

from tests.report.samples import NAMES, against, check, curves, dataset, linear


@pytest.fixture(scope="module")
def page() -> Page:
    parts = [against(1.0, 0.0), linear(1.0, 0.1, -0.2), curves()]
    return page_of(Material(parts), "Everything")


def test_every_chart_keeps_what_charts_promise(page: Page) -> None:
    names = [chart.name for chart in page.charts.values()]
    expected = {
        "comparison-all", "changes", "importance-0", "importance-1", "candidates-0",
        "gap-0", "grades", "shape-1-0",
    }  # fmt: skip
    assert expected <= set(names)
    for chart in page.charts.values():
        check(chart)


def test_a_chart_of_a_field_that_there_is_not_is_noticed(page: Page) -> None:
    chart = page.charts["changes"]
    liar = json.loads(json.dumps(chart.spec).replace('"field": "queries"', '"field": "query"'))
    with pytest.raises(AssertionError, match="reads query"):
        check(Chart(chart.name, chart.title, liar, chart.sentence, chart.table))


def test_colours_are_names_of_the_style_sheet(page: Page) -> None:
    style = (files("owpc_ltr_report") / "templates" / "colours.css").read_text()
    defined = [
        set(re.findall(r"(--[a-z]+):", block)) for block in re.findall(r":root \{[^}]*", style)
    ]
    assert len(defined) == 3
    assert defined[0] == defined[1] == defined[2]
    text = json.dumps([chart.spec for chart in page.charts.values()])
    used = set(re.findall(r"var\((--[a-z]+)\)", text))
    assert used
    assert used <= defined[0]
    assert not re.search(r'"#[0-9a-f]{3,6}"', text)


def test_series_differ_by_more_than_colour() -> None:
    spec = lines({f"series {n}": [(1.0, 2.0)] for n in range(5)}, "x", "y")
    for layer, channel in zip(spec["layer"], ("strokeDash", "shape"), strict=True):
        for channel_name in ("color", channel):
            values = layer["encoding"][channel_name]["scale"]["range"]
            assert len({str(value) for value in values}) == 5


def test_the_forest_plot_holds_the_interval_of_the_comparison(page: Page) -> None:
    comparisons = [pair.comparison for pair in against(1.0, 0.0).pairs]
    rows = page.charts["comparison-all"].spec["data"]["values"]
    assert [(row["low"], row["high"]) for row in rows] == [
        (comparison.low, comparison.high) for comparison in comparisons
    ]
    assert {row["outcome"] for row in rows} == {"better"}


def test_each_query_counts_once_among_the_changes(page: Page) -> None:
    evaluation = against(1.0, 0.0)
    rows = page.charts["changes"].spec["data"]["values"]
    assert sum(row["queries"] for row in rows) == evaluation.data.n_queries
    first = evaluation.pairs[0].comparison
    sides = [
        sum(row["queries"] for row in rows if row["side"] == side) for side in ("better", "worse")
    ]
    assert sides == [first.wins, first.losses]


def test_curves_of_a_sum_of_curves_are_the_curves() -> None:
    model = curves()
    by_name = {curve.feature: curve for curve in curves_of(model, dataset().features)}
    assert set(by_name) == {"good", "bm25"}
    own = model.curves["good"]
    assert np.diff(by_name["good"].outputs) == pytest.approx(np.diff(own.values))
    assert by_name["good"].missing == pytest.approx(own.missing - float(np.median(own.values)))


def test_mean_curves_of_a_sum_of_curves_are_its_curves_too() -> None:
    """The mean over documents, of a model whose features do not meet, is the curve itself."""

    class Anonymous:
        kind = "anonymous"
        feature_names = NAMES
        score = staticmethod(curves().score)

    features = dataset().features
    model: Any = Anonymous()
    by_name = {curve.feature: curve for curve in curves_of(model, features)}
    assert set(by_name) == {"good", "bm25"}
    mean_curve, own = by_name["good"], curves().curves["good"]
    expected = own.at(mean_curve.values)
    assert mean_curve.outputs - mean_curve.outputs[0] == pytest.approx(
        expected - expected[0], abs=1e-6
    )


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_query_that_got_better_has_the_colour_of_gains_and_points_where_it_went(
    higher_is_better: bool,
) -> None:
    rows = [("up", 0.2, 0.6), ("down", 0.6, 0.2), ("=", 1.0, 1.0)]
    spec = dumbbells(rows, "m", higher_is_better=higher_is_better, domain=(0.0, 1.0))
    better, worse = ("up", "down") if higher_is_better else ("down", "up")
    directions = {row["query"]: row["direction"] for row in spec["data"]["values"]}
    assert directions == {better: "better", worse: "worse", "=": "same"}
    encoding = spec["layer"][2]["encoding"]
    of = {
        channel: dict(zip(scale["domain"], scale["range"], strict=True))
        for channel in ("color", "shape")
        for scale in [encoding[channel]["scale"]]
    }
    assert (of["color"]["better"], of["color"]["worse"]) == ("var(--after)", "var(--loss)")
    assert of["shape"][directions["up"]] == "triangle-right"
    assert of["shape"][directions["down"]] == "triangle-left"


@pytest.mark.parametrize("name", ["toString", "constructor", "__proto__", "hasOwnProperty"])
def test_names_that_every_object_of_javascript_has_are_drawn(name: str) -> None:
    drawn = svg_of(drawing("bars", [(name, 1.0), ("other", 2.0)], title="value"))
    assert f">{name}" in drawn
    assert drawn.count('aria-roledescription="bar"') == 2
