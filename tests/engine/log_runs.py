"""Runs of feature logging in memory, and ways to spoil them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr import RankingDataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.feature_log.log import LogReport
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.errors import EngineUnavailable
from tests.datasets import written
from tests.engine.memory_engine import MemoryEngine, is_log_search
from tests.engine.memory_engine import log as log_in_memory

QUICK = LogOptions(pause=0, chunk=10, in_flight=2)
SIX_CHUNKS = LogOptions(pause=0, chunk=5, in_flight=2)
"""A query each."""
TWO_CHUNKS = LogOptions(pause=0, chunk=15, in_flight=2)


def log(engine: MemoryEngine, out: Path, **changes: Any) -> LogReport:
    return log_in_memory(engine, out, **{"options": QUICK, **changes})


def log_in_six(
    out: Path, engine: MemoryEngine | None = None, options: LogOptions = SIX_CHUNKS
) -> LogReport:
    return log_in_memory(engine or MemoryEngine(), out, options=options)


def away_after(calls: int) -> Callable[..., Any]:
    """The fault of an engine that answers so many calls and no more."""

    def away(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number > calls:
            raise EngineUnavailable("the engine does not answer")
        return answer

    return away


def run_folder(out: Path) -> Path:
    return out.with_name(out.name + ".run")


def without(*documents: str) -> MemoryEngine:
    engine = MemoryEngine()
    engine.documents -= set(documents)
    return engine


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def assert_nothing_published(out: Path, *, kept: bool | None = None) -> None:
    """No output, and besides it at most the run folder."""
    names = {path.name for path in out.parent.iterdir()}
    assert names <= {run_folder(out).name}
    if kept is not None:
        assert bool(names) is kept


def assert_only(out: Path) -> None:
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def lenient(**changes: Any) -> LogOptions:
    return replace(QUICK, max_absent=1.0, allow_rejected=True, **changes)


def rows_of(data: RankingDataset) -> list[tuple[str, str]]:
    """The query and the document of each row."""
    assert data.doc_ids is not None
    queries = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets))
    return list(zip(queries.tolist(), data.doc_ids.to_pylist(), strict=True))


Change = Callable[[Any], Any]
"""What happens to an answer."""


def first(answer: Any) -> Any:
    return answer["hits"]["hits"][0]


def edited(edit: Callable[[Any], Any]) -> Change:
    """The answer with an edit made in it."""

    def change(answer: Any) -> Any:
        edit(answer)
        return answer

    return change


def replaced(other: Any) -> Change:
    return lambda _: other


def title(value: Any) -> Change:
    return edited(lambda answer: first(answer).update(matched_queries={"title": value}))


class Spoiler:
    """Changes the answers of log searches, from the `start`-th on; id-only searches stay true."""

    def __init__(self, change: Change, start: int = 1, times: int = 10**9) -> None:
        self.change, self.start, self.times, self.searches = change, start, times, 0

    def __call__(self, _number: int, _path: str, body: Any, answer: Any) -> Any:
        if not is_log_search(body):
            return answer
        self.searches += 1
        wanted = self.start <= self.searches < self.start + self.times
        return self.change(answer) if wanted else answer


def timed_out() -> Change:
    return edited(lambda answer: answer.update(timed_out=True))


def ctr(scale: float = 1.0) -> dict[tuple[str, str], float]:
    """The click rates of every third document of each query, and of one that nobody judged."""
    pairs = [(f"q{q}", f"d{d}") for q in range(6) for d in range(0, 12, 3)]
    return {pair: scale * row / 100 for row, pair in enumerate([*pairs, ("q0", "elsewhere")])}


def ctr_file(folder: Path, name: str = "ctr.parquet", scale: float = 1.0) -> Path:
    rates = ctr(scale)
    columns = {"query_id": [k[0] for k in rates], "document_id": [k[1] for k in rates]}
    return written(folder / name, {**columns, "ctr": list(rates.values())})


GRADE = np.ones(1, np.float32)


def judged(**params: Any) -> Judgments:
    return Judgments([JudgedQuery("q7", {"words": "10", **params}, ["d"], GRADE)])
