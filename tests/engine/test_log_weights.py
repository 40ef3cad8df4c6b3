"""Weights of judgments on their way into datasets: by one writer, by several, and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.judgments.weights import importance_of, weights_of
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.data.partitioned.dataset import open_partitioned
from owpc_ltr.data.partitioned.manifest import Share
from owpc_ltr.engine.feature_log.assembly import PartitionedOutput
from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.errors import EngineUnavailable, Refused
from tests.datasets import by_query, content
from tests.engine.log_runs import QUICK, lenient, log, without
from tests.engine.memory_engine import MemoryEngine, small_judgments

PLAIN = small_judgments(queries=24)


def weighed(judgments: Judgments = PLAIN) -> Judgments:
    """Weights from 0 up for most documents, an importance for most queries."""
    queries = [
        replace(
            query,
            weights=None if n % 5 == 3 else np.array([(n + d) % 4 / 2 for d in range(5)], "f4"),
            importance=None if n % 7 == 2 else n % 3 + 0.5,
        )
        for n, query in enumerate(judgments.queries)
    ]
    return Judgments(queries)


def logged(out: Path, judgments: Judgments, engine: Any = None, **how: Any) -> LogReport:
    return log(engine or MemoryEngine(), out, judgments=judgments, **how)


def told(data: RankingDataset) -> dict[str, Any]:
    """By query: the weight of each document, and the importance."""
    assert data.document_ids is not None
    ids, cuts = data.document_ids.to_pylist(), data.offsets.tolist()
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
                for document, sure in zip(
                    query.document_ids, weights_of(query).tolist(), strict=True
                )
                if document != lacking
            },
            importance_of(query),
        )
        for query in judgments.queries
    }


def test_a_dataset_has_the_weights_of_what_was_logged(tmp_path: Path) -> None:
    logged(tmp_path / "a.parquet", weighed(), without("d3"), options=lenient())
    data = load_dataset(tmp_path / "a.parquet")
    assert told(data) == expected(weighed(), "d3")
    assert data.document_weights is not None
    assert data.query_weights is not None
    assert repr(data).count("weighted by query and document") == 1


def test_every_road_of_a_dataset_keeps_them(tmp_path: Path) -> None:
    logged(tmp_path / "a.parquet", weighed())
    data = ltr.read_dataset(tmp_path / "a.parquet")
    whole = expected(weighed())
    assert told(data) == whole
    sides = data.split()
    parts = ltr.partition(data, out=tmp_path / "parts", buckets=3)
    again = [told(each) for each in (sides.training, sides.validation, sides.test)]
    assert {query: one for side in again for query, one in side.items()} == whole
    assert told(parts.load()) == whole
    assert told(data.select(np.array([3, 1]))).items() <= whole.items()
    assert told(ltr.open_dataset(tmp_path / "parts").load()) == whole
    back = judged_queries(data)
    assert expected(Judgments(back)) == whole


def test_weights_of_1_are_the_same_bytes_as_none(tmp_path: Path) -> None:
    ones = [
        replace(query, weights=np.ones(5, np.float32), importance=1.0) for query in PLAIN.queries
    ]
    logged(tmp_path / "a.parquet", PLAIN)
    logged(tmp_path / "b.parquet", Judgments(ones))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert load_dataset(tmp_path / "b.parquet").document_weights is None


def test_folders_of_parts_have_them_whoever_writes(tmp_path: Path) -> None:
    # A weight of one query alone: the other writers do not see it, and have its column.
    one = [replace(PLAIN.queries[0], importance=2.0), *PLAIN.queries[1:]]
    for name, judgments in (("all", weighed()), ("one", Judgments(one))):
        logged(tmp_path / f"{name}.parquet", judgments)
        logged(tmp_path / name, judgments, parted=PartitionedOutput())
        for number in (2, 3, 1):
            share = PartitionedOutput(share=Share(number, 3))
            logged(tmp_path / f"{name}-of-3", judgments, parted=share)
        data = load_dataset(tmp_path / f"{name}.parquet")
        for folder in (name, f"{name}-of-3"):
            parts = open_partitioned(tmp_path / folder)
            assert by_query(parts.load()) == by_query(data)
            assert told(parts.load()) == expected(judgments)
        files = [
            {path: data for path, data in content(tmp_path / folder).items() if "part-" in path}
            for folder in (name, f"{name}-of-3")
        ]
        assert files[0] == files[1]


def test_a_log_goes_on_with_the_same_weights_and_with_no_others(tmp_path: Path) -> None:
    def gone(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number > 12:
            raise EngineUnavailable("the engine has gone")
        return answer

    out, options = tmp_path / "a.parquet", replace(QUICK, chunk=5)
    with pytest.raises(EngineUnavailable, match="kept"):
        logged(out, weighed(), MemoryEngine(fault=gone), options=options)
    with pytest.raises(Refused, match=r"half-done work of another job \(other judgments\)"):
        logged(out, PLAIN, options=options)
    logged(out, weighed(), options=options)
    logged(tmp_path / "clean.parquet", weighed(), options=options)
    assert out.read_bytes() == (tmp_path / "clean.parquet").read_bytes()
