"""Small results to make pages of: rankers of known quality, and a log of simulated users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import vl_convert
from owpc_ltr_clicks.judge_clicks import judge_clicks
from owpc_ltr_clicks.judgments import ClickJudgments
from owpc_ltr_report.page import VEGA_LITE, Chart

from owpc_ltr import Evaluation, RankingDataset, evaluate, make_dataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.engine.client.engine import Identity
from owpc_ltr.engine.legs import Leg, Legs
from owpc_ltr.evaluation.measurement import Resampling
from owpc_ltr.features.feature_set import Feature
from owpc_ltr.fusion.evaluation import Fusion, learned_fusion
from owpc_ltr.models.linear import AdditiveModel, Curve, LinearModel
from tests.fusion.test_fusion import judged, world
from tests.simulated_users import simulate

NAMES = ("good", "noise", "bm25")
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "{{ 7 * 7 }} {% for x in y %}",
    "line\u2028separator\u2029and \x00 \x1b[31m",
    "right\u202eto left",
    "<!-- comment",
    "javascript:alert(4)",
    "a" * 400,
    "٣ ünïcödé 🎬 ' \" & &amp;",
)
"""Texts of which each would do harm somewhere if it were not escaped."""


def dataset(n_queries: int = 40, *, texts: tuple[str, ...] | None = None) -> RankingDataset:
    """Queries of 12 documents whose grades the first feature tells, the last one less so."""
    rng = np.random.default_rng(5)
    rows = 12 * n_queries
    labels = (rng.random(rows) < 0.3).astype(np.float32)
    noise = rng.normal(size=(3, rows))
    columns = [labels + 0.4 * noise[0], noise[1], labels + 1.2 * noise[2]]
    features = np.stack(columns, axis=1).astype(np.float32)
    features[::7, 1] = np.nan
    queries = np.repeat([f"q{n}" for n in range(n_queries)], 12)
    documents = [f"d{n}" for n in range(rows)]
    data = make_dataset(features, labels, queries, NAMES, doc_ids=documents)
    words = texts or tuple(f"words {n}" for n in range(n_queries))
    params = [json.dumps({"query": words[n % len(words)]}) for n in range(n_queries)]
    return replace(data, query_params=pa.array(params))


def linear(*weights: float) -> LinearModel:
    """A model of the three features, with a record as training leaves it."""
    candidates = [(name, c) for name in ("inverse", "constant") for c in (0.1, 1.0, 10.0)]
    table = [
        {"loss.generator": name, "optimizer.C": c, "validation": 0.8 + 0.01 * place, "passes": 3}
        for place, (name, c) in enumerate(candidates)
    ]
    passes = [{"pass": n, "gap": 10.0 / n**2, "objective": 5.0 + 1 / n} for n in range(1, 9)]
    record = {
        "owpc_ltr": "0.1.0",
        "loss": {"name": "owpc", "settings": {"generator": "inverse"}},
        "optimizer": {"name": "larank", "settings": {"C": 10.0}},
        "select": "map",
        "validation": 0.85,
        "table": table,
        "history": passes,
        "queries": 100,
        "documents": 1200,
        "source": {"fingerprint": "ab" * 32, "queries": {"train": {"ids": ""}}},
        "fingerprint": "ab" * 32,
        "certificate": {"gap": 0.1, "passes": 8, "stop_reason": "gap within 0.001 of the gain"},
        "warnings": ["a <warning> of training"],
    }
    return LinearModel(NAMES, np.array(weights), record=record)


def curves() -> AdditiveModel:
    """A sum of curves, one of which minds missing values."""
    knots = np.array([-1.0, 0.0, 1.0, 2.0])
    rising = Curve(knots, np.array([0.0, 0.2, 1.0, 1.4]), missing=-0.3)
    return AdditiveModel(NAMES, {"good": rising, "bm25": Curve(knots, knots**2)})


def against(good: float, other: float, n_queries: int = 40) -> Evaluation:
    """A ranker by the good feature and noise, against `feature:bm25`."""
    data = dataset(n_queries)
    return evaluate(linear(good, other, 0.0), data.without_missing(), baseline="feature:bm25")


@cache
def fused(second: float, version: str = "3.8.0") -> Fusion:
    """Two legs of which the second adds so much, on OpenSearch of a version."""
    logged = world(90 if second else 60, second)
    names = logged.data.feature_names
    legs = Legs("legs", tuple(Leg(name, {}, Feature(name, (), {})) for name in names), 20)
    return learned_fusion(
        legs, logged, Judgments(judged(logged)), "ndcg@10",
        identity=Identity("opensearch", version, "one", "uuid", ()),
        complete=True, plugins=(), drawing=Resampling(resamples=500),
    )  # fmt: skip


def fields_of(part: Any) -> Iterator[str]:
    """The names of fields that a specification reads."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "field" and isinstance(value, str):
                yield value
            elif name != "data":
                yield from fields_of(value)
    elif isinstance(part, list):
        for value in part:
            yield from fields_of(value)


def check(chart: Chart) -> None:
    """What every chart promises."""
    rows = chart.spec["data"]["values"]
    assert rows, f"{chart.name} is empty"
    for field in set(fields_of(chart.spec)):
        assert all(field in row for row in rows), f"{chart.name} reads {field}, which is not there"
    assert chart.spec["width"] == "container"
    assert chart.sentence
    assert chart.table.rows
    vl_convert.vegalite_to_vega(chart.spec, vl_version=VEGA_LITE)
    json.dumps(chart.spec, allow_nan=False)


class Elements(HTMLParser):
    """What a browser makes of a page, as far as it matters here."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.facts: dict[str, str] = {}
        self.paragraphs: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._told = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append("")
        elif tag == "tr":
            list(self.tables.values())[-1].append([])
        elif tag == "br":
            self._told += " "
        elif tag == "p":
            self.paragraphs.append((dict(attrs).get("class") or "", ""))
        if tag in {"caption", "th", "td", "dt", "dd", "p"}:
            self._told = ""

    def handle_endtag(self, tag: str) -> None:
        text = " ".join(self._told.split())
        if tag == "caption":
            self.tables[text] = []
        elif tag in {"th", "td"}:
            list(self.tables.values())[-1][-1].append(text)
        elif tag == "dt":
            self.facts[text] = ""
        elif tag == "dd":
            self.facts[list(self.facts)[-1]] = text
        elif tag == "p":
            self.paragraphs[-1] = (self.paragraphs[-1][0], text)
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.scripts[-1] += data
        elif "style" not in self._open:
            self.text.append(data)
            self._told += data

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in tags]


def check_harmless(page: str) -> Elements:
    """No element, attribute or script is there but those of the template."""
    elements = Elements(page)
    assert not elements.named("img", "iframe", "object", "embed", "link", "base", "audio", "video")
    assert len(elements.scripts) == 3
    for tag, attributes in elements.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    return elements


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
