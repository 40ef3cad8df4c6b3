"""A log as a folder of parts: the same documents as in a file, by one writer or by several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.external_features.reading import read_external_features
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.data.partitioned.dataset import open_partitioned
from owpc_ltr.data.partitioned.manifest import Share
from owpc_ltr.engine.feature_log.assembly import PartitionedOutput
from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.feature_log.log_features import output_parts
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused, UsageError
from tests.datasets import by_query, content
from tests.engine.log_runs import QUICK, ctr_file, lenient, log, without
from tests.engine.memory_engine import MemoryEngine, small_judgments

JUDGMENTS = small_judgments(queries=24)
WHOLE = PartitionedOutput()


def part(number: int, of: int) -> PartitionedOutput:
    return PartitionedOutput(share=Share(number, of))


def logged(out: Path, engine: MemoryEngine | None = None, **how: Any) -> LogReport:
    return log(engine or MemoryEngine(), out, **{"judgments": JUDGMENTS, **how})


def test_the_folder_has_what_the_file_has(tmp_path: Path) -> None:
    engine = without("d3")
    logged(tmp_path / "a.parquet", engine, options=lenient())
    report = logged(tmp_path / "parts", engine, options=lenient(), parted=WHOLE)
    data, parts = load_dataset(tmp_path / "a.parquet"), open_partitioned(tmp_path / "parts")
    assert by_query(parts.load()) == by_query(data)
    assert parts.manifest == data.manifest == report.manifest
    assert (parts.featureset_hash, parts.feature_names) == (
        data.featureset_hash,
        data.feature_names,
    )
    assert {path.name for path in tmp_path.iterdir()} == {"a.parquet", "parts"}


def test_joined_columns_are_in_the_folder_too(tmp_path: Path) -> None:
    from typing import cast

    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.feature_log.log import run_log
    from owpc_ltr.engine.stores.plugin_free import PluginFreeStore

    engine = MemoryEngine()
    store = PluginFreeStore(cast(Engine, engine))
    tables = read_external_features(ctr_file(tmp_path))
    found = []
    for name, parted in (("a.parquet", None), ("parts", WHOLE)):
        run_log(
            engine, store, engine.featureset, JUDGMENTS, engine.index, tmp_path / name,
            options=QUICK, joined=tables, parted=parted,
        )  # fmt: skip
        path = tmp_path / name
        found.append(load_dataset(path) if parted is None else open_partitioned(path).load())
    assert by_query(found[0]) == by_query(found[1])
    assert found[0].manifest == found[1].manifest
    with pytest.raises(UsageError, match="--extra-features counts a table's rows once"):
        part(1, 2).check(tmp_path / "other", tables)


def test_several_writers_log_what_one_does(tmp_path: Path) -> None:
    """Counts add up, and the parts are the same files."""
    engine = without("d3")
    logged(tmp_path / "one", engine, options=lenient(), parted=WHOLE)
    for number in (2, 3, 1):
        logged(tmp_path / "three", engine, options=lenient(), parted=part(number, 3))
    one, three = open_partitioned(tmp_path / "one"), open_partitioned(tmp_path / "three")
    assert three.manifest == one.manifest
    assert three.fingerprint == one.fingerprint
    files = [
        {name: data for name, data in content(tmp_path / folder).items() if "part-" in name}
        for folder in ("one", "three")
    ]
    assert files[0] == files[1]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    logged(tmp_path / "a", parted=part(1, 3))
    with pytest.raises(BadInput, match="it lacks 2/3, 3/3: write it with --part 2/3"):
        open_partitioned(tmp_path / "a")
    with pytest.raises(UsageError, match="it holds this part of a dataset already"):
        logged(tmp_path / "a", parted=part(1, 3))
    with pytest.raises(UsageError, match=r"_manifest-1-of-3.json in it is of other parts"):
        logged(tmp_path / "a", parted=part(1, 2))
    with pytest.raises(UsageError, match=r"_manifest-1-of-3.json in it is of other parts"):
        logged(tmp_path / "a", parted=WHOLE)


def test_parts_of_two_moments_are_not_taken_together(tmp_path: Path) -> None:
    engine = MemoryEngine()
    logged(tmp_path / "a", engine, parted=part(1, 2))
    engine.revision += 1
    logged(tmp_path / "a", engine, parted=part(2, 2))
    with pytest.raises(BadInput, match="are of two datasets, with other source"):
        open_partitioned(tmp_path / "a")


@pytest.mark.parametrize("parted", [WHOLE, part(2, 2)])
def test_a_log_that_stops_goes_on_to_the_same_bytes(
    parted: PartitionedOutput, tmp_path: Path
) -> None:
    logged(tmp_path / "clean", parted=parted)

    def gone(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number > 12:
            raise EngineUnavailable("the engine has gone")
        return answer

    out = tmp_path / "out"
    with pytest.raises(EngineUnavailable, match="chunks are kept"):
        logged(out, MemoryEngine(fault=gone), parted=parted)
    assert not out.exists()
    report = logged(out, parted=parted)
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

    logged(tmp_path / "clean", parted=WHOLE)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
        with pytest.raises(DiskFault, match="no space left"):
            logged(out, parted=WHOLE)
    report = logged(out, parted=WHOLE)
    assert report.resumed == JUDGMENTS.n_judgments
    assert content(out) == content(tmp_path / "clean")


def test_what_cannot_be_parted_is_refused_before_any_search(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    searches = 0

    def count(_number: int, _path: str, _body: Any, answer: Any) -> Any:
        nonlocal searches
        searches += 1
        return answer

    engine = MemoryEngine(fault=count)
    for parted, out, message in (
        (part(1, 21), "a", "20 buckets cannot be shared by 21"),
        (WHOLE, "other", "it has files that are no part of a dataset"),
        (PartitionedOutput(buckets=0), "a", "1 to 1000 buckets"),
    ):
        with pytest.raises(UsageError, match=message):
            logged(tmp_path / out, engine, parted=parted)
    few = small_judgments(queries=1)
    empty = next(n for n in (1, 2) if not _has(part(n, 2), few))
    with pytest.raises(BadInput, match=f"none of the 1 queries is in part {empty}/2"):
        logged(tmp_path / "a", engine, judgments=few, parted=part(empty, 2))
    assert searches == 0


def _has(parted: PartitionedOutput, judgments: Any) -> bool:
    try:
        return bool(parted.own(judgments).queries)
    except BadInput:
        return False


def test_a_log_without_a_document_is_refused(tmp_path: Path) -> None:
    engine = MemoryEngine()
    engine.documents = {"elsewhere"}
    with pytest.raises(Refused, match="could be logged"):
        logged(tmp_path / "a", engine, options=lenient(), parted=WHOLE)


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "a/b", "/", "-1/4", "1/4/2"])
def test_a_text_that_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as 3/16"):
        output_parts(None, text)


def test_parts_share_the_queries(tmp_path: Path) -> None:
    own = [part(number, 3).own(JUDGMENTS).queries for number in (1, 2, 3)]
    ids = [query.query_id for queries in own for query in queries]
    assert sorted(ids) == sorted(query.query_id for query in JUDGMENTS.queries)
    assert output_parts(None, None) is None
    assert output_parts(40, "2/3") == PartitionedOutput(40, Share(2, 3))
    assert np.diff([len(queries) for queries in own]).size == 2
