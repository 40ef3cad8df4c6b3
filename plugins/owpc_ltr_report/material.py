"""Material: results of any kind, and the page of all sections that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from owpc_ltr_clicks.judgments import ClickJudgments
from owpc_ltr_papers.risk_bounds import Bound

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.live_results.judge_pool import Pooled
from owpc_ltr.engine.profile import Profile
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.evaluate import Evaluation
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.fusion.evaluation import LEARNED
from owpc_ltr.fusion.result import Fusion
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.reordering import load_model
from owpc_ltr.training.cross_validation import Selection
from owpc_ltr.training.feature_cost import Costs
from owpc_ltr_report import clicks, engine, features, fusion, inspections, queries, training
from owpc_ltr_report import comparison as compared
from owpc_ltr_report.features import NamedModel, Scores
from owpc_ltr_report.page import Page, PageVerdict, Section, told_verdict

T = TypeVar("T")
_SINGLE = (
    RankingDataset, PartitionedDataset, RankerComparison, Scores, engine.Latency, Inspection,
    Pooled, Selection, Verification, ClickJudgments, Fusion,
)  # fmt: skip
"""Of these kinds a page is about one result, the last one."""
_SEVERAL = NamedModel, Bound, queries.Example, Explanation


class Material:
    """The results on a page by kind. Raises UsageError for one that no section is of.

    Comparisons are of the `new` ranker, or of that of their headline.
    """

    def __init__(
        self, results: Any, plugins: Sequence[Path | str] = (), new: str | None = None
    ) -> None:
        self.plugins, self.new = plugins, new
        self._found: list[Any] = []
        self._add(results)

    def all(self, kind: type[T]) -> list[T]:
        """The results of a kind."""
        return [one for one in self._found if isinstance(one, kind)]

    def one(self, kind: type[T]) -> T | None:
        """The first of them, if any."""
        return next(iter(self.all(kind)), None)

    def _add(self, result: Any) -> None:
        match result:
            case Mapping():
                for name, one in result.items():
                    self._add(NamedModel(str(name), one) if _is_model(one) else one)
            case list() | tuple():
                for one in result:
                    self._add(one)
            case Path() | str():
                model = load_model(Path(result), self.plugins)
                self._add(NamedModel(compared.short_name(str(result)), model))
            case Evaluation():
                self._keep(compared.comparison_of(compared.evaluation_comparison(result)))
                self._keep(result.data)
                if result.scores is not None:
                    self._keep(Scores(compared.short_name(result.ranker), result.scores))
            case RankerComparison():
                self._keep(compared.comparison_of(result, self.new))
            case Costs():
                self._add(engine.latency_of(result.milliseconds, "the costs"))
            case Profile():
                self._add(engine.latency_of(result.as_dict(), "the profile"))
            case _ if isinstance(result, _SINGLE + _SEVERAL):
                self._keep(result)
            case _ if _is_model(result):
                self._add(NamedModel(f"the {result.kind} model", result))
            case _:
                raise UsageError(
                    f"a report has no place for a {type(result).__name__}: give evaluations, "
                    "models, their files, datasets, costs or bounds"
                )

    def _keep(self, result: Any) -> None:
        if isinstance(result, _SINGLE):
            self._found = [one for one in self._found if type(one) is not type(result)]
        self._found.append(result)


def _is_model(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("kind", "feature_names", "record"))


def page_of(of: Material, heading: str | None = None) -> Page:
    """The page of all sections that there is material for."""
    verdict, names = _verdict(of), ", ".join(one.name for one in of.all(NamedModel))
    of_models = f"Report on {names}" if names else "Report"
    title = heading or (verdict.heading if verdict else "") or of_models
    return Page(title, verdict, [one for one in _sections(of) if one is not None])


def _sections(of: Material) -> Iterator[Section | None]:
    """The sections in their order; None where a result has nothing to show."""
    models, latencies = of.all(NamedModel), of.all(engine.Latency)
    comparison, data = of.one(RankerComparison), of.one(RankingDataset)
    for fused in of.all(Fusion):
        yield fusion.fusion_section(fused)
        if comparison is None:
            learned = compared.comparison_of(fused.comparison, LEARNED)
            yield queries.queries_section(learned)
    for found in of.all(RankerComparison):
        yield compared.comparison_section(found)
        yield compared.proxy_labels_section(found)
        yield queries.queries_section(found)
    explained = map(queries.explanation_example, of.all(Explanation))
    yield queries.examples_section([*of.all(queries.Example), *explained], comparison)
    costs = {name: cost for one in latencies for name, cost, *_ in one.features}
    for number, model in enumerate(models):
        yield features.features_section(model, data, costs, number)
    if data is not None:
        yield from (features.scores_section(one, data) for one in of.all(Scores))
    for number, model in enumerate(models):
        yield training.training_section(model, of.plugins, number)
    yield from map(training.selection_section, of.all(Selection))
    yield from map(engine.latency_section, latencies)
    yield from map(engine.drift_section, of.all(Verification))
    yield from map(inspections.inspection_section, of.all(Inspection))
    yield from map(engine.pool_section, of.all(Pooled))
    for judgments in of.all(ClickJudgments):
        yield from clicks.click_sections(judgments)
    judged = of.one(PartitionedDataset) if data is None else data
    if judged is not None:
        yield inspections.data_section(judged, comparison)
    yield training.provenance_section(models, of.all(Bound))


def _verdict(of: Material) -> PageVerdict | None:
    """The verdict of the strongest evidence on the page."""
    verdicts: dict[type, Callable[[Any], PageVerdict | None]] = {
        RankerComparison: compared.verdict_of,
        Fusion: lambda found: told_verdict("fusion", found=found, learned=LEARNED),
        Verification: lambda found: told_verdict("drift", found=found),
        Selection: lambda found: told_verdict("selection", found=found),
        Pooled: lambda found: told_verdict("pool", found=found),
        ClickJudgments: clicks.click_verdict,
        NamedModel: training.training_verdict,
        Inspection: inspections.inspection_verdict,
        Explanation: queries.explanation_verdict,
    }
    kind = next((kind for kind in verdicts if of.all(kind)), None)
    return verdicts[kind](of.one(kind)) if kind else None
