"""The demo's live search: held-out queries on the whole corpus, without and with the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation, LiveQuestion, evaluate_live
from owpc_ltr.engine.search.serving import query_alone, with_stored
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.evaluation.significance import Comparison
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.metrics import parse_metric
from owpc_ltr_demo.judged import DemoQuery

WINDOW = 100
METRIC = "ndcg@10"


@dataclass(frozen=True)
class Live:
    """Every query searched twice; unjudged documents count as irrelevant, none is left out."""

    queries: tuple[DemoQuery, ...]
    found: LiveEvaluation

    @property
    def before(self) -> NDArray[np.float64]:
        """Each query's value without the model."""
        return self.found.measured[0].before

    @property
    def after(self) -> NDArray[np.float64]:
        """Each query's value with the model."""
        return self.found.measured[0].after

    @property
    def comparison(self) -> Comparison:
        """With the model against without."""
        return self.found.measured[0].comparison

    @property
    def milliseconds(self) -> tuple[float, float]:
        """The median search without and with the model, by the engine's clock."""
        times = self.found.milliseconds
        return times["before"]["median"], times["after"]["median"]

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
    judged = [
        JudgedQuery(
            one.query_id,
            {"keywords": one.text, "query": one.text},
            list(one.relevant),
            np.array(list(one.relevant.values()), np.float32),
        )
        for one in asked
    ]
    # One search at a time: the times told are those of a node that does nothing else.
    question = LiveQuestion(index, query, judged, [parse_metric(METRIC)], WINDOW, in_flight=1)
    found = evaluate_live(
        question, query_alone(engine, store), with_stored(engine, store, model), progress
    )
    return Live(tuple(asked), found)
