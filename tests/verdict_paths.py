"""Every path to a verdict on two models, as one function each: what a rule must hold on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import owpc_ltr as ltr
from owpc_ltr.data.judgments import JudgedQuery
from owpc_ltr.engine import live_queries
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.engine.search.client_scoring import Serve, Served
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.evaluation.judged_data import choose_queries
from owpc_ltr.evaluation.measurement import ComparisonPlan
from owpc_ltr.evaluation.significance import Verdict
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel

METRIC = "ndcg@5"
TEMPLATE = {"match": {"title": "{{keywords}}"}}


class World:
    """A new and an old model, judged documents, and others that the live lists may hold.

    `unjudged` documents a query come on top of the new model's live lists. Losses are accepted in
    the segments of `accept_loss`.
    """

    accept_loss: tuple[str, ...] = ()

    def __init__(
        self,
        new: LinearModel,
        old: LinearModel,
        data: ltr.RankingDataset,
        folder: Path,
        *,
        unjudged: int = 0,
        template: Any = TEMPLATE,
    ) -> None:
        self.new, self.old, self.data, self.folder = new, old, data, folder
        self.unjudged, self.template = unjudged, template

    def serve(self, model: LinearModel, unjudged: int = 0) -> Serve:
        """What the engine returns with a model: all documents of the query, best first."""
        assert self.data.doc_ids is not None
        scores, names = model.score(self.data.features), self.data.doc_ids.to_pylist()
        cuts = self.data.offsets.tolist()
        lists = {}
        for number, query in enumerate(self.data.query_ids.to_pylist()):
            rows = np.arange(cuts[number], cuts[number + 1])
            best = rows[np.argsort(-scores[rows], kind="stable")]
            others = [f"other {query} {n}" for n in range(unjudged)]
            lists[query] = (*others, *(names[row] for row in best.tolist()))

        def answer(request: SearchRequest) -> Served:
            return Served(lists[request.query_id or ""], 1)

        return answer


def judged_queries(data: ltr.RankingDataset) -> list[JudgedQuery]:
    """The queries of the data, judged by people unless it says otherwise."""
    return live_queries.with_judge(live_queries.judged_queries(data), "people")


def evaluate(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    evaluation = ltr.evaluate(
        world.new,
        world.data,
        metrics=METRIC,
        baseline=world.old,
        split="all",
        accept_loss=world.accept_loss,
    )
    return evaluation.verdict()


def compare(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    rankers = {"new": world.new, "old": world.old}
    return _compared(rankers, world, split="all").verdict("new", "old")


def runs(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    assert world.data.doc_ids is not None
    for name, model, others in (("new", world.new, world.unjudged), ("old", world.old, 0)):
        serve, lines = world.serve(model, others), []
        for query in world.data.query_ids.to_pylist():
            listed = serve(SearchRequest("i", {}, {}, 20, 20, query_id=query)).doc_ids
            lines += [
                f"{query} Q0 {document.replace(' ', '-')} {rank} {-rank} t"
                for rank, document in enumerate(listed, 1)
            ]
        (world.folder / f"{name}.run").write_text("\n".join(lines) + "\n")
    rankers = {name: world.folder / f"{name}.run" for name in ("new", "old")}
    return _compared(rankers, world).verdict("new", "old")


def _compared(rankers: Any, world: World, **how: Any) -> ltr.RankerComparison:
    return ltr.compare(
        rankers,
        data=world.data,
        metrics=METRIC,
        resamples=500,
        accept_loss=world.accept_loss,
        **how,
    )


def live(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    queries = judged_queries(world.data)
    records = {"the model": world.new.record, "the old one": world.old.record}
    requests = [SearchRequest("i", {}, {}, 20, 20, query_id=query.query_id) for query in queries]
    ways = world.serve(world.new, world.unjudged), world.serve(world.old)
    new, old = ([serve(request).doc_ids for request in requests] for serve in ways)
    plan = ComparisonPlan(
        (parse_metric(METRIC),), baseline="the old one", accept_loss=world.accept_loss
    )
    results = LiveResults(
        {"the model": new, "the old one": old}, queries, choose_queries(records, queries, "all"),
        plan, world.template, depth=20, alone=old,
    )  # fmt: skip
    return results.compared().verdict()


def report(world: World, _patch: pytest.MonkeyPatch) -> Verdict:
    rankers = {"new": world.new, "old": world.old}
    comparison = _compared(rankers, world, split="all")
    page = ltr.report([comparison])
    assert page.verdict is not None
    verdict: Verdict = page.verdict.words["verdict"]
    green = page.verdict.mood == "better"
    assert not green, "a page on judged documents is never green"
    return verdict


PATHS: Mapping[str, Callable[[World, pytest.MonkeyPatch], Verdict]] = {
    "evaluate": evaluate,
    "compare": compare,
    "runs": runs,
    "live": live,
    **({"report": report} if find_spec("owpc_ltr_report") else {}),
}
OF_LISTS = ("runs", "live")
"""The paths that see what users get."""


def with_judge(data: ltr.RankingDataset, judge: str) -> ltr.RankingDataset:
    """The data, all judgments of which one judge gave."""
    counts = {"judged_by": {judge: data.n_documents}}
    return replace(data, manifest={"judgments": counts})
