"""Judgments from Parquet and Arrow files read as the same table does from CSV, or are refused."""

from __future__ import annotations

import datetime
import decimal
import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import make_dataset, read_judgments, save_dataset
from owpc_ltr.errors import BadInput
from tests.judgment_writers import IDS, plain

TABLE = {
    "query_id": ["q1", "q2", "q1"],
    "query": ["rambo", "rocky", "rambo"],
    "doc_id": ["park-yosemite", "a/b c", "7555"],
    "grade": [0.75, 0.0, 1e-5],
}
FORMS = ("parquet", "arrow", "feather", "grouped", "dictionaries", "gzip", "xz", "zstd")


def write(table: pa.Table, path: Path, form: str = "parquet") -> None:
    if form == "feather":
        pyarrow.feather.write_feather(table, str(path), compression="zstd", chunksize=2)
    elif form == "arrow":
        with pa.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    elif form == "dictionaries":
        for name in ("query_id", "query"):
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(name).dictionary_encode())
        pq.write_table(table, path)
    else:
        pq.write_table(table, path, row_group_size=2 if form == "grouped" else None)
        packers: dict[str, Any] = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd}
        if form in packers:
            path.write_bytes(packers[form](path.read_bytes()))


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


def refusal(table: Any, tmp_path: Path, form: str = "parquet") -> str:
    path = tmp_path / "judgments"
    write(table if isinstance(table, pa.Table) else pa.table(table), path, form)
    with pytest.raises(BadInput) as raised:
        read_judgments(path)
    text = str(raised.value)
    assert text.startswith(f"cannot read {path}")
    assert len(text) < 400
    return text


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_reads_as_its_csv(form: str, tmp_path: Path) -> None:
    table = pa.table(TABLE)
    write(table, tmp_path / "a", form)
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    assert plain(read_judgments(tmp_path / "a")) == plain(read_judgments(tmp_path / "a.csv"))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Tables of every type that a column may have; a query's parameters do not contradict."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 2), IDS), min_size=1, unique=True))
    queries = [query for query, _ in pairs]
    size = len(pairs)
    whole = st.integers(0, 2**40)
    days = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 1, 1))
    single = st.floats(width=32, allow_nan=False, allow_infinity=False)
    grades = [
        st.lists(elements, min_size=size, max_size=size)
        for elements in (whole, st.floats(0, 2**60))
    ]

    def a_query(values: st.SearchStrategy[Any], *kinds: Any) -> pa.Array:
        """A value for each query, in a column of one of these types."""
        three = draw(st.lists(values, min_size=3, max_size=3))
        return pa.array([three[query] for query in queries], draw(st.sampled_from(kinds)))

    return pa.table(
        {
            "query_id": pa.array(queries, draw(st.sampled_from([pa.int8(), pa.uint64()]))),
            "query": a_query(IDS, pa.string(), pa.large_string()),
            "doc_id": [document for _, document in pairs],
            "grade": draw(grades[0] | grades[1]),
            "age": a_query(st.none() | whole, pa.int64()),
            "price": a_query(st.none() | st.floats(-1e30, 1e30), pa.float64()),
            "ratio": a_query(single, pa.float32()),
            "member": a_query(st.none() | st.booleans(), pa.bool_()),
            "day": a_query(st.none() | days, pa.date32()),
        }
    )


@given(table=tables(), form=st.sampled_from(FORMS))
def test_any_table_reads_as_what_arrow_writes_of_it_as_csv_but_for_types(
    table: pa.Table, form: str, tmp_path: Path
) -> None:
    write(table, tmp_path / "a", form)
    # Numbers and booleans are written by Arrow as JSON writes them: so the header may declare them.
    typed = {"age", "price", "ratio", "member"}
    names = [f"{name}:json" if name in typed else name for name in table.column_names]
    pyarrow.csv.write_csv(table.rename_columns(names), tmp_path / "a.csv")
    assert plain(read_judgments(tmp_path / "a")) == plain(read_judgments(tmp_path / "a.csv"))


