"""`metrics`: what each metric means, and what other libraries print of the same ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.data.options import Columns, MaxFeatureNumber
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import Split
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, job, public

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.data.partitioned import JudgedTable
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.library_conventions import Reconciliation
    from owpc_ltr.metrics import Metric
    from owpc_ltr.models.combined import ReorderingModel
    from owpc_ltr.protocols import Model


@dataclass(frozen=True, repr=False)
class MetricConventions(BlockResult):
    """The metrics that are installed: the text of each, and its convention in words."""

    conventions: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Names and conventions as JSON."""
        rows = [{"name": name, "convention": words} for name, words in self.conventions.items()]
        return {"metrics": rows}

    def _blocks(self) -> Iterator[Block]:
        rows = [(name, words.partition(": ")[2]) for name, words in self.conventions.items()]
        yield Table(["METRIC", "MEANS"], rows)


@job
def metrics(
    model: Annotated[
        Model | ReorderingModel | TrecRun | str | Path | None,
        Reads(
            "The ranker: MODEL.json, feature:NAME, or a TREC run.",
            cli=str,
            absent=NO_MODEL,
            unless="feature:",
        ),
        Argument.RANKER,
    ] = None,
    *,
    data: Annotated[
        JudgedTable | Judgments | Path | str | None,
        Reads("Judged queries: a dataset; for a run also judgments (TSV, qrels …).", cli=Path),
        Argument.DATA,
    ] = None,
    explain: Annotated[
        bool, Help("What trec_eval, XGBoost and LightGBM would print for this ranking.")
    ] = False,
    metric: Annotated[
        Metric | str, Help("ndcg, ndcg@10, map or map@10; of several, the first.", metavar="METRIC")
    ] = "ndcg@10",
    split: Split = "auto",
    columns: Columns = None,
    max_feature_number: MaxFeatureNumber = None,
    plugins: Plugins = (),
) -> MetricConventions | Reconciliation:
    """Explain metrics, and why other libraries' figures differ.

    The same ranking has another NDCG or MAP in trec_eval, XGBoost and LightGBM. `explain` applies
    each convention to it, and shows every difference.
    """
    if not explain:
        if data is not None or model is not None:
            raise UsageError(
                "a ranking is measured with `explain`: add it, or use `evaluate(model, data)`"
            )
        return _installed(plugins)
    if data is None or model is None:
        raise UsageError("`explain` is of one ranking: give `model` and `data`")
    from owpc_ltr.evaluation.judged_data import judged_dataset

    judged = judged_dataset([model], data, columns, max_feature_number=max_feature_number)
    return explain_metric(model, judged, metric, split=split, plugins=plugins)


def _installed(plugins: Sequence[Path | str]) -> MetricConventions:
    """The metrics that there are, each as it is without options."""
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric

    registry = load([Path(plugin) for plugin in plugins])
    conventions = {}
    for plugin in registry.all("metric"):
        needed = getattr(plugin.cls, "cutoff_use", "optional") == "needed"
        metric = parse_metric(f"{plugin.name}@10" if needed else plugin.name, registry)
        conventions[str(metric)] = metric.convention
    return MetricConventions(conventions)


@public
def explain_metric(
    model: Annotated[Model | ReorderingModel | TrecRun | str | Path, Argument.RANKER],
    data: Annotated[JudgedTable | Judgments | Path | str, Argument.DATA],
    metric: Metric | type[Metric] | str = "ndcg@10",
    *,
    split: str = "auto",
    plugins: Annotated[Sequence[Path | str], Argument.LIST] = (),
) -> Reconciliation:
    """What trec_eval, XGBoost and LightGBM would print.

    Of the ranking of `data` by `model`, as `evaluate` takes both, by NDCG or MAP: the value that
    each prints, and every step of convention between ours and theirs. Each convention was held
    against the library's own output. A run that lacks judged documents is for trec_eval alone: the
    others need a score of every document. Of a run `data` may be judgments. Raises UsageError for
    another metric.
    """
    from owpc_ltr.data.runs import TrecRun
    from owpc_ltr.evaluation.data_comparison import ranker_of
    from owpc_ltr.evaluation.judged_data import judged_dataset, model_data
    from owpc_ltr.evaluation.library_conventions import reconcile
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import first_metric
    from owpc_ltr.models.combined import dataset_scores

    files = [Path(plugin) for plugin in plugins]
    parsed = first_metric(metric, load(files))
    judged = judged_dataset([model], data).load()
    ranker = ranker_of(model, judged, files)
    chosen = model_data(ranker, judged, split).data
    ranking = ranker if isinstance(ranker, TrecRun) else dataset_scores(ranker, chosen)
    return reconcile(ranking, chosen, parsed)
