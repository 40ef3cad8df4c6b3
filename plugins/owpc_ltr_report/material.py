"""Parts of a report: results of any kind, sorted into what a page is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_clicks.grading import EffectiveSample
from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr.api.evaluation import Evaluation, side_in_words
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.engine.deployment.drift import Verified
from owpc_ltr.engine.search.judgment_pool import Pooled
from owpc_ltr.engine.search.profile import Profile
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.evaluation.comparing.result import RankerComparison
from owpc_ltr.evaluation.risk_bounds import Bound
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.reordering import ReorderingModel, load_ranker
from owpc_ltr.training.cross_validation import Selection
from owpc_ltr.training.feature_cost import Costs
from owpc_ltr_report.assembly import Material, Reported
from owpc_ltr_report.contest import Contest, Contestant, Measure
from owpc_ltr_report.contests import contest_of_comparison
from owpc_ltr_report.examples import Example
from owpc_ltr_report.latency import Latency, latency_of
from owpc_ltr_report.named import Named
from owpc_ltr_report.names import short_name, short_names
from owpc_ltr_report.query_texts import texts_of

if TYPE_CHECKING:
    from owpc_ltr.arrays import Vector
    from owpc_ltr.evaluation.evaluate import Measured
    from owpc_ltr.metrics import Metric
    from owpc_ltr.protocols import Model


def material_of(parts: Sequence[Any], plugins: Sequence[Path | str] = ()) -> Material:
    """Every part in its place. Raises UsageError for one that a page has no place for."""
    found = Material()
    for part in parts:
        found = _with(found, part, plugins)
    scores = [part for part in parts if isinstance(part, Evaluation) and part.scores is not None]
    return _with_scores(found, scores[-1]) if scores else found


def _with(found: Material, part: Any, plugins: Sequence[Path | str]) -> Material:
    if isinstance(part, Path | str):
        ranker = load_ranker(Path(part), plugins)
        return _with_ranker(found, short_name(str(part)), ranker, plugins)
    if isinstance(part, Named):
        return _with_ranker(found, part.name, part.model, plugins, part.scores)
    if isinstance(part, list | tuple):
        for each in part:
            found = _with(found, each, plugins)
        return found
    for kind, place in _PLACES.items():
        if isinstance(part, kind):
            return place(found, part)
    if hasattr(part, "kind") and hasattr(part, "feature_names") and hasattr(part, "record"):
        return _with_ranker(found, f"the {part.kind} model", part, plugins)
    raise UsageError(
        f"a report has no place for a {type(part).__name__}: give evaluations, models, their "
        "files, datasets, costs or bounds"
    )


def _with_comparison(found: Material, part: RankerComparison) -> Material:
    return replace(found, contest=contest_of_comparison(part, side_in_words))


def _with_explanation(found: Material, part: Explanation) -> Material:
    return replace(found, explained=(*found.explained, part))


def _with_evaluation(found: Material, part: Evaluation) -> Material:
    data = found.data if isinstance(found.data, RankingDataset) else part.data
    return replace(found, contest=contest_of(part), data=data)


def _profiled(part: Profile) -> Latency:
    told = {"index": part.index, "store_kind": part.store_kind, **part.as_dict()}
    return latency_of(told, "the profile")


_PLACES: dict[type[Any], Callable[[Material, Any], Material]] = {
    Evaluation: _with_evaluation,
    RankingDataset: lambda found, part: replace(found, data=part),
    PartitionedDataset: lambda found, part: replace(found, data=part),
    Costs: lambda found, part: replace(found, latency=latency_of(part.milliseconds, "the costs")),
    RankerComparison: _with_comparison,
    Contest: lambda found, part: replace(found, contest=part),
    Explanation: _with_explanation,
    Inspection: lambda found, part: replace(found, inspection=part),
    Example: lambda found, part: replace(found, examples=(*found.examples, part)),
    Profile: lambda found, part: replace(found, latency=_profiled(part)),
    Latency: lambda found, part: replace(found, latency=part),
    Selection: lambda found, part: replace(found, selection=part),
    ClickJudgments: lambda found, part: replace(found, clicked=part),
    EffectiveSample: lambda found, part: replace(found, effective=part),
    Pooled: lambda found, part: replace(found, pooled=part),
    Verified: lambda found, part: replace(found, verified=part),
    Bound: lambda found, part: replace(found, bounds=(*found.bounds, part)),
}
"""Where each kind of result goes."""


def _with_ranker(
    found: Material,
    name: str,
    ranker: Model | ReorderingModel,
    plugins: Sequence[Path | str],
    scores: Vector | None = None,
) -> Material:
    one = Reported(name, ranker, _rank_weights(ranker.record, plugins), scores)
    return replace(found, rankers=(*found.rankers, one))


def _with_scores(found: Material, evaluation: Evaluation) -> Material:
    """The scores belong to the ranker that was evaluated, whether its model is there or not."""
    if not isinstance(evaluation.data, RankingDataset):
        return found
    rankers = list(found.rankers)
    for number, one in enumerate(rankers):
        if one.name == short_name(evaluation.ranker):
            rankers[number] = replace(one, scores=evaluation.scores)
            break
    else:
        rankers.append(Reported(short_name(evaluation.ranker), None, scores=evaluation.scores))
    return replace(found, rankers=tuple(rankers), data=evaluation.data)


def _rank_weights(record: Mapping[str, Any], plugins: Sequence[Path | str]) -> list[float]:
    """What the loss of a record cares for; nothing where it is not installed, or has no record."""
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure
    from owpc_ltr_report.rank_weights import rank_weights

    loss = record.get("loss")
    if not isinstance(loss, Mapping) or not isinstance(loss.get("settings"), Mapping):
        return []
    try:
        kind = load(map(Path, plugins)).find("loss", str(loss.get("name")))
        return rank_weights(configure(kind, loss["settings"]))
    except (OwpcLtrError, ValueError):
        # Somebody else's plugin, or settings of another version: the page goes without.
        return []


def contest_of(evaluation: Evaluation) -> Contest:
    """An evaluation as a contest of its ranker and what it was compared with."""
    measures = tuple(_measure(one.metric) for one in evaluation.measured)
    short = short_names([evaluation.ranker, evaluation.against or ""])
    names = short[evaluation.ranker], short[evaluation.against or ""]
    weights = None
    if evaluation.weighted and isinstance(evaluation.data, RankingDataset):
        weights = evaluation.data.query_importance
    contestants = [_contestant(names[0], evaluation.measured, weights)]
    if evaluation.against is not None:
        contestants.append(_contestant(names[1], evaluation.others, weights))
    pairs = tuple(replace(pair, a=names[0], b=names[1]) for pair in evaluation.pairs)
    data = evaluation.data
    return Contest(
        measures=measures,
        contestants=tuple(contestants),
        pairs=pairs,
        baseline=None if evaluation.against is None else names[1],
        query_ids=tuple(data.query_ids.to_pylist()),
        query_texts=texts_of(data),
        queries_in_words=f"{data.n_queries:,} queries ({side_in_words(evaluation.side)})",
        weighted=evaluation.weighted,
        warnings=evaluation.warnings,
    )


def _measure(metric: Metric) -> Measure:
    return Measure(str(metric), metric.convention, metric.higher_is_better, metric.value_range)


def _contestant(name: str, measured: Iterable[Measured], weights: Vector | None) -> Contestant:
    from owpc_ltr_report.contest import mean_interval

    found = tuple(measured)
    return Contestant(
        name,
        {str(one.metric): one.per_query for one in found},
        {str(one.metric): one.mean for one in found},
        {str(one.metric): mean_interval(one.per_query, weights) for one in found},
    )
