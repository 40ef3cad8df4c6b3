"""`explain_metric`: why other libraries print another NDCG or MAP for the same ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.reconciliation import Reconciled
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


@dataclass(frozen=True)
class MetricOffered:
    """A metric that is installed: its name, and its convention in words."""

    name: str
    convention: str


def offered_metrics(plugins: Sequence[Path | str] = ()) -> tuple[MetricOffered, ...]:
    """The metrics that there are, each as it is without options."""
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric

    registry = load([Path(plugin) for plugin in plugins])
    found = []
    for plugin in registry.all("metric"):
        needed = getattr(plugin.cls, "cutoff_use", "optional") == "needed"
        metric = parse_metric(f"{plugin.name}@10" if needed else plugin.name, registry)
        found.append(MetricOffered(str(metric), metric.convention))
    return tuple(found)


def explain_metric(
    model: Model | ReorderingModel | TrecRun | str | Path,
    data: RankingDataset,
    metric: Any = "ndcg@10",
    *,
    queries: str = "auto",
    plugins: Sequence[Path | str] = (),
) -> Reconciled:
    """What XGBoost, LightGBM, trec_eval, scikit-learn, ranx, RankLib and LETOR's scripts would say.

    Of the ranking of `data` by `model`, as `evaluate` takes both, by NDCG or MAP: the value that
    each prints, and every step of convention between ours and theirs. Each convention was held
    against the library's own output. A run that lacks judged documents is for trec_eval and ranx
    alone: the others take a score of every document. Raises UsageError for another metric.
    """
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.measurement import model_data, ranker_of
    from owpc_ltr.evaluation.reconciliation import reconcile
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric
    from owpc_ltr.models.reordering import dataset_scores

    files = [Path(plugin) for plugin in plugins]
    parsed = parse_metric(metric, load(files))
    ranker = ranker_of(model, data, files)
    chosen = model_data(ranker, data, queries).data
    ranking = ranker if isinstance(ranker, TrecRun) else dataset_scores(ranker, chosen)
    return reconcile(ranking, chosen, parsed)
