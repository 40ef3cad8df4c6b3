"""The demo's cheaper model: fewer features, most of the gain over tuned BM25."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.errors import Refused
from owpc_ltr.formats.export import export_linear
from owpc_ltr.metrics import parse_metric
from owpc_ltr_demo.live import WINDOW
from owpc_ltr_demo.tuned_bm25 import MultiMatch, field_columns
from owpc_ltr_demo.walk import INDEX, SELECT, Cluster, Walk

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.engine.search.latency import FeatureCost, Subject
    from owpc_ltr.models.linear import LinearModel
    from owpc_ltr.training.feature_cost import Selected

KEPT = 0.95
_SEARCHES, _TIMED = 20, 40


def train_cheaper(
    walk: Walk,
    cluster: Cluster,
    sides: DatasetSplits[RankingDataset],
    model: LinearModel,
    baseline: MultiMatch,
) -> LinearModel:
    """The cheapest linear model that keeps most of the gain over tuned BM25, as a file.

    Features are timed in the live query, and left out one by one, by validation queries. Where
    these show no gain it is the model itself.
    """
    from owpc_ltr.models.linear import LinearModel
    from owpc_ltr.models.model_file import save_model

    title = f"leave out features whose time is worth more than {1 - KEPT:.0%} of the gain"
    with walk.step("cheaper", title):
        asked = [json.loads(text) for text in _params(sides.validation)]
        with _subject(cluster, baseline, model) as subject:
            costs = _costs(walk, cluster, subject, asked)
        rival = _validation(sides, cluster, baseline)
        try:
            selected = _selected(walk, sides, costs, rival)
        except Refused as no_gain:
            walk.narrator.line(str(no_gain))
            return model
        fewer = selected.trained.model
        assert isinstance(fewer, LinearModel)  # noqa: S101 - told to the type checker
        save_model(fewer, walk.options.file("-owpc-fewer.json"))
        with (
            _subject(cluster, baseline, model) as whole,
            _subject(cluster, baseline, fewer) as cheap,
        ):
            added = _added(walk, cluster, {"all": whole, "fewer": cheap}, asked)
        record = fewer.record["feature_cost"]
        chosen = next(step for step in selected.path if step.features == len(selected.kept))
        walk.narrator.line(
            f"{len(selected.kept)} of {selected.path[0].features} features keep "
            f"{chosen.worth:.0%} of the gain over tuned BM25 on validation queries "
            f"({record['gain']:+.4f} {SELECT}): {', '.join(selected.kept)}"
        )
        walk.narrator.line(
            f"a search takes {added['none']:.1f} ms, {added['all']:+.1f} ms with all features, "
            f"{added['fewer']:+.1f} ms with these (medians of {_TIMED})"
        )
        walk.figures["cheaper"] = {
            "kept": list(selected.kept),
            "gain_kept": chosen.worth,
            "milliseconds": added,
            "path": record["path"],
        }
    return fewer


@contextmanager
def _subject(cluster: Cluster, baseline: MultiMatch, model: LinearModel) -> Iterator[Subject]:
    """What is timed: a model in the tuned query, in the cluster only meanwhile."""
    from owpc_ltr.engine.deployment.serving_mode import searchable
    from owpc_ltr.engine.search.latency import Subject

    with searchable(cluster.store, export_linear(model, cluster.featureset, "timed")) as stored:
        yield Subject(INDEX, baseline.query(), cluster.featureset, stored)


def _params(data: RankingDataset) -> list[str]:
    """The parameters of some queries, as JSON."""
    assert data.query_params is not None  # noqa: S101 - logged a moment ago
    return [text for text in data.query_params[:_SEARCHES].to_pylist() if text]


def _costs(
    walk: Walk, cluster: Cluster, subject: Subject, asked: list[dict[str, Any]]
) -> list[FeatureCost]:
    from owpc_ltr.engine.search.latency import feature_costs

    with walk.narrator.working() as show:
        found, _ = feature_costs(
            cluster.engine, cluster.store, subject, asked,
            repeat=_SEARCHES, window=WINDOW, seed=walk.options.seed,
            progress=lambda share: show("timing each feature in the live query", share),
        )  # fmt: skip
    return found


def _validation(
    sides: DatasetSplits[RankingDataset], cluster: Cluster, baseline: MultiMatch
) -> float:
    """Tuned BM25 on the validation queries."""
    data = sides.validation
    scores = baseline.score(data.features, field_columns(cluster.featureset))
    return float(parse_metric(SELECT).mean(scores, data.labels, data.offsets))


def _selected(
    walk: Walk, sides: DatasetSplits[RankingDataset], costs: list[FeatureCost], rival: float
) -> Selected:
    from owpc_ltr.host import registry as registries
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.feature_cost import Costs, train_at_cost
    from owpc_ltr.training.plan import Plan

    registry = registries.load([])
    plan = Plan(
        registry.find("loss", "owpc"), registry.find("optimizer", "larank"),
        walk.figures["owpc"]["settings"], {}, SELECT,
    )  # fmt: skip
    weighed = {cost.feature: cost.milliseconds for cost in costs}
    with walk.narrator.working() as show:
        run = Run(seed=walk.options.seed, threads=walk.options.threads, progress=show)
        wanted = Costs(weighed, 0.0, keep_gain=KEPT, baseline=rival)
        return train_at_cost(
            sides.training, plan, run, sides.validation, wanted, source=sides.source
        )


def _added(
    walk: Walk, cluster: Cluster, subjects: dict[str, Subject], asked: list[dict[str, Any]]
) -> dict[str, float]:
    """The median search without a model, and what each of these adds to it."""
    from owpc_ltr.engine.search.latency import model_latencies

    samples = model_latencies(
        cluster.engine, cluster.store, subjects, asked,
        window=WINDOW, repeat=_TIMED, seed=walk.options.seed,
    )  # fmt: skip
    alone = samples["none"].wall
    added = {name: float(np.median(samples[name].wall - alone)) for name in subjects}
    return {"none": float(np.median(alone)), **added}
