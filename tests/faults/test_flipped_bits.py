"""A file with one bit flipped is refused, or means what it meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from owpc_ltr.data import parquet
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import read_letor, write_letor
from owpc_ltr.data.parquet import load_dataset, save_dataset
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.files.output import Journal
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model, save_model
from owpc_ltr.protocols import Model
from tests.faults.seeds import Seeds

pytestmark = pytest.mark.faults
WHOLE = 2000


def dataset(rows: int = 90) -> RankingDataset:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((rows, 6)).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    queries = [f"q{row // 9}" for row in range(rows)]
    return make_dataset(
        values,
        rng.integers(0, 3, rows),
        queries,
        feature_names=("title", "body", "age", "price", "tf", "idf"),
        doc_ids=[f"d{row}" for row in range(rows)],
        query_params=pa.array([json.dumps({"keywords": f"{q}"}) for q in range(rows // 9)]),
        query_weights=rng.random(rows // 9),
        comments=pa.array([f"c{row}" for row in range(rows)]),
        document_fields={
            "vector": pa.array([[float(row), 1.0] for row in range(rows)]),
            "site": pa.array([None if row % 3 else f"s{row}" for row in range(rows)]),
            "when": pa.array([float(row) for row in range(rows)], pa.float32()),
        },
        manifest={"judged": rows, "index": "movies"},
    )


def values_of(data: RankingDataset) -> list[Any]:
    return [
        (part.dtype, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part
        for part in (getattr(data, field.name) for field in fields(data))
    ]


def flips(path: Path, seeds: Iterator[int], *, first: int = 0) -> Iterator[int]:
    """The file with one bit flipped, a seed each."""
    content = path.read_bytes()
    for seed in seeds:
        bit = int(np.random.default_rng(seed).integers(first * 8, len(content) * 8))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        yield bit
    path.write_bytes(content)


def check_flips(
    path: Path, seeds: Iterator[int], read: Callable[[Path], Any], *, first: int = 0
) -> int:
    """How many are refused; the others read as the whole file does."""
    whole, refused, faulty = read(path), 0, 0
    for bit in flips(path, seeds, first=first):
        try:
            data = read(path)
        except OwpcLtrError as error:
            faulty += str(path) not in str(error) or "\n" in str(error)
            refused += 1
        else:
            assert data == whole, f"bit {bit} was read as other data"
    assert not faulty
    return refused


def read_values(path: Path) -> list[Any]:
    return values_of(load_dataset(path))


def test_of_a_dataset(tmp_path: Path, seeds: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 40)
    path = tmp_path / "a.parquet"
    save_dataset(dataset(), path)
    assert check_flips(path, seeds(sample=60, whole=WHOLE), read_values) > 30


def test_of_a_dataset_s_footer_which_no_page_checksum_covers(tmp_path: Path, seeds: Seeds) -> None:
    path = tmp_path / "a.parquet"
    save_dataset(dataset(), path)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert check_flips(path, seeds(sample=60, whole=WHOLE), read_values, first=footer) > 20


def models() -> dict[str, Model]:
    names = ("title", "body")
    linear = LinearModel(
        names, np.array([1.25, -3.5]), {"body": Normaliser("standard", 2.0, 0.5)}, {"seed": 0}
    )
    other = LinearModel(names, np.array([0.1, 7e-9]))
    return {"linear": linear, "average": AverageModel(names, (linear, other), np.array([1.0, 3.0]))}


def read_model(path: Path) -> list[Any]:
    model = load_scoring_model(path)
    return [model.kind, model.feature_names, repr(model.as_dict()), model.record]


@pytest.mark.faults(sample=2)
@pytest.mark.parametrize("kind", ["linear", "average"])
def test_of_a_model(tmp_path: Path, seeds: Seeds, kind: str) -> None:
    path = tmp_path / "m.json"
    save_model(models()[kind], path)
    assert check_flips(path, seeds(sample=150, whole=WHOLE), read_model) > 50


@pytest.mark.faults(sample=2)
@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_of_packed_letor_text(tmp_path: Path, seeds: Seeds, ending: str) -> None:
    path = tmp_path / f"a.txt.{ending}"
    write_letor(dataset(), path)

    def read(path: Path) -> list[Any]:
        return values_of(read_letor(path))

    assert check_flips(path, seeds(sample=60, whole=WHOLE), read) > 50


def test_of_a_journal_of_a_selection(tmp_path: Path, seeds: Seeds) -> None:
    path = tmp_path / "journal"
    rows = {f"{key}" * 8: [{"fold": "fold 1", "validation": 0.5 + key}] for key in range(5)}
    journal = Journal(path)
    for key, kept in rows.items():
        journal.append(key, kept)
    assert {key: piece.value for key, piece in Journal(path).pieces.items()} == rows
    lost = 0
    for bit in flips(path, seeds(sample=150, whole=WHOLE)):
        try:
            pieces = {key: piece.value for key, piece in Journal(path).pieces.items()}
        except BadInput:  # it no longer begins as a journal does
            continue
        # A path is done again where its line changed.
        assert pieces.items() <= rows.items(), bit
        lost += len(pieces) < len(rows)
    assert lost > 50


def test_every_value_has_its_part_in_the_digest() -> None:
    data = dataset()
    part = partial(replace, data)
    features = data.features.copy()
    features[[3, 4]] = features[[4, 3]]
    ids = pa.array([*data.doc_ids.to_pylist()[:-1], "other"])  # type: ignore[union-attr]
    cut = pa.array(["d0d", "1", *data.doc_ids.to_pylist()[2:]])  # type: ignore[union-attr]
    assert data.document_fields is not None
    sites = pa.array([None, *data.document_fields["site"].to_pylist()[1:]])
    others = [
        part(features=features),
        part(features=np.ascontiguousarray(data.features[:, ::-1])),
        part(labels=data.labels + 1),
        part(feature_names=("a", *data.feature_names[1:])),
        part(doc_ids=ids),
        part(doc_ids=cut),
        part(doc_ids=None),
        part(comments=data.doc_ids),
        part(query_weights=None),
        part(document_weights=np.ones(90, np.float32)),
        part(document_fields=None),
        part(document_fields={**data.document_fields, "site": sites}),
        part(manifest={"judged": 91, "index": "movies"}),
        part(featureset_hash="x"),
        part(feature_scales=np.ones(6)),
    ]
    assert len({parquet.digest_of(changed) for changed in [data, *others]}) == len(others) + 1


def test_a_dataset_of_before_is_read_unchecked(tmp_path: Path) -> None:
    """Files that were written without a digest, or by other tools, have none to compare with."""
    path = tmp_path / "a.parquet"
    data = dataset()
    save_dataset(data, path)
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"owpc_ltr"])
    del about["digest"]
    table = table.replace_schema_metadata({b"owpc_ltr": json.dumps(about)})
    pq.write_table(table, path, row_group_size=7, compression="snappy")
    assert values_of(load_dataset(path)) == values_of(data)


def test_rows_written_anew_by_another_tool_are_the_same_and_changed_ones_are_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    data = dataset()
    save_dataset(data, path)
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=11, use_dictionary=True)
    assert values_of(load_dataset(path)) == values_of(data)
    for change in (
        table.set_column(0 + table.column_names.index("label"), "label", [data.labels + 1]),
        table.slice(9),
    ):
        pq.write_table(change.cast(table.schema), path)
        with pytest.raises(BadInput, match=r"not as it was written .*from_frame"):
            load_dataset(path)


def test_pages_have_checksums_that_other_tools_check(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save_dataset(dataset(), path)
    content = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(9)
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"[Cc][Rr][Cc]|checksum"):
        pq.read_table(path, page_checksum_verification=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_is_refused_where_it_is_written_and_read(
    tmp_path: Path, value: float
) -> None:
    path = tmp_path / "a.parquet"
    data = dataset()
    save_dataset(data, path)
    table = pq.read_table(path)
    for column, message in (
        ("age", r"'age' of row 5 \(index 4\)"),
        ("label", r"entry 5 \(index 4\)"),
    ):
        values = table[column].to_numpy().copy()
        values[4] = value
        place = table.column_names.index(column)
        about = json.loads(table.schema.metadata[b"owpc_ltr"])
        del about["digest"]
        spoilt = table.set_column(place, table.schema.field(place), [values])
        spoilt = spoilt.replace_schema_metadata({b"owpc_ltr": json.dumps(about)})
        pq.write_table(spoilt, path)
        with pytest.raises(BadInput, match=f"cannot read .*{message}.* {value}") as refused:
            load_dataset(path)
        assert str(path) in str(refused.value)
    features = data.features.copy()
    features[4, 2] = value
    with pytest.raises(BadInput, match=rf"'age' of row 5 \(index 4\) is {value}"):
        save_dataset(replace(data, features=features), path)


def test_a_model_laid_out_anew_is_the_same_and_a_changed_one_is_told_how_to_be_accepted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.json"
    save_model(models()["linear"], path)
    whole = read_model(path)
    text = path.read_text()
    for layout in (None, 4):
        path.write_text(json.dumps(json.loads(text), indent=layout))
        assert read_model(path) == whole
    changed = text.replace("-3.5", "-4.5")
    path.write_text(changed)
    with pytest.raises(BadInput, match='take its line "digest" out'):
        load_scoring_model(path)
    without = "".join(
        line for line in changed.splitlines(keepends=True) if not line.startswith(' "digest"')
    )
    path.write_text(without)
    assert load_scoring_model(path).as_dict()["weights"] == [1.25, -4.5]


def test_a_model_file_is_as_before_but_for_the_line_of_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(models()["average"], path)
    lines = path.read_text().splitlines(keepends=True)
    assert lines[3].startswith(' "digest": "sha256:')
    before = "".join([*lines[:3], *lines[4:]])
    assert before == json.dumps(json.loads(before), indent=1) + "\n"