VECTORS = [
    pa.list_(pa.float32()), pa.list_(pa.float64()), pa.list_(pa.float16()), pa.list_(pa.int8()),
    pa.large_list(pa.float32()), pa.list_(pa.float32(), 3), pa.list_(pa.int64(), 3),
]  # fmt: skip


@pytest.mark.parametrize("kind", VECTORS, ids=str)
@pytest.mark.parametrize("form", ["parquet", "arrow", "grouped"])
def test_vectors_of_any_type_are_lists_of_their_shortest_numbers(
    kind: Any, form: str, tmp_path: Path
) -> None:
    whole = pa.types.is_integer(kind.value_type)
    numbers: list[float] = [1, -2, 3] if whole else [0.1, -2.5, 1e-3]
    as_numbers = [np.dtype(kind.value_type.to_pandas_dtype()).type(value) for value in numbers]
    vectors = pa.array([as_numbers, None, as_numbers], kind)
    write(pa.table(TABLE | {"vector": vectors}), tmp_path / "a", form)
    with_vector, without = read_judgments(tmp_path / "a").queries
    assert "vector" not in without.params
    vector = with_vector.params["vector"]
    if pa.types.is_float16(kind.value_type):
        assert [np.float16(value) for value in vector] == as_numbers
    else:
        assert vector == numbers
    assert {type(value) for value in vector} == {int if whole else float}


def test_an_empty_list_is_a_value_and_a_null_is_none(tmp_path: Path) -> None:
    for kind in (pa.list_(pa.float32()), pa.list_(pa.string())):
        write(pa.table(TABLE | {"tags": pa.array([[], None, []], kind)}), tmp_path / "a")
        first, second = read_judgments(tmp_path / "a").queries
        assert first.params["tags"] == []
        assert "tags" not in second.params


def test_objects_booleans_and_whole_floats_are_what_json_has(tmp_path: Path) -> None:
    typed: dict[str, list[Any]] = {
        "place": [{"lat": 1.5, "tags": ["a"]}, None, {"lat": 1.5, "tags": ["a"]}],
        "member": [False, True, False],
        "year": [2010.0, None, 2010.0],
        "price": [decimal.Decimal("1.50"), None, decimal.Decimal("1.50")],
        "day": [datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 2)],
    }
    write(pa.table(TABLE | typed), tmp_path / "a")
    first, second = (query.params for query in read_judgments(tmp_path / "a").queries)
    text = {"keywords": "rambo", "query": "rambo", "price": "1.50", "day": "2020-01-02"}
    assert first == {**text, "place": typed["place"][0], "member": False, "year": 2010}
    assert type(first["year"]) is int
    assert second == {"keywords": "rocky", "query": "rocky", "member": True}


