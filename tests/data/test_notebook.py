"""What a notebook shows of datasets and models: few lines, escaped, and nothing that runs."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from owpc_ltr import RankingDataset, make_dataset
from owpc_ltr.data.blocks import (
    Bars,
    Block,
    BlockResult,
    ChartData,
    FactList,
    Table,
    Tiles,
    html_of,
)
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.models.linear import LinearModel
from tests.small_models import LINEAR, MODELS

HOSTILE = "<script>alert('x')</script>&\""


def dataset(queries: int = 30, **parts: Any) -> RankingDataset:
    ids = np.repeat([f"q{number}" for number in range(queries)], 4)
    X = np.arange(8.0 * queries).reshape(-1, 2)
    X[0, 0] = np.nan
    return make_dataset(X, np.tile([0, 0, 1, 2], queries), ids, **parts)


class _Elements(HTMLParser):
    """Counts elements, and refuses those that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.names.append(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(what: Any) -> _Elements:
    """The parsed page of something, self-contained and without scripts."""
    elements = _Elements(what._repr_html_())
    assert set(elements.names) <= {"div", "b", "table", "tr", "td", "svg", "rect"}
    assert {name for name, _ in elements.attributes} <= {
        "style",
        "width",
        "height",
        "x",
        "y",
        "fill",
    }
    assert not any("url(" in (value or "") for _, value in elements.attributes)
    return elements


def test_a_dataset_is_three_lines_at_most_and_says_what_is_in_it() -> None:
    whole = dataset(featureset_hash="ab" * 32, document_weights=np.ones(120))
    part = whole.split().training
    for data in (whole, part, dataset(1), whole.select(np.array([], np.int64))):
        assert len(repr(data).split("\n")) <= 3
    assert repr(whole).startswith(
        "RankingDataset: 30 queries, 120 documents, 2 features, 0.42% missing\n"
        "  labels 0 × 60, 1 × 30, 2 × 30; weighted by document\n"
        "  feature set abababababab"
    )
    assert f"the train side of {whole.fingerprint[:12]}" in repr(part)
    assert repr(dataset(1)).startswith("RankingDataset: 1 query, 4 documents")


def test_many_different_labels_are_a_range() -> None:
    data = make_dataset(np.zeros((10, 1)), np.arange(10) / 2, ["q"] * 10)
    assert "labels 10 different, from 0 to 4.5" in repr(data)


def test_a_page_of_a_dataset_has_its_figures() -> None:
    elements = shown(dataset().split().test)
    text = " ".join(elements.texts)
    assert "RankingDataset" in text
    assert "labels 0 × " in text
    assert "the test side of" in text


@pytest.mark.parametrize("model", [*MODELS, ReorderingModel(LINEAR, "any", None)])
def test_every_kind_of_model_has_a_page(model: Any) -> None:
    (title,) = [text for text in shown(model).texts if text.startswith(type(model).__name__)]
    assert title == repr(model).splitlines()[0]


def test_a_bar_is_as_long_as_its_number() -> None:
    page = html_of([Bars(("feature", "use"), [("a", 1.0), ("b", -0.5), ("c", 0.0)])])
    rects = [dict(attributes) for attributes in _rects(page)]
    assert [float(rect["width"]) for rect in rects] == [120, 60, 0]
    assert [float(rect["x"]) for rect in rects] == [120, 60, 120]


def _rects(page: str) -> list[list[tuple[str, str]]]:
    rects: list[Any] = []

    class Rects(HTMLParser):
        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            rects.append(attrs)

    Rects().feed(page)
    return rects


def test_the_heaviest_features_come_first_and_the_rest_is_counted() -> None:
    names = tuple(f"f{number}" for number in range(40))
    page = shown(LinearModel(names, np.arange(40.0)))
    assert page.names.count("rect") == 30
    assert page.texts.index("f39") < page.texts.index("f38")
    assert "and 10 features more" in page.texts


def test_names_and_records_are_escaped() -> None:
    record = {
        "loss": {"name": HOSTILE, "settings": {HOSTILE: HOSTILE}},
        "optimizer": HOSTILE,
        "imported": {"format": HOSTILE},
        "select": HOSTILE,
        "validation": 0.5,
        "queries": HOSTILE,
        "documents": HOSTILE,
        "warnings": [HOSTILE],
    }
    page = shown(LinearModel((HOSTILE,), np.ones(1), record=record))
    assert HOSTILE in " ".join(page.texts)
    data = make_dataset([[1.0]], [0], ["q"], featureset_hash=HOSTILE, notes=(HOSTILE,))
    assert HOSTILE in " ".join(shown(data).texts)


def test_a_record_that_is_odd_is_still_shown() -> None:
    record: dict[str, Any] = {"loss": 3, "warnings": 7, "imported": [], "validation": "x"}
    record["optimizer"] = {"settings": 5}
    assert "LinearModel: 1 features" in shown(LinearModel(("a",), np.ones(1), record=record)).texts


def test_ids_of_documents_are_not_in_the_way() -> None:
    assert len(repr(dataset(doc_ids=pa.array([str(i) for i in range(120)])))) < 300


class Everything(BlockResult):
    """A result with each kind of block, whose texts may be anything."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _blocks(self) -> list[Block]:
        text = self.text
        table = Table(["NAME", "with p", "P"], [(text, 0.25, float("nan"))], "a caption")
        chart = ChartData("one", "One", f"of {text}", table, kind="bars", rows=[(text, 1)])
        facts = FactList([("a", text), ("absent", None), ("longer", "b")])
        return [text, f"  under {text}", "", facts, Tiles([("n", "5", "of 9")]), chart]


def test_every_block_is_text_html_and_markdown() -> None:
    shown = Everything("x_y|z")
    assert str(shown) == repr(shown) == "\n".join([
        "x_y|z", "  under x_y|z", "", "  a       x_y|z", "  longer  b", "  n  5 of 9", "of x_y|z",
        "NAME   with p  P", "x_y|z  0.2500  –",
    ])  # fmt: skip
    name = r"x\_y\|z"
    assert shown.to_markdown() == (
        f"{name}\n\nunder {name}\n\n- a: {name}\n- longer: b\n\n- n: 5 of 9\n\nof {name}\n\n"
        f"| name | with p | p |\n| --- | --- | --- |\n| {name} | 0.2500 | – |\n"
    )
    page = shown._repr_html_()
    assert page.startswith("<div><b>x_y|z</b>")
    assert [page.count(f"<{tag}>") for tag in ("table", "th", "tr")] == [0, 0, 5]
    assert "absent" not in page + str(shown) + shown.to_markdown()


@pytest.mark.parametrize("text", [HOSTILE, "\x1b[31m", "a\n| b |\n"])
def test_no_text_leaves_its_place(text: str) -> None:
    shown = Everything(text)
    assert "<script" not in shown._repr_html_() + shown.to_markdown().replace(r"\<", "")
    plain = str(shown) + shown.to_markdown()
    assert "\x1b" not in plain
    assert len(shown.to_markdown().split("\n| ")) == 4
