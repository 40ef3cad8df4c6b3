"""What a feature log writes: folders of parts, weights of judgments, external features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr import RankingDataset
from owpc_ltr.data.external_features import read_external_features
from owpc_ltr.data.judgments import Judgments, importance_of, weights_of
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.data.partitioned import open_partitioned
from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from tests.datasets import by_query, content, frame
from tests.engine.log_runs import (
    QUICK,
    assert_nothing_published,
    away_after,
    ctr,
    ctr_file,
    digest,
    lenient,
    log,
    rows_of,
    without,
)
from tests.engine.memory_engine import NAMES, MemoryEngine, small_judgments

JUDGMENTS = small_judgments(queries=24)
BUCKETS = 20


def logged(out: Path, engine: MemoryEngine | None = None, **how: Any) -> LogReport:
    return log(engine or MemoryEngine(), out, **{"judgments": JUDGMENTS, **how})


def few_weighed() -> Judgments:
    return Judgments([replace(JUDGMENTS.queries[0], importance=2.0), *JUDGMENTS.queries[1:]])


@pytest.mark.parametrize("what", ["absent", "joined", "weighed", "few weighed"])
def test_the_folder_has_what_the_file_has(tmp_path: Path, what: str) -> None:
    ways: dict[str, dict[str, Any]] = {
        "absent": {"engine": without("d3"), "options": lenient()},
        "joined": {"joined": read_external_features(ctr_file(tmp_path))},
        "weighed": {"judgments": weighed()},
        "few weighed": {"judgments": few_weighed()},
    }
    how = ways[what]
    logged(tmp_path / "a.parquet", **how)
    report = logged(tmp_path / "parts", **how, buckets=BUCKETS)
    data, parts = load_dataset(tmp_path / "a.parquet"), open_partitioned(tmp_path / "parts")
    assert by_query(parts.load()) == by_query(data)
    assert parts.manifest == data.manifest == report.manifest
    assert parts.featureset_hash == data.featureset_hash
    assert parts.feature_names == data.feature_names
    assert {path.name for path in tmp_path.iterdir()} - {"ctr.parquet"} == {"a.parquet", "parts"}
    if "judgments" in how:
        assert contents_of(parts.load()) == expected(how["judgments"])


def test_a_log_that_stops_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    logged(tmp_path / "clean", buckets=BUCKETS)
    out = tmp_path / "out"
    with pytest.raises(EngineUnavailable, match="chunks are kept"):
        logged(out, MemoryEngine(fault=away_after(12)), buckets=BUCKETS)
    assert not out.exists()
    report = logged(out, buckets=BUCKETS)
    assert report.resumed > 0
    assert content(out) == content(tmp_path / "clean")
    assert {path.name for path in tmp_path.iterdir()} == {"clean", "out"}


def test_a_full_disk_at_the_end_costs_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    from owpc_ltr.errors import DiskFault

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    logged(tmp_path / "clean", buckets=BUCKETS)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
        with pytest.raises(DiskFault, match="no space left"):
            logged(out, buckets=BUCKETS)
    report = logged(out, buckets=BUCKETS)
    assert report.resumed == JUDGMENTS.n_judgments
    assert content(out) == content(tmp_path / "clean")


def test_a_folder_that_cannot_be_written_is_refused_before_any_search(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    engine = MemoryEngine()
    for buckets, out, message in (
        (BUCKETS, "other", "it has files that are not part of a dataset"),
        (0, "a", "1 to 1000 buckets"),
    ):
        with pytest.raises(UsageError, match=message):
            logged(tmp_path / out, engine, buckets=buckets)
    assert engine.calls == 0


@pytest.mark.parametrize("buckets", [None, BUCKETS])
def test_a_log_without_a_document_leaves_nothing_new(tmp_path: Path, buckets: int | None) -> None:
    with pytest.raises(Refused, match="none of the 120 judged documents could be logged"):
        logged(tmp_path / "a", MemoryEngine(documents=set()), options=lenient(), buckets=buckets)
    assert_nothing_published(tmp_path / "a")


def weighed() -> Judgments:
    """Weights from 0 up for most documents, an importance for most queries."""
    queries = [
        replace(
            query,
            weights=None if n % 5 == 3 else np.array([(n + d) % 4 / 2 for d in range(5)], "f4"),
            importance=None if n % 7 == 2 else n % 3 + 0.5,
        )
        for n, query in enumerate(JUDGMENTS.queries)
    ]
    return Judgments(queries)


def contents_of(data: RankingDataset) -> dict[str, Any]:
    """By query: the weight of each document, and the importance."""
    assert data.doc_ids is not None
    ids, cuts = data.doc_ids.to_pylist(), data.offsets.tolist()
    return {
        query: (dict(zip(ids[a:b], data.weights[a:b].tolist(), strict=True)), asked)
        for query, asked, a, b in zip(
            data.query_ids.to_pylist(), data.query_importance.tolist(), cuts, cuts[1:], strict=False
        )
    }


def expected(judgments: Judgments, lacking: str = "") -> dict[str, Any]:
    return {
        query.query_id: (
            {
                document: sure
                for document, sure in zip(query.doc_ids, weights_of(query).tolist(), strict=True)
                if document != lacking
            },
            importance_of(query),
        )
        for query in judgments.queries
    }


def test_a_dataset_has_the_weights_of_what_was_logged(tmp_path: Path) -> None:
    logged(tmp_path / "a.parquet", without("d3"), judgments=weighed(), options=lenient())
    data = load_dataset(tmp_path / "a.parquet")
    assert contents_of(data) == expected(weighed(), "d3")
    assert data.document_weights is not None
    assert data.query_weights is not None
    assert repr(data).count("weighted by query and document") == 1


def test_every_way_of_a_dataset_keeps_them(tmp_path: Path) -> None:
    logged(tmp_path / "a.parquet", judgments=weighed())
    data = ltr.read_dataset(tmp_path / "a.parquet")
    whole = expected(weighed())
    assert contents_of(data) == whole
    sides = data.split()
    parts = ltr.partition(data, out=tmp_path / "parts", buckets=3)
    again = [contents_of(each) for each in (sides.training, sides.validation, sides.test)]
    assert {query: lines for side in again for query, lines in side.items()} == whole
    assert contents_of(parts.load()) == whole
    assert contents_of(data.select(np.array([3, 1]))).items() <= whole.items()
    assert contents_of(ltr.open_dataset(tmp_path / "parts").load()) == whole
    back = judged_queries(data)
    assert expected(Judgments(back)) == whole


def test_weights_of_1_are_the_same_bytes_as_none(tmp_path: Path) -> None:
    ones = [
        replace(query, weights=np.ones(5, np.float32), importance=1.0)
        for query in JUDGMENTS.queries
    ]
    logged(tmp_path / "a.parquet")
    logged(tmp_path / "b.parquet", judgments=Judgments(ones))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert load_dataset(tmp_path / "b.parquet").document_weights is None


def test_a_log_goes_on_with_the_same_weights_and_with_no_others(tmp_path: Path) -> None:
    out, options = tmp_path / "a.parquet", replace(QUICK, chunk=5)
    with pytest.raises(EngineUnavailable, match="kept"):
        logged(out, MemoryEngine(fault=away_after(12)), judgments=weighed(), options=options)
    with pytest.raises(Refused, match=r"unfinished work of another job \(other judgments\)"):
        logged(out, options=options)
    logged(out, judgments=weighed(), options=options)
    logged(tmp_path / "clean.parquet", judgments=weighed(), options=options)
    assert digest(out) == digest(tmp_path / "clean.parquet")


def log_extra(
    out: Path, extra_features: Any, engine: MemoryEngine | None = None, **options: Any
) -> LogReport:
    tables = read_external_features(extra_features)
    return log(engine or MemoryEngine(), out, joined=tables, options=replace(QUICK, **options))


def test_joined_columns_stand_after_the_sets_own_in_order(tmp_path: Path, out: Path) -> None:
    views = frame({"doc_id": ["d0", "d1"], "views": [10, None], "new": [True, False]})
    log(MemoryEngine(), tmp_path / "plain.parquet")
    report = log_extra(out, [ctr_file(tmp_path), views])
    plain, data = load_dataset(tmp_path / "plain.parquet"), load_dataset(out)
    assert data.feature_names == (*NAMES, "ctr", "views", "new")
    np.testing.assert_array_equal(data.features[:, :4], plain.features)
    assert data.featureset_hash == plain.featureset_hash
    pairs = rows_of(data)
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
    log_extra(out, ctr_file(tmp_path), without("d0", "d7"), max_absent=1.0)
    data = load_dataset(out)
    expected = [ctr().get(pair, np.nan) for pair in rows_of(data)]
    assert "d0" not in {document for _, document in rows_of(data)}
    np.testing.assert_array_equal(data.features[:, 4], np.array(expected, np.float32))


def test_an_interrupted_log_goes_on_with_the_same_table_and_with_no_other(
    tmp_path: Path, out: Path
) -> None:
    log_extra(tmp_path / "clean.parquet", ctr_file(tmp_path), chunk=5)
    with pytest.raises(EngineUnavailable, match="kept"):
        log_extra(out, ctr_file(tmp_path), MemoryEngine(fault=away_after(14)), chunk=5, in_flight=1)
    (tmp_path / "newer").mkdir()
    for other in (ctr_file(tmp_path / "newer", scale=2.0), None, [ctr_file(tmp_path), frame(
            {"doc_id": ["d0"], "views": [1]})]):  # fmt: skip
        with pytest.raises(Refused, match=r"another job \(other external features\)"):
            log_extra(out, other, chunk=5)
    report = log_extra(out, ctr_file(tmp_path), chunk=5)
    assert report.resumed > 0
    assert digest(out) == digest(tmp_path / "clean.parquet")
    log_extra(tmp_path / "other.parquet", ctr_file(tmp_path / "newer", scale=2.0), chunk=5)
    assert digest(out) != digest(tmp_path / "other.parquet")


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
        log_extra(out, frame(columns), engine)
    assert engine.calls == 0
    assert_nothing_published(out, kept=False)