def test_a_vector_is_made_once_however_many_judgments_have_it(tmp_path: Path) -> None:
    from owpc_ltr_judgments.tables import Parquet

    many = 5_000
    numbers = np.random.default_rng(3).random(64, dtype=np.float32)
    table = {
        "query": [f"q{i // 500}" for i in range(many)],
        "doc_id": [str(i) for i in range(many)],
        "grade": np.zeros(many),
        "vector": pa.array([np.roll(numbers, i // 500) for i in range(many)]),
    }
    write(pa.table(table), tmp_path / "a")
    lines = Parquet().read(tmp_path / "a")
    assert len(lines.params["vector"].values) == many // 500 + 1
    vectors = [query.params["vector"] for query in read_judgments(tmp_path / "a").queries]
    assert [np.float32(vector).tolist() for vector in vectors] == [
        np.roll(numbers, query).tolist() for query in range(many // 500)
    ]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2)]
)
def test_grades_are_numbers_of_any_type(kind: Any, tmp_path: Path) -> None:
    values = [decimal.Decimal(3), decimal.Decimal(0), decimal.Decimal(1)]
    if not pa.types.is_decimal(kind):
        values = [np.dtype(kind.to_pandas_dtype()).type(value) for value in values]
    write(pa.table(TABLE | {"grade": pa.array(values, kind)}), tmp_path / "a")
    assert [q.grades.tolist() for q in read_judgments(tmp_path / "a").queries] == [[3, 1], [0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grade": [1.0, float("nan"), 0.0]}, "row 2: the grade 'nan' is not a number that fits"),
        ({"grade": [1.0, None, 0.0]}, "row 2: the grade '' is not a number that fits"),
        ({"grade": [1.0, 0.0, float("inf")]}, "row 3: the grade 'inf' is not a number that fits"),
        ({"grade": [1e39, 0.0, 1.0]}, "row 1: the grade '1e+39' is not a number that fits"),
        ({"grade": [1, 0, -1]}, "row 3: the grade '-1' is negative"),
        ({"grade": pa.nulls(3)}, "row 1: the grade '' is not a number that fits"),
        ({"grade": ["1", "0", "good"]}, "row 3: the grade 'good' is not a number that fits"),
        ({"grade": [True, False, True]}, "the column 'grade' is bool, and must be a number"),
        ({"doc_id": [1.0, 2.0, 3.0]}, "the column 'doc_id' is double, and must be text or whole"),
        ({"doc_id": [b"1", b"2", b"3"]}, "the column 'doc_id' is binary, and must be text or"),
        ({"doc_id": ["a", None, "b"]}, "row 2: the document id is empty"),
        ({"doc_id": ["a", "b ", "c"]}, "row 2: the document id 'b ' begins or ends with a blank"),
        ({"doc_id": [7, 7, 7]}, "row 3: document '7' of query 'q1' is judged as 0.00001, and as "),
        ({"query_id": ["q", "", "q"]}, "row 2: the query id is empty"),
        ({"query": ["a", " ", "a"]}, "row 2: the query is empty of query id 'q2'"),
        ({"query": ["a", None, "a"]}, "row 2: the query is empty of query id 'q2'"),
        ({"query": ["a", "b", "c"]}, "row 3: query 'q1' has keywords 'c', and 'a' on row 1"),
        ({"tags": [["a"], [], []]}, "row 3: query 'q1' has tags '[]', and '[\"a\"]' on row 1"),
        ({"v": [[1.0], [1.0], [1.5]]}, "row 3: query 'q1' has v '[1.5]', and '[1.0]' on row 1"),
        ({"v": [[1.0], None, None]}, "row 3: query 'q1' has v '', and '[1.0]' on row 1"),
        ({"v": [[1.0], [2.0, float("nan")], [1.0]]}, "row 2: the parameter 'v' holds nan, which"),
        ({"price": [1.0, float("inf"), 1.0]}, "row 2: the parameter 'price' holds inf, which is"),
        ({"v": [[b"1"], [], []]}, "the column 'v' is list<"),
        ({"v": [[datetime.date(2020, 1, 1)], [], []]}, "the column 'v' is list<"),
        ({"v:json": ["[1", "", ""]}, "row 1: the cell '[1' of the column 'v:json' is not JSON"),
        ({"v": [1, 2, 1], "v:json": ["1", "2", "1"]}, "the parameter 'v' has another column too"),
        ({"docid": ["a", "b", "c"]}, "the columns 'doc_id' and 'docid' both name the doc_id"),
        ({"Grade": [1, 2, 3]}, "two of 'grade'"),
        ({"": [1, 2, 3]}, "an empty name"),
    ],
)  # fmt: skip
def test_bad_values_are_named_by_row(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    for form in ("parquet", "arrow", "grouped"):
        assert message in refusal(TABLE | change, tmp_path, form)


def test_columns_that_are_no_judgments_are_refused_by_name(tmp_path: Path) -> None:
    text = refusal({"user": [1], "clicks": [2]}, tmp_path)
    assert "no column is called 'query' or 'doc_id' or 'grade': found 'user', 'clicks'" in text
    assert "its columns must name query_id, query, doc_id, grade" in text
    nothing = pa.table(TABLE).slice(0, 0)
    assert "it has columns, and no row" in refusal(nothing, tmp_path)
    save_dataset(make_dataset(np.ones((1, 1)), [1], ["q"], doc_ids=["d"]), tmp_path / "a")
    with pytest.raises(BadInput, match="it is a dataset of owpc-ltr, whose queries have features"):
        read_judgments(tmp_path / "a")


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_file_is_refused_wherever_it_is_cut(form: str, tmp_path: Path) -> None:
    write(pa.table(TABLE), tmp_path / "whole", form)
    content = (tmp_path / "whole").read_bytes()
    for end in [*range(8, len(content), 97), len(content) - 1]:
        (tmp_path / "cut").write_bytes(content[:end])
        with pytest.raises(BadInput, match=r"^cannot read .*cut"):
            read_judgments(tmp_path / "cut")


@given(data=st.data(), form=st.sampled_from(["parquet", "arrow", "dictionaries"]))
def test_damage_is_an_error_of_one_line_or_does_no_harm(
    data: st.DataObject, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    typed = {"vector": [[0.5, 1.0], None, [0.5, 1.0]], "place": [{"t": ["a"]}, None, {"t": ["a"]}]}
    write(pa.table(TABLE | typed), path, form)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        read_judgments(path)
    except BadInput as error:
        assert str(error).startswith(f"cannot read {path}")  # noqa: PT017 - either is right


@pytest.mark.parametrize("value", [b"grade", b"rocky"])
def test_a_name_or_value_that_is_no_text_is_refused(value: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(pa.table(TABLE), path, "arrow")
    content = path.read_bytes()
    assert value in content
    path.write_bytes(content.replace(value, b"\xff" * len(value)))
    with pytest.raises(BadInput, match="it is not a complete Parquet or Arrow file"):
        read_judgments(path)


def test_columns_of_text_are_not_copied(tmp_path: Path) -> None:
    """Arrow's file is mapped into memory, and stays where it is."""
    from owpc_ltr_judgments.tables import Parquet

    many = 200_000
    table = pa.table(
        {
            "query_id": [f"query number {i // 10}" for i in range(many)],
            "query": [f"the words of query number {i // 10}" for i in range(many)],
            "doc_id": [f"document number {i}" for i in range(many)],
            "grade": np.ones(many),
        }
    )
    write(table, tmp_path / "a", "arrow")
    before = pa.total_allocated_bytes()
    lines = Parquet().read(tmp_path / "a")
    assert len(lines.doc_ids) == many
    assert pa.total_allocated_bytes() - before < table.nbytes / 20


def test_lists_whose_offsets_are_gone_are_refused_before_their_size_is_asked(
    tmp_path: Path,
) -> None:
    """Arrow reads the size of a list from its offsets; without these it ended the process."""
    path = tmp_path / "a"
    lists = {"vector": [[0.5], None, [0.5]], "place": [{"t": ["a"]}, None, {"t": ["a"]}]}
    write(pa.table(TABLE | lists), path, "arrow")
    content = path.read_bytes()
    refused = 0
    for place in range(len(content) - 700, len(content) - 10):
        path.write_bytes(content[:place] + b"\3" + content[place + 1 :])
        try:
            read_judgments(path)
        except BadInput:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "+02:00"])
def test_times_are_parameters_as_engines_read_dates(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 0 if unit == "s" else 250_000)
    column = pa.array([moment], pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
    table = pa.table({"query": ["a"], "doc_id": ["d"], "grade": [1], "at": column})
    pq.write_table(table, tmp_path / "j.parquet")
    (query,) = read_judgments(tmp_path / "j.parquet").queries
    text = query.params["at"]
    assert "T" in text
    time = datetime.datetime.fromisoformat(text)
    wanted = moment if zone is None else moment.replace(tzinfo=datetime.UTC)
    assert time == wanted
