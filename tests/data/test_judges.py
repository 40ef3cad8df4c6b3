"""The kind of judgments: kept from the list to the dataset."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import owpc_ltr as ltr
from owpc_ltr import read_judgments
from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.documents import DocumentFile
from owpc_ltr.data.judgment_tables import read_queries
from owpc_ltr.data.judgments import judges_of, machines_among
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.errors import BadInput
from owpc_ltr.evaluation.judged_data import without_features
from tests.commands import Run
from tests.simulated_users import simulate

EVENTS = simulate.clicks(simulate.example_world(20, 12), sessions=4000)
MIXED = "query,doc_id,grade,judged_by\nred,a,2,clicks\nred,b,0,Ann\nblue,c,1,\nblue,d,0,clicks\n"


@pytest.mark.parametrize("name", ["j.parquet", "j.tsv"])
def test_judgments_of_clicks_say_so_in_every_file_that_is_written(
    name: str, tmp_path: Path
) -> None:
    judge_clicks = pytest.importorskip("owpc_ltr_clicks.judge_clicks").judge_clicks
    judgments = judge_clicks(EVENTS)
    judgments.write(tmp_path / name)
    read = read_judgments(tmp_path / name)
    assert machines_among(read.queries) == {"clicks": 1.0}
    assert judges_of(read.queries) == {"judged_by": {"clicks": len(judgments.table)}}
    # It is no parameter of the query, nor of the queries that are asked next.
    assert {key for query in read.queries for key in query.params} == {"query", "keywords"}


def test_queries_are_asked_without_their_judges_and_a_dataset_counts_them(tmp_path: Path) -> None:
    (tmp_path / "mixed.csv").write_text(MIXED)
    asked = read_queries(tmp_path / "mixed.csv")
    assert [query.params["query"] for query in asked] == ["red", "blue"]
    assert all(set(query.params) == {"query", "keywords"} for query in asked)
    data = without_features(read_judgments(tmp_path / "mixed.csv"))
    ltr.save_dataset(data, tmp_path / "data.parquet")
    for dataset in (data, load_dataset(tmp_path / "data.parquet")):
        assert machines_among(dataset) == {"clicks": 0.5}


@pytest.mark.parametrize("format_", ["tsv", "csv", "jsonl", "parquet", "qrels", "srw", "quepid"])
def test_a_format_keeps_who_judged_or_says_that_it_does_not(run: Run, format_: str) -> None:
    Path("mixed.csv").write_text(MIXED)
    assert read_judgments("mixed.csv").queries[0].judged_by == ["clicks", "Ann"]
    code, _, err = run("judge", "convert", "mixed.csv", "--out", "other", "--as", format_)
    assert code == 0
    if format_ in {"qrels", "srw", "quepid"}:
        assert "does not hold" in err
        assert "who judged" in " ".join(err.split())
        return
    assert err == ""
    read = read_judgments("other")
    assert [query.judged_by for query in read.queries] == [["clicks", "Ann"], ["", "clicks"]]
    assert judges_of(read.queries) == {"judged_by": {"": 1, "Ann": 1, "clicks": 2}}
    assert machines_among(read.queries) == {"clicks": 0.5}


def test_a_list_that_names_no_judge_has_none(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("query,doc_id,grade\nred,a,2\n")
    read = read_judgments(tmp_path / "plain.csv")
    assert read.queries[0].judged_by is None
    assert judges_of(read.queries) == {}
    assert machines_among(read.queries) == {}
    assert without_features(read).manifest is None


def test_logs_together_know_the_judges_of_each() -> None:
    def log(query: str, **about: object) -> ltr.RankingDataset:
        data = ltr.make_dataset([[1.0], [0.0]], [1, 0], [query] * 2, ["one"])
        return replace(data, manifest={"judged": 2, "judgments": about})

    clicks, people = log("a", judged_by={"clicks": 2}), log("b")
    both = join_datasets([clicks, people], ["a", "b"])
    assert both.manifest == {"judgments": {"judged_by": {"": 2, "clicks": 2}}}
    assert machines_among(both) == {"clicks": 0.5}
    assert join_datasets([people, log("c")], ["b", "c"]).manifest is None
    damaged = replace(clicks, manifest={"judgments": {"judged_by": ["clicks"]}})
    assert machines_among(damaged) == {}


def _cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _tabled(header: str, row: Sequence[object], delimiter: str) -> bytes:
    cells = io.StringIO(newline="")
    csv.writer(cells, delimiter=delimiter).writerows([header.split(), map(_cell, row)])
    return cells.getvalue().encode()


def _json_line(header: str, row: Sequence[object], _: str) -> bytes:
    return json.dumps(dict(zip(header.split(), row, strict=True))).encode() + b"\n"


def _parquet(header: str, row: Sequence[object], _: str) -> bytes:
    file = pa.BufferOutputStream()
    columns = dict(zip(header.split(), ([value] for value in row), strict=True))
    pq.write_table(pa.table(columns), file)
    return bytes(file.getvalue())


_WRITTEN: dict[str, tuple[Callable[[str, Sequence[object], str], bytes], str]] = {
    ".csv": (_tabled, ","), ".tsv": (_tabled, "\t"), ".jsonl": (_json_line, ""),
    ".parquet": (_parquet, ""),
}  # fmt: skip


def _ids_read(what: str, kind: str, value: object, folder: Path) -> list[str]:
    """The ids of a file that holds one."""
    write, delimiter = _WRITTEN[kind]
    path = folder / f"a{kind}"
    header, row = "query_id query doc_id grade", ["q", "rambo", "d", 1]
    if what == "documents":
        header, row = "id title", [value, "x"]
    elif what == "queries":
        header, row = "query_id query", [value, "rambo"]
    else:
        row[0 if what == "query" else 2] = value
    path.write_bytes(write(header, row, delimiter))
    if what == "documents":
        longest = csv.field_size_limit()
        try:
            return [identifier for identifier, _ in DocumentFile(path, "id")]
        finally:
            csv.field_size_limit(longest)
    if what == "queries":
        return [query.query_id for query in read_queries(path)]
    (query,) = read_judgments(path).queries
    return [query.query_id] if what == "query" else list(query.doc_ids)


_READERS = [
    *((what, kind) for what in ("query", "document") for kind in _WRITTEN),
    *(("documents", kind) for kind in (".csv", ".tsv", ".jsonl")),
    *(("queries", kind) for kind in (".csv", ".tsv")),
]


@pytest.mark.parametrize(("what", "kind"), _READERS)
@pytest.mark.parametrize("value", ["7.0", "true", "a b", "d'é", 7, -3, "007"])
def test_an_id_is_text_or_a_whole_number_for_every_reader(
    what: str, kind: str, value: object, tmp_path: Path
) -> None:
    assert _ids_read(what, kind, value, tmp_path) == [str(value)]


@pytest.mark.parametrize(("what", "kind"), _READERS)
@pytest.mark.parametrize("value", ["a ", " a", "a\tb\x01", "a\u200b", 7.0, 7.5, True])
def test_no_reader_takes_another_id(what: str, kind: str, value: object, tmp_path: Path) -> None:
    if kind in {".csv", ".tsv"} and not isinstance(value, str):
        assert _ids_read(what, kind, value, tmp_path) == [_cell(value)], "text, as all in a table"
        return
    with pytest.raises(BadInput, match=r"blank|cannot be seen|must be text or (a )?whole number"):
        _ids_read(what, kind, value, tmp_path)
