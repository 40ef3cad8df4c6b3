"""Material: results of any kind, sorted by the sections of a page that they belong to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.topics import query_text
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.profile import Profile
from owpc_ltr.engine.search.judgment_pool import Pooled
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.evaluation.comparison import RankerComparison
from owpc_ltr.evaluation.evaluate import Evaluation
from owpc_ltr.evaluation.options import split_in_words
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.reordering import ReorderingModel, load_model
from owpc_ltr.protocols import Model
from owpc_ltr.training.cross_validation import Selection
from owpc_ltr.training.feature_cost import Costs
from owpc_ltr_report.comparison import (
    RankerFigures,
    ReportComparison,
    comparison_of,
    mean_interval,
    short_name,
    short_names,
)
from owpc_ltr_report.engine import Latency, latency_of
from owpc_ltr_report.queries import Example
from owpc_ltr_report.training import rank_weights

if TYPE_CHECKING:
    from owpc_ltr_clicks.grading import EffectiveSample
    from owpc_ltr_clicks.judgments import ClickJudgments

    from owpc_ltr.evaluation.measurement import Measured


@dataclass(frozen=True, eq=False)
class ReportRanker:
    """A ranker on the page: its name, model, and scores of the documents of the data.

    `rank_weights` are those of its loss.
    """

    name: str
    model: Model | ReorderingModel | None
    scores: Vector | None = None
    rank_weights: Sequence[float] = ()


@dataclass(frozen=True, eq=False)
class Material:
    """The results on a page; None or empty where there are none of a kind."""

    comparison: ReportComparison | None = None
    rankers: tuple[ReportRanker, ...] = ()
    data: RankingDataset | PartitionedDataset | None = None
    examples: tuple[Example, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    bounds: tuple[Bound, ...] = ()
    latency: Latency | None = None
    selection: Selection | None = None
    verification: Verification | None = None
    pool: Pooled | None = None
    inspection: Inspection | None = None
    clicks: ClickJudgments | None = None
    effective_clicks: EffectiveSample | None = None


def material_of(results: Iterable[Any], plugins: Sequence[Path | str] = ()) -> Material:
    """The results by kind. Raises UsageError for an object of another kind."""
    found = Material()
    evaluation: Evaluation | None = None
    for result in results:
        found = _with(found, result, plugins)
        if isinstance(result, Evaluation) and result.scores is not None:
            evaluation = result
    return found if evaluation is None else _with_scores(found, evaluation)


def _with(found: Material, result: Any, plugins: Sequence[Path | str]) -> Material:
    if isinstance(result, Mapping):
        result = [_named(str(name), each) for name, each in result.items()]
    if isinstance(result, list | tuple):
        for each in result:
            found = _with(found, each, plugins)
        return found
    if isinstance(result, Path | str):
        result = ReportRanker(short_name(str(result)), load_model(Path(result), plugins))
    elif _is_ranker(result):
        result = ReportRanker(f"the {result.kind} model", result)
    if isinstance(result, ReportRanker):
        weights = () if result.model is None else _rank_weights(result.model.record, plugins)
        return replace(found, rankers=(*found.rankers, replace(result, rank_weights=weights)))
    add = next((add for kind, add in _ADDITIONS.items() if isinstance(result, kind)), None)
    add = add or _click_addition(result)
    if add is None:
        raise UsageError(
            f"a report has no place for a {type(result).__name__}: give evaluations, models, their "
            "files, datasets, costs or bounds"
        )
    return add(found, result)


def _named(name: str, value: Any) -> Any:
    return ReportRanker(name, value) if _is_ranker(value) else value


def _is_ranker(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("kind", "feature_names", "record"))


_Addition = Callable[[Material, Any], Material]


def _as(field: str) -> _Addition:
    """The result in this field."""

    def add(found: Material, result: Any) -> Material:
        change: dict[str, Any] = {field: result}
        return replace(found, **change)

    return add


def _among(field: str) -> _Addition:
    """The result after the others in this field."""

    def add(found: Material, result: Any) -> Material:
        change: dict[str, Any] = {field: (*getattr(found, field), result)}
        return replace(found, **change)

    return add


def _with_evaluation(found: Material, result: Evaluation) -> Material:
    data = found.data if isinstance(found.data, RankingDataset) else result.data
    return replace(found, comparison=evaluation_figures(result), data=data)


def _with_comparison(found: Material, result: RankerComparison) -> Material:
    return replace(found, comparison=comparison_of(result, split_in_words))


def _with_costs(found: Material, result: Costs) -> Material:
    return replace(found, latency=latency_of(result.milliseconds, "the costs"))


def _with_profile(found: Material, result: Profile) -> Material:
    content = {"index": result.index, "store_kind": result.store_kind, **result.as_dict()}
    return replace(found, latency=latency_of(content, "the profile"))


_ADDITIONS: dict[type[Any], _Addition] = {
    Evaluation: _with_evaluation,
    RankerComparison: _with_comparison,
    ReportComparison: _as("comparison"),
    RankingDataset: _as("data"),
    PartitionedDataset: _as("data"),
    Example: _among("examples"),
    Explanation: _among("explanations"),
    Bound: _among("bounds"),
    Costs: _with_costs,
    Profile: _with_profile,
    Latency: _as("latency"),
    Selection: _as("selection"),
    Verification: _as("verification"),
    Pooled: _as("pool"),
    Inspection: _as("inspection"),
}
"""How each kind of result is added."""


def _click_addition(result: Any) -> _Addition | None:
    """The same for results of the click plugin, which is imported for them alone."""
    if not type(result).__module__.startswith("owpc_ltr_clicks."):
        return None
    from owpc_ltr_clicks.grading import EffectiveSample
    from owpc_ltr_clicks.judgments import ClickJudgments

    if isinstance(result, ClickJudgments):
        return _as("clicks")
    return _as("effective_clicks") if isinstance(result, EffectiveSample) else None


def _with_scores(found: Material, evaluation: Evaluation) -> Material:
    """The scores belong to the ranker that was evaluated, whether or not its model is there."""
    if not isinstance(evaluation.data, RankingDataset):
        return found
    name = short_name(evaluation.ranker)
    rankers = [
        replace(one, scores=evaluation.scores) if one.name == name else one for one in found.rankers
    ]
    if all(one.name != name for one in rankers):
        rankers.append(ReportRanker(name, None, evaluation.scores))
    return replace(found, rankers=tuple(rankers), data=evaluation.data)


def _rank_weights(record: Mapping[str, Any], plugins: Sequence[Path | str]) -> list[float]:
    """The rank weights of a record's loss; empty without a loss or its plugin."""
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure

    loss = record.get("loss")
    if not isinstance(loss, Mapping) or not isinstance(loss.get("settings"), Mapping):
        return []
    try:
        kind = load(map(Path, plugins)).find("loss", str(loss.get("name")))
        return rank_weights(configure(kind, loss["settings"]))
    except (OwpcLtrError, ValueError):
        # A third-party plugin, or settings of another version: the page has no weights.
        return []


