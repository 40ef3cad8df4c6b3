"""Feature logging on a real node: other ids, swapped columns, aliases, and refused searches."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.feature_log.log import LogReport, run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.engine.stores import most_clauses
from owpc_ltr.errors import BadInput, Refused
from tests.engine.small_cluster import FEATURESET, WORDS, Small, shared_cluster

OPTIONS = LogOptions(pause=0, chunk=20, in_flight=2)
LENIENT = replace(OPTIONS, max_absent=0.5)
small = shared_cluster(shards=2)


def judgments() -> Judgments:
    """Six queries of twelve documents; two of the seventy-two are not in the index."""
    return Judgments(
        [
            JudgedQuery(
                f"q{number}",
                {"keywords": f"{WORDS[number]} {WORDS[number + 1]}"},
                [f"d{(number * 11 + 5 * place) % 62}" for place in range(12)],
                np.array([place % 3 for place in range(12)], np.float32),
            )
            for number in range(6)
        ]
    )


def log(small: Small, out: Path, options: LogOptions = OPTIONS, **changes: Any) -> LogReport:
    given: dict[str, Any] = {"judgments": judgments(), "index": small.index, **changes}
    return run_log(
        small.engine, small.store, FEATURESET, given["judgments"], given["index"], out,
        options=options,
    )  # fmt: skip


def test_swapped_columns_are_told_and_leave_nothing_behind(small: Small, tmp_path: Path) -> None:
    texts, grades = [f"red {word}" for word in WORDS], np.zeros(len(WORDS), np.float32)
    swapped = Judgments(
        [JudgedQuery(f"{n}", {"keywords": f"{n}"}, texts, grades) for n in range(20)]
    )
    with pytest.raises(Refused, match=r"are the columns right"):
        log(small, tmp_path / "out.parquet", LogOptions(pause=0), judgments=swapped)
    assert list(tmp_path.iterdir()) == []
    counts = log(small, tmp_path / "out.parquet", LENIENT).counts
    assert (counts.logged, counts.absent) == (70, 2)


def test_an_alias_stands_for_its_index(small: Small, tmp_path: Path) -> None:
    alias = f"{small.index}-alias"
    small.engine.request("PUT", f"/{small.index}/_alias/{alias}")
    log(small, tmp_path / "alias.parquet", LENIENT, index=alias)
    manifest = load_dataset(tmp_path / "alias.parquet").manifest
    assert manifest is not None
    assert manifest["index"]["name"] == alias
    assert list(manifest["index"]["indices"]) == [small.index]


def test_an_index_that_is_not_there_is_one_line(small: Small, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=rf"'{small.index}x' .* did you mean '{small.index}"):
        log(small, tmp_path / "features.parquet", index=f"{small.index}x")
    with pytest.raises(BadInput, match="there is no index 'feature-log-nowhere'"):
        log(small, tmp_path / "out.parquet", index="feature-log-nowhere")
    assert list(tmp_path.iterdir()) == []


def test_ids_of_another_kind_are_shown_beside_those_of_the_index(
    small: Small, tmp_path: Path
) -> None:
    strangers = Judgments([
        replace(query, doc_ids=[f"SKU-{doc_id}" for doc_id in query.doc_ids])
        for query in judgments().queries
    ])  # fmt: skip
    with pytest.raises(Refused) as caught:
        log(small, tmp_path / "out.parquet", LogOptions(pause=0), judgments=strangers)
    assert re.fullmatch(
        f"none of 72 judged documents is in '{small.index}': judged 'SKU-d0'; ids in the index "
        r"look like 'd\d+'; is it the right index and id field, and are the columns right "
        r"\(`columns`\)\?",
        str(caught.value),
    )
    empty = f"{small.index}-empty"
    create_index(small.engine, empty, {})
    try:
        with pytest.raises(Refused, match=f"judged 'd0', and '{empty}' is empty; is it the right"):
            log(small, tmp_path / "out.parquet", LogOptions(pause=0), index=empty)
    finally:
        drop_index(small.engine, empty)


def test_a_search_with_too_many_clauses_is_named(small: Small, tmp_path: Path) -> None:
    if most_clauses(small.engine) is None:
        pytest.skip("Elasticsearch allows as many clauses as its heap holds")
    long = judgments()
    long.queries[0].params["keywords"] = " ".join(f"word{n}" for n in range(1100))
    with pytest.raises(Refused, match=r"document 'd0' of query 'q0' cannot be logged: .*too_many"):
        log(small, tmp_path / "out.parquet", judgments=long)
