"""A log with joined tables: columns beside the set's, resumed to the same bytes, never mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.data.external_features.reading import read_external_features
from owpc_ltr.data.letor import read_letor, write_letor
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from tests.datasets import frame
from tests.engine.log_runs import QUICK, assert_nothing_published, ctr, ctr_file, digest, without
from tests.engine.log_runs import log as log_plainly
from tests.engine.memory_engine import NAMES, MemoryEngine, small_judgments


def log(
    out: Path, extra_features: Any, engine: MemoryEngine | None = None, **options: Any
) -> LogReport:
    engine = engine or MemoryEngine()
    client = cast(Engine, engine)
    return run_log(
        engine, PluginFreeStore(client), engine.featureset, small_judgments(), engine.index, out,
        options=LogOptions(**{**vars(QUICK), **options}),
        joined=read_external_features(extra_features),
    )  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path / "results" / "movies.parquet"


def test_joined_columns_stand_after_the_sets_own_in_order(tmp_path: Path, out: Path) -> None:
    views = frame({"doc_id": ["d0", "d1"], "views": [10, None], "new": [True, False]})
    log_plainly(MemoryEngine(), tmp_path / "plain.parquet")
    report = log(out, [ctr_file(tmp_path), views])
    plain, data = load_dataset(tmp_path / "plain.parquet"), load_dataset(out)
    assert data.feature_names == (*NAMES, "ctr", "views", "new")
    np.testing.assert_array_equal(data.features[:, :4], plain.features)
    assert data.featureset_hash == plain.featureset_hash
    assert data.document_ids is not None
    queries = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets)).tolist()
    pairs = list(zip(queries, data.document_ids.to_pylist(), strict=True))
    by_document = {"d0": (10, 1), "d1": (np.nan, 0)}
    expected = [(ctr().get(p, np.nan), *by_document.get(p[1], (np.nan, np.nan))) for p in pairs]
    np.testing.assert_array_equal(data.features[:, 4:], np.array(expected, np.float32))
    assert data.manifest is not None
    first, second = data.manifest["joined_tables"]
    assert (first["file"], first["keys"]) == ("ctr.parquet", ["query_id", "document_id"])
    assert first["sha256"] == digest(tmp_path / "ctr.parquet")
    met = sum(pair in ctr() for pair in pairs)
    assert (first["matched"], first["unmatched"], first["unused"]) == (met, 30 - met, 25 - met)
    assert (second["file"], second["features"]) == ("frame 2", ["views", "new"])
    assert data.manifest["missing"]["ctr"] == 30 - met
    assert report.manifest == data.manifest
    # All else that the manifest says is of the engine, as without tables.
    rest = {key: part for key, part in data.manifest.items() if key != "joined_tables"}
    assert {**rest, "missing": None} == {**plain.manifest, "missing": None}  # type: ignore[dict-item]


def test_documents_that_are_absent_keep_others_values_in_place(tmp_path: Path, out: Path) -> None:
    log(out, ctr_file(tmp_path), without("d0", "d7"), max_absent=1.0)
    data = load_dataset(out)
    assert data.document_ids is not None
    queries = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets)).tolist()
    expected = [
        ctr().get(p, np.nan) for p in zip(queries, data.document_ids.to_pylist(), strict=True)
    ]
    assert "d0" not in data.document_ids.to_pylist()
    np.testing.assert_array_equal(data.features[:, 4], np.array(expected, np.float32))


def test_without_tables_a_log_is_what_it_was(tmp_path: Path, out: Path) -> None:
    log(out, None)
    log_plainly(MemoryEngine(), tmp_path / "plain.parquet")
    assert digest(out) == digest(tmp_path / "plain.parquet")
    assert "joined_tables" not in (load_dataset(out).manifest or {})


def away(number: int, _path: str, _body: Any, answer: Any) -> Any:
    if number > 14:
        raise EngineUnavailable("the engine does not answer")
    return answer


def test_an_interrupted_log_goes_on_with_the_same_table_and_with_no_other(
    tmp_path: Path, out: Path
) -> None:
    log(tmp_path / "clean.parquet", ctr_file(tmp_path), chunk=5)
    with pytest.raises(EngineUnavailable, match="kept"):
        log(out, ctr_file(tmp_path), MemoryEngine(fault=away), chunk=5, in_flight=1)
    (tmp_path / "newer").mkdir()
    for other in (ctr_file(tmp_path / "newer", scale=2.0), None, [ctr_file(tmp_path), frame(
            {"doc_id": ["d0"], "views": [1]})]):  # fmt: skip
        with pytest.raises(Refused, match=r"another job \(other joined tables\)"):
            log(out, other, chunk=5)
    report = log(out, ctr_file(tmp_path), chunk=5)
    assert report.resumed > 0
    assert digest(out) == digest(tmp_path / "clean.parquet")
    assert digest(out) != digest(log_with_other(tmp_path))


def log_with_other(folder: Path) -> Path:
    path = folder / "other.parquet"
    log(path, ctr_file(folder / "newer", scale=2.0), chunk=5)
    return path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"document_id": ["D1"], "views": [1]}, "are they ids of the same kind"),
        ({"document_id": ["d1"], "year": [1]}, "the feature set has a feature 'year' too"),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused_before_any_search(
    columns: dict[str, Any], message: str, out: Path
) -> None:
    engine = MemoryEngine()
    with pytest.raises(BadInput, match=message):
        log(out, frame(columns), engine)
    assert engine.calls == 0
    assert_nothing_published(out, kept=False)


def test_a_joined_column_is_a_column_of_letor_text_too(tmp_path: Path, out: Path) -> None:
    log(out, ctr_file(tmp_path))
    data = load_dataset(out)
    write_letor(data, tmp_path / "data.txt")
    back = read_letor(tmp_path / "data.txt")
    np.testing.assert_array_equal(back.features, data.features)