def evaluation_figures(evaluation: Evaluation) -> ReportComparison:
    """An evaluation as a comparison of its ranker with the baseline."""
    names = short_names([evaluation.ranker, evaluation.baseline or ""])
    new, baseline = names[evaluation.ranker], names[evaluation.baseline or ""]
    weights = None
    data = evaluation.data
    if evaluation.weighted and isinstance(data, RankingDataset):
        weights = data.query_importance
    rankers = [_figures(new, evaluation.measured, weights)]
    if evaluation.baseline is not None:
        rankers.append(_figures(baseline, evaluation.baseline_measured, weights))
    return ReportComparison(
        metrics=tuple(one.metric for one in evaluation.measured),
        rankers=tuple(rankers),
        pairs=tuple(replace(pair, a=new, b=baseline) for pair in evaluation.pairs),
        baseline=None if evaluation.baseline is None else baseline,
        query_ids=tuple(data.query_ids.to_pylist()),
        query_texts=_query_texts(data),
        query_selection=f"{data.n_queries:,} queries ({split_in_words(evaluation.split)})",
        weighted=evaluation.weighted,
        warnings=evaluation.warnings,
    )


def _figures(name: str, measured: Iterable[Measured], weights: Vector | None) -> RankerFigures:
    found = {str(one.metric): one for one in measured}
    return RankerFigures(
        name,
        {metric: one.per_query for metric, one in found.items()},
        {metric: one.mean for metric, one in found.items()},
        {metric: mean_interval(one.per_query, weights) for metric, one in found.items()},
    )


def _query_texts(data: Any) -> tuple[str, ...]:
    """The text of each query; empty for a dataset without parameters."""
    params = getattr(data, "query_params", None)
    if params is None:
        return ()
    contents = (json.loads(one) if one else None for one in params.to_pylist())
    # Of a dataset of other tools, parameters may be no object.
    return tuple(query_text(one) if isinstance(one, dict) else "" for one in contents)
