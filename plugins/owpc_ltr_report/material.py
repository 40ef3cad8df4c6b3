"""Material: results of any kind, sorted by the sections of a page that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.live_results.judge_pool import Pooled
from owpc_ltr.engine.profile import Profile
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.evaluate import Evaluation
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.reordering import ReorderingModel, load_model
from owpc_ltr.protocols import Model
from owpc_ltr.training.cross_validation import Selection
from owpc_ltr.training.feature_cost import Costs
from owpc_ltr_report.comparison import comparison_of, evaluation_comparison, short_name
from owpc_ltr_report.engine import Latency, latency_of
from owpc_ltr_report.queries import Example
from owpc_ltr_report.training import rank_weights

if TYPE_CHECKING:
    from owpc_ltr_clicks.grading import EffectiveSample
    from owpc_ltr_clicks.judgments import ClickJudgments


@dataclass(eq=False)
class ReportRanker:
    """A ranker on the page: its name, model, and scores of the documents of the data."""

    name: str
    model: Model | ReorderingModel | None
    scores: Vector | None = None
    rank_weights: Sequence[float] = ()
    """Those of its loss."""


@dataclass(eq=False)
class Material:
    """The results on a page; None or empty where there are none of a kind."""

    plugins: Sequence[Path | str] = ()
    new: str | None = None
    """The ranker of comparisons that the page is about; None: that of their headline."""
    comparison: RankerComparison | None = None
    rankers: list[ReportRanker] = field(default_factory=list)
    data: RankingDataset | PartitionedDataset | None = None
    examples: list[Example] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    latency: Latency | None = None
    selection: Selection | None = None
    verification: Verification | None = None
    pool: Pooled | None = None
    inspection: Inspection | None = None
    clicks: ClickJudgments | None = None
    effective_clicks: EffectiveSample | None = None

    def add(self, result: Any) -> None:
        """A result by its kind. Raises UsageError for an object that no section is of."""
        match result:
            case Mapping():
                for name, each in result.items():
                    self.add(ReportRanker(str(name), each) if _is_ranker(each) else each)
            case list() | tuple():
                for each in result:
                    self.add(each)
            case Path() | str():
                model = load_model(Path(result), self.plugins)
                self.add(ReportRanker(short_name(str(result)), model))
            case ReportRanker():
                if result.model is not None:
                    result.rank_weights = _rank_weights(result.model.record, self.plugins)
                self.rankers.append(result)
            case Evaluation():
                self.comparison = evaluation_comparison(result)
                if not isinstance(self.data, RankingDataset):
                    self.data = result.data
            case RankerComparison():
                self.comparison = comparison_of(result, self.new)
            case RankingDataset() | PartitionedDataset():
                self.data = result
            case Example():
                self.examples.append(result)
            case Explanation():
                self.explanations.append(result)
            case Bound():
                self.bounds.append(result)
            case Costs():
                self.latency = latency_of(result.milliseconds, "the costs")
            case Profile():
                self.latency = latency_of(result.as_dict(), "the profile")
            case Latency():
                self.latency = result
            case Selection():
                self.selection = result
            case Verification():
                self.verification = result
            case Pooled():
                self.pool = result
            case Inspection():
                self.inspection = result
            case _ if _is_ranker(result):
                self.add(ReportRanker(f"the {result.kind} model", result))
            case _ if not self._add_clicks(result):
                raise UsageError(
                    f"a report has no place for a {type(result).__name__}: give evaluations, "
                    "models, their files, datasets, costs or bounds"
                )

    def _add_clicks(self, result: Any) -> bool:
        """Add a result of the click plugin, which is imported for them alone."""
        if not type(result).__module__.startswith("owpc_ltr_clicks."):
            return False
        from owpc_ltr_clicks.grading import EffectiveSample
        from owpc_ltr_clicks.judgments import ClickJudgments

        if isinstance(result, ClickJudgments):
            self.clicks = result
        elif isinstance(result, EffectiveSample):
            self.effective_clicks = result
        return isinstance(result, ClickJudgments | EffectiveSample)


def material_of(
    results: Iterable[Any], plugins: Sequence[Path | str] = (), new: str | None = None
) -> Material:
    """The results by kind. Raises UsageError for an object of another kind."""
    found, results = Material(plugins, new), list(results)
    found.add(results)
    scored = [one for one in results if isinstance(one, Evaluation) and one.scores is not None]
    if scored and isinstance(scored[-1].data, RankingDataset):
        # The scores belong to the ranker that was evaluated, whether or not its model is there.
        name, found.data = short_name(scored[-1].ranker), scored[-1].data
        if all(one.name != name for one in found.rankers):
            found.rankers.append(ReportRanker(name, None))
        for one in found.rankers:
            one.scores = scored[-1].scores if one.name == name else one.scores
    return found


def _is_ranker(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("kind", "feature_names", "record"))


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
