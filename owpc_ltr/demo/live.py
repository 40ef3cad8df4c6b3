"""The demo's live search: held-out queries on the whole corpus, without and with the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.demo.judged import DemoQuery
from owpc_ltr.engine.http.client import Engine
from owpc_ltr.engine.search.compare import BeforeAndAfter, Hit, search
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.store.base import Store
from owpc_ltr.evaluation.significance import Comparison, compare_paired
from owpc_ltr.interop.stored_model import StoredModel
from owpc_ltr.metrics import RankedQueries, parse_metric

WINDOW = 100
METRIC = "ndcg@10"


@dataclass(frozen=True)
class Live:
    """Every query searched twice; unjudged documents count as irrelevant, none is left out."""

    queries: tuple[DemoQuery, ...]
    answers: tuple[BeforeAndAfter, ...]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    seed: int = 0

    @property
    def comparison(self) -> Comparison:
        """With the model against without."""
        return compare_paired(self.after, self.before, seed=self.seed)

    @property
    def milliseconds(self) -> tuple[float, float]:
        """The median search without and with the model, by the engine's clock."""
        return (
            median(answer.took_before for answer in self.answers),
            median(answer.took_after for answer in self.answers),
        )

    def examples(self) -> dict[str, int]:
        """Which queries to show and why: by a rule, not by taste."""
        gains = self.after - self.before
        order = np.argsort(gains, kind="stable")
        changed = order[gains[order] != 0]
        if not len(changed):
            return {"nothing changed": 0}
        middle = int(changed[len(changed) // 2])
        return {
            "the largest gain": int(order[-1]),
            "the median of the queries that changed": middle,
            "the largest loss": int(order[0]),
        }

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        before, after = self.milliseconds
        return {
            "metric": METRIC,
            "window": WINDOW,
            **self.comparison.as_dict(),
            "median_ms_before": before,
            "median_ms_after": after,
        }


def search_live(
    engine: Engine,
    store: Store,
    index: str,
    model: StoredModel,
    query: dict[str, Any],
    asked: Sequence[DemoQuery],
    progress: Callable[[str, float | None], None],
) -> Live:
    """Search the whole corpus for each query, without and with the model."""
    answers = []
    for number, one in enumerate(asked, 1):
        params = {"keywords": one.text, "query": one.text}
        answers.append(
            search(
                engine,
                store,
                SearchRequest(index, query, params, WINDOW, WINDOW),
                model,
                title="qualified_name",
            )
        )
        progress(f"{number} of {len(asked)} queries", number / len(asked))
    return Live(
        tuple(asked),
        tuple(answers),
        _values(asked, [answer.before for answer in answers]),
        _values(asked, [answer.after for answer in answers]),
    )


def _values(asked: Sequence[DemoQuery], rankings: Sequence[tuple[Hit, ...]]) -> NDArray[np.float64]:
    """The metric of each ranking; a relevant document that it lacks stands below all others."""
    scores: list[float] = []
    labels: list[int] = []
    offsets = [0]
    for query, hits in zip(asked, rankings, strict=True):
        found = [hit.document_id for hit in hits]
        missed = [name for name in query.relevant if name not in set(found)]
        labels += [query.relevant.get(name, 0) for name in (*found, *missed)]
        # Nothing missed may come up within the cutoff, however few documents were found.
        scores += [-float(rank) for rank in range(len(found))]
        padding = max(0, 10 - len(found))
        scores += [-1e6] * padding + [-1e9] * len(missed)
        labels[len(labels) - len(missed) : len(labels) - len(missed)] = [0] * padding
        offsets.append(len(scores))
    ranked = RankedQueries(
        np.array(scores), np.array(labels, dtype=np.float32), np.array(offsets, dtype=np.int64)
    )
    values: NDArray[np.float64] = parse_metric(METRIC).of(ranked)
    return values
