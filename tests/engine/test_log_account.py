"""judged = logged + absent + rejected, whatever is absent, spoiled or too big."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.feature_log.chunks import Fate, LogCounts, Values
from owpc_ltr.errors import Refused
from tests.engine.log_runs import (
    QUICK,
    assert_nothing_published,
    assert_only,
    clean_digest,
    digest,
    lenient,
    log,
    without,
)
from tests.engine.memory_engine import (
    MemoryEngine,
    find,
    is_log_search,
    small_judgments,
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder / "movies.parquet"


@pytest.fixture
def clean(tmp_path: Path) -> str:
    return clean_digest(tmp_path)


@given(
    st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)), st.integers(1, 12), st.integers(1, 5)
)
def test_judged_is_logged_and_absent_and_rejected(
    tmp_path_factory: pytest.TempPathFactory,
    absent: set[int],
    poisoned: set[int],
    chunk: int,
    batch: int,
) -> None:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body):
            for hit in answer["hits"]["hits"]:
                if int(hit["_id"][1:]) in poisoned:
                    hit["matched_queries"] = {"title": 1e39}
        return answer

    engine = MemoryEngine(documents={f"d{d}" for d in range(12) if d not in absent}, fault=fault)
    out = tmp_path_factory.mktemp("account") / "out.parquet"
    judgments = small_judgments()
    pairs = [(q.query_id, int(d[1:])) for q in judgments.queries for d in q.document_ids]
    rejected = poisoned - absent
    kept = [(q, f"d{d}") for q, d in pairs if d not in absent | rejected]
    try:
        account = log(engine, out, options=lenient(chunk=chunk, batch=batch)).counts
    except Refused:
        assert not kept
        return
    assert account.judged == 30
    assert account.absent == sum(d in absent for _, d in pairs)
    assert account.n_rejected == sum(d in rejected for _, d in pairs)
    assert rows_of(load_dataset(out)) == kept


def rows_of(data: RankingDataset) -> list[tuple[str, str]]:
    assert data.document_ids is not None
    queries = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets))
    return list(zip(queries.tolist(), data.document_ids.to_pylist(), strict=True))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(-9, 9))
def test_an_account_that_does_not_add_up_cannot_be(
    logged: int, absent: int, rejected: int, error: int
) -> None:
    judged = logged + absent + rejected + error
    if error:
        with pytest.raises(Refused, match="do not add up"):
            LogCounts(judged, logged, absent, {"a reason": rejected})
    else:
        assert LogCounts(judged, logged, absent, {"a reason": rejected}).judged == judged


@pytest.mark.parametrize("liar", ["loses a row", "forgets a document", "gives no reason"])
def test_a_chunk_that_loses_a_document_is_caught(liar: str) -> None:
    values = Values.unknown(3, 2)
    values.fates[:] = Fate.LOGGED
    if liar == "loses a row":
        values = Values(values.fates[:2], values.features[:2], {})
    elif liar == "forgets a document":
        values.fates[1] = Fate.UNKNOWN
    else:
        values.fates[1] = Fate.REJECTED
    with pytest.raises(Refused):
        values.counts(3)


def test_more_absent_documents_than_allowed_end_the_run(out: Path) -> None:
    engine = without("d7")
    with pytest.raises(Refused, match=r"not in 'movies', and at most 1.0% may be") as caught:
        log(engine, out)
    assert "--max-absent 0.0" in str(caught.value)
    assert_nothing_published(out)


def test_a_wrong_index_is_noticed_after_the_first_chunk(out: Path) -> None:
    engine = MemoryEngine(documents=set())
    with pytest.raises(Refused, match="is it the right index"):
        log(engine, out, options=replace(QUICK, in_flight=1))
    assert engine.calls < 15


def test_the_suggested_share_is_enough(out: Path) -> None:
    engine = without("d7")
    options = QUICK
    for _ in range(3):
        try:
            log(engine, out, options=options)
        except Refused as refusal:
            options = replace(options, max_absent=float(str(refusal).split()[-1]))
    assert_only(out)


def refuse_more_than(documents: int, status: int, kind: str) -> Callable[..., Any]:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body) and len(find(body, "ids")["values"]) > documents:
            raise EngineRefusal("refused", status, kind, "too big")
        return answer

    return fault


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(413, "content_too_long"), (400, "too_many_clauses"), (500, "too_many_nested_clauses")],
)
def test_a_search_that_is_too_big_is_halved_until_it_fits(
    out: Path, clean: str, most: int, status: int, kind: str
) -> None:
    log(MemoryEngine(fault=refuse_more_than(most, status, kind)), out)
    assert digest(out) == clean


def test_a_search_that_is_too_big_for_one_document_ends_the_run(out: Path) -> None:
    engine = MemoryEngine(fault=refuse_more_than(0, 400, "too_many_clauses"))
    with pytest.raises(Refused, match=r"cannot be logged: .*too_many_clauses: too big"):
        log(engine, out)
    assert_nothing_published(out, kept=False)


def test_halving_finds_the_one_document_that_spoils_the_search(out: Path) -> None:
    def fault(_number: int, _path: str, body: Any, answer: Any) -> Any:
        if is_log_search(body) and "d7" in find(body, "ids")["values"]:
            raise EngineRefusal("refused", 400, "script_score", "negative")
        return answer

    with pytest.raises(Refused, match=r"document 'd7' of query 'q0' .*script_score: negative"):
        log(MemoryEngine(fault=fault), out, options=replace(QUICK, in_flight=1))
    report = log(MemoryEngine(fault=fault), out, options=lenient())
    judged = sum("d7" in query.document_ids for query in small_judgments().queries)
    assert report.counts.rejected == {"the engine refuses the search: script_score": judged}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_that_is_not_about_the_documents_is_passed_on_also_with_leave(
    out: Path, status: int
) -> None:
    def fault(_number: int, path: str, _body: Any, answer: Any) -> Any:
        if path.endswith("_search"):
            raise EngineRefusal("no", status, "security_exception", "no")
        return answer

    with pytest.raises(EngineRefusal):
        log(MemoryEngine(fault=fault), out, options=lenient())
    assert_nothing_published(out, kept=False)
