"""Judgments from one format into another: nothing is lost, or it is said what."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_judgments.tables import Tsv

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning
from owpc_ltr.data.judgments import JudgedQuery, Judgments, importance_of, weights_of
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.host.registry import Plugin, Registry, installed
from owpc_ltr.protocols import JudgmentWriter
from tests.commands import Run
from tests.judgment_writers import IDS

WRITTEN = [
    plugin.name for plugin in installed().all("judgment-reader") if hasattr(plugin.cls, "to_bytes")
]
WHOLE = ("tsv", "csv", "jsonl", "parquet")
"""Formats that hold everything."""

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=6
).map(str.strip).filter(bool)  # fmt: skip
values = st.sampled_from(["Rome", 2010, 0.5, True, [0.25, -1], {"a": [1]}])
weights = st.sampled_from([0.0, 0.1, 1.0, 3.0]) | st.floats(0, 2**100, width=32)


@st.composite
def judgments(draw: st.DrawFn) -> Judgments:
    queries: list[JudgedQuery] = []
    for text in draw(st.lists(texts, min_size=1, max_size=3, unique=True)):
        documents = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
        size = len(documents)
        grades = draw(st.lists(st.floats(0, 2**60, width=32), min_size=size, max_size=size))
        further = draw(st.dictionaries(st.sampled_from(["city", "vector"]), values))
        sure = draw(st.none() | st.lists(weights, min_size=size, max_size=size))
        queries.append(
            JudgedQuery(
                f"q{len(queries)}",
                {"keywords": text, "query": text, **further},
                documents,
                np.array(grades, np.float32),
                None if sure is None else np.array(sure, np.float32),
                draw(st.none() | weights),
            )
        )
    return Judgments(queries)


def grades_of(judged: Judgments) -> list[Any]:
    return [
        (q.params["query"], list(zip(q.doc_ids, q.grades.tolist(), strict=True)))
        for q in judged.queries
    ]


def everything(judged: Judgments) -> list[Any]:
    return [
        (q.query_id, q.params, q.doc_ids, q.grades.tolist(), weights_of(q).tolist(),
         importance_of(q))
        for q in judged.queries
    ]  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@given(given_=judgments())
def test_formats_with_columns_hold_everything(name: str, given_: Judgments, tmp_path: Path) -> None:
    ltr.write_judgments(given_, tmp_path / "a", format=name)
    assert everything(ltr.read_judgments(tmp_path / "a", format=name)) == everything(given_)


@pytest.mark.parametrize("name", ["srw", "quepid"])
@given(given_=judgments())
def test_formats_without_ids_hold_the_grades_and_say_what_they_do_not(
    name: str, given_: Judgments, tmp_path: Path
) -> None:
    with pytest.warns(OwpcLtrWarning, match=f"the format {name} does not hold the ids of queries"):
        ltr.write_judgments(given_, tmp_path / "a", format=name)
    judged = ltr.read_judgments(tmp_path / "a")
    assert grades_of(judged) == grades_of(given_)
    assert [q.query_id for q in judged.queries] == [q.params["query"] for q in given_.queries]


def plain() -> JudgedQuery:
    params = {"keywords": "red", "query": "red"}
    return JudgedQuery("red", params, ["a", "b"], np.array([2, 0], np.float32))


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({}, ""),
        ({"weights": np.ones(2, np.float32), "importance": 1.0}, ""),
        ({"weights": np.array([1, 2], np.float32)}, "the weights of judgments"),
        ({"importance": 3.0}, "the importance of queries"),
        ({"query_id": "q1"}, "the ids of queries"),
        ({"params": {**plain().params, "city": "Rome"}}, "the parameter 'city' of queries"),
    ],
)
def test_what_a_format_does_not_hold_is_said_and_nothing_else(
    change: dict[str, Any], lost: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    query = replace(plain(), **change)
    for name in ("srw", "quepid"):
        ltr.write_judgments(Judgments([query]), tmp_path / "a", format=name)
        expected = [f"the format {name} does not hold {lost}"] if lost else []
        assert [str(warning.message) for warning in recwarn] == expected
        recwarn.clear()


def test_qrels_lack_the_texts_which_topics_have(tmp_path: Path) -> None:
    with pytest.warns(OwpcLtrWarning, match="qrels does not hold the texts of queries: give them"):
        ltr.write_judgments(Judgments([plain()]), tmp_path / "a", format="qrels")
    assert (tmp_path / "a").read_text() == "red 0 a 2\nred 0 b 0\n"


@pytest.mark.parametrize("name", ["srw", "quepid"])
def test_queries_that_could_not_be_told_apart_are_not_written(name: str, tmp_path: Path) -> None:
    two = [replace(plain(), query_id=query_id) for query_id in ("q1", "q2")]
    with pytest.raises(
        BadInput, match=r"cannot write .*2 queries have the text 'red', and the for"
    ):
        ltr.write_judgments(Judgments(two), tmp_path / "a", format=name)
    nameless = replace(plain(), params={})
    with pytest.raises(BadInput, match=r"cannot write .*query 'red' has no text"):
        ltr.write_judgments(Judgments([nameless]), tmp_path / "a", format=name)
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_read_alone_is_answered_with_those_that_are_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="'ranklib' is read, not written: use csv, tsv, qrels, j"):
        ltr.write_judgments(Judgments([plain()]), tmp_path / "a", format="ranklib")
    assert set(WRITTEN) == {*WHOLE, "qrels", "srw", "quepid"}
    for plugin in installed().all("judgment-reader"):
        assert isinstance(plugin.cls(), JudgmentWriter) == (plugin.name in WRITTEN)


@dataclass(frozen=True)
class Rounds(Tsv):
    """A writer that rounds grades, and says nothing of it."""

    name: ClassVar[str] = "rounds"
    precedence: ClassVar[int] = 5

    def recognises(self, _path: Path, _head: bytes) -> bool:
        return False

    def to_bytes(self, judgments: Judgments) -> bytes:
        rounded = [replace(q, grades=np.floor(q.grades)) for q in judgments.queries]
        return super().to_bytes(Judgments(rounded))


@dataclass(frozen=True)
class Drops(Rounds):
    """A writer that leaves out the last query."""

    name: ClassVar[str] = "drops"

    def to_bytes(self, judgments: Judgments) -> bytes:
        return Tsv.to_bytes(self, Judgments(judgments.queries[:-1]))


@pytest.mark.parametrize("liar", [Rounds, Drops])
def test_a_writer_of_other_judgments_is_caught_before_anything_is_written(
    liar: type[Any], tmp_path: Path
) -> None:
    registry = Registry([Plugin("judgment-reader", liar.name, liar, "liars 1.0")])
    queries = [plain(), replace(plain(), query_id="q", grades=np.array([0.5, 1], np.float32))]
    with pytest.raises(PluginError, match=f"'{liar.name}' wrote reads back as other judgments"):
        ltr.write_judgments(Judgments(queries), tmp_path / "a", format=liar.name, registry=registry)
    assert not list(tmp_path.iterdir())


def test_the_command_converts_there_and_back(run: Run) -> None:
    Path("a.csv").write_text("query,docid,rating\nred,a,2\nred,b,0\nblue\n")
    code, out, err = run("judge", "convert", "a.csv", "--out", "a.json", "--as", "srw")
    assert (code, out) == (0, "2 judgments of 1 queries\nwrote a.json\n")
    assert "1 queries have no rating" in err
    assert json.loads(Path("a.json").read_text())["type"] == "IMPORT_JUDGMENT"
    out = run.output("judge", "convert", "a.json", "--out", "b.csv", "--as", "quepid", "--json")
    assert json.loads(out)["judgments"] == 2
    assert Path("b.csv").read_text() == 'query,docid,rating\n"red","a","2"\n"red","b","0"\n'
    run.output("judge", "convert", "b.csv", "--out", "c.tsv")
    assert Path("c.tsv").read_text() == CONVERTED
    refused = run.refusal(2, "judge", "convert", "c.tsv", "--out", "d", "--as", "ranklib")
    assert "is read, not written" in refused


CONVERTED = "query_id\tquery\tdoc_id\tgrade\nred\tred\ta\t2\nred\tred\tb\t0\n"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_columns_with_other_names_are_named_by_role(run: Run, name: str) -> None:
    # The column `grade` is another one than that which is named.
    rows = {"q": ["red", "red"], "sku": ["a", "b"], "Stars": [2, 0], "grade": [5, 6]}
    if name.endswith("parquet"):
        pq.write_table(pa.table(rows), name)
    elif name.endswith("jsonl"):
        lines = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        mark = "," if name.endswith("csv") else "\t"
        table = [rows, *zip(*rows.values(), strict=True)]
        Path(name).write_text("".join(mark.join(map(str, row)) + "\n" for row in table))
    named = "query=q,document_id=sku,grade=stars"
    run.output("judge", "convert", name, "--columns", named, "--out", "out.tsv")
    assert Path("out.tsv").read_text() == CONVERTED
    columns = {"query": "q", "doc_id": "sku", "grade": "Stars"}
    (query,) = ltr.read_judgments(name, columns=columns).queries
    assert (query.doc_ids, query.grades.tolist()) == (["a", "b"], [2, 0])


@pytest.mark.parametrize(
    ("file", "columns", "code", "message"),
    [
        (
            "a.csv",
            (),
            3,
            "and for a column of each judge --columns grade=ann,bob",
        ),
        (
            "a.csv",
            ("--columns", "query=q,doc_id=product"),
            3,
            "owpc-ltr: cannot read a.csv: no column is called 'product', which is given as the "
            "doc_id: its columns are 'q', 'sku', 'rating'\n",
        ),
        ("a.csv", ("--columns", "text=q"), 2, "the role is query_id, query, doc_id, grade"),
        ("a.qrels", ("--columns", "query=q"), 2, "qrels, which has no columns to name"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_those_that_are(
    run: Run, file: str, columns: tuple[str, ...], code: int, message: str
) -> None:
    Path("a.csv").write_text("q,sku,rating\nred,a,2\n")
    Path("a.qrels").write_text("q1 0 a 2\n")
    assert message in run.refusal(code, "judge", "convert", file, *columns, "--out", "b.tsv")
    with pytest.raises(UsageError, match="`columns` names the unknown role 'text'"):
        ltr.read_judgments("a.csv", columns={"text": "q"})
