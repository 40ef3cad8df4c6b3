"""Material: results of any kind, and the page of all sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.profile import Profile
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.comparison_result import Evaluation, RankerComparison
from owpc_ltr.fusion.evaluation import LEARNED, Fusion
from owpc_ltr.host.report_parts import ReportVerdict, report_parts
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.combined import load_model
from owpc_ltr_report import checks, queries
from owpc_ltr_report import comparison as compared
from owpc_ltr_report import models as features
from owpc_ltr_report import models as training
from owpc_ltr_report.models import NamedModel, is_model
from owpc_ltr_report.page import (
    Page,
    PageVerdict,
    Section,
    kind_verdict,
    offered_section,
    offered_verdict,
    short_name,
)

T = TypeVar("T")
_SINGLE = (
    RankingDataset,
    PartitionedDataset,
    RankerComparison,
    checks.Latency,
    Inspection,
    Verification,
    Fusion,
)
"""Of these kinds a page is about one result, the last one."""


class Material:
    """The results on a page by kind. Raises UsageError for one that no section is of.

    Comparisons are of the `new` ranker, or of that of their headline.
    """

    def __init__(
        self, results: object, plugins: Sequence[Path | str] = (), new: str | None = None
    ) -> None:
        self.plugins, self.new, self.parts = plugins, new, report_parts()
        self._found: list[Any] = []
        self._add(results)

    def all(self, kind: type[T]) -> list[T]:
        """The results of a kind."""
        return [result for result in self._found if isinstance(result, kind)]

    def only(self, kind: type[T]) -> T | None:
        """The first of them, if any."""
        return next(iter(self.all(kind)), None)

    def _add(self, result: object) -> None:
        match result:
            case Mapping():
                for name, item in result.items():
                    self._add(NamedModel(str(name), item) if is_model(item) else item)
            case list() | tuple():
                for item in result:
                    self._add(item)
            case Path() | str():
                model = load_model(Path(result), self.plugins)
                self._add(NamedModel(short_name(str(result)), model))
            case Evaluation():
                self._keep(compared.comparison_of(result))
                self._keep(result.data)
            case RankerComparison():
                self._keep(compared.comparison_of(result, self.new))
            case Profile():
                self._add(checks.latency_of(result.as_dict(), "the profile"))
            case NamedModel() | queries.Example():
                self._found.append(result)
            case _ if isinstance(result, (*_SINGLE, *(part.results for part in self.parts))):
                self._keep(result)
            case _ if is_model(result):
                self._add(NamedModel(f"the {result.kind} model", result))
            case _:
                raise UsageError(
                    f"a report has no place for a {type(result).__name__}: give evaluations, "
                    "models, their files, datasets or profiles"
                )

    def _keep(self, result: object) -> None:
        others = [other for other in self._found if type(other) is not type(result)]
        self._found = [*others, result]


def page_of(material: Material, heading: str | None = None) -> Page:
    """The page of all sections that there is material for."""
    verdict, names = _verdict(material), ", ".join(model.name for model in material.all(NamedModel))
    of_models = f"Report on {names}" if names else "Report"
    title = heading or (verdict.heading if verdict else "") or of_models
    absent = [part.absent for part in material.parts if not material.all(part.results)]
    sections = [section for section in _sections(material) if section is not None]
    return Page(title, verdict, sections, [how for how in absent if how])


def _sections(material: Material) -> Iterator[Section | None]:
    """The sections in their order; None where a result has nothing to show."""
    models, latencies = material.all(NamedModel), material.all(checks.Latency)
    comparison, data = material.only(RankerComparison), material.only(RankingDataset)
    for fused in material.all(Fusion):
        yield compared.fusion_section(fused)
        if comparison is None:
            learned = compared.comparison_of(fused.comparison, LEARNED)
            yield queries.queries_section(learned)
    if comparison is not None:
        yield compared.comparison_section(comparison)
        yield compared.proxy_labels_section(comparison)
        yield queries.queries_section(comparison)
    yield queries.examples_section(material.all(queries.Example), comparison)
    costs = {name: cost for latency in latencies for name, cost, *_ in latency.features}
    for number, model in enumerate(models):
        yield features.features_section(model, data, costs, number)
    for number, model in enumerate(models):
        yield training.training_section(model, number)
    yield from map(checks.latency_section, latencies)
    yield from map(checks.drift_section, material.all(Verification))
    yield from map(checks.inspection_section, material.all(Inspection))
    for part in material.parts:
        for result in material.all(part.results):
            yield from map(offered_section, part.sections(result))
    judged = material.only(PartitionedDataset) if data is None else data
    if judged is not None:
        yield checks.data_section(judged, comparison)
    yield training.provenance_section(models)


def _verdict(material: Material) -> PageVerdict | None:
    """The verdict of the strongest evidence on the page."""
    verdicts: dict[type, Callable[[Any], PageVerdict | None]] = {
        RankerComparison: compared.verdict_of,
        Fusion: partial(kind_verdict, "fusion", learned=LEARNED),
        Verification: partial(kind_verdict, "drift"),
        **{part.results: _of_part(part.verdict) for part in material.parts if part.verdict},
        NamedModel: training.training_verdict,
        Inspection: partial(kind_verdict, "inspection"),
    }
    kind = next((kind for kind in verdicts if material.all(kind)), None)
    return None if kind is None else verdicts[kind](material.only(kind))


def _of_part(verdict: Callable[[Any], ReportVerdict]) -> Callable[[Any], PageVerdict]:
    return lambda result: offered_verdict(verdict(result))
