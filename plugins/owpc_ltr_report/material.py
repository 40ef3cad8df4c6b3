"""Material: results of any kind, what is measured of rankers, and the page of all sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.documents import with_document_fields
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.engine.deployment.verify import Verification
from owpc_ltr.engine.profile import Profile
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.evaluation.compare import compare
from owpc_ltr.evaluation.comparison_result import Evaluation, RankerComparison
from owpc_ltr.evaluation.data_comparison import ranker_of
from owpc_ltr.evaluation.evaluate import evaluate
from owpc_ltr.evaluation.query_choice import Data, model_data
from owpc_ltr.fusion.evaluation import LEARNED, Fusion
from owpc_ltr.host.commands import public_function
from owpc_ltr.host.report_parts import ReportVerdict, report_parts
from owpc_ltr.inspection.inspect import inspect
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import warnings_of
from owpc_ltr.models.reordering import dataset_scores, load_model
from owpc_ltr.signatures import Progress
from owpc_ltr_report import checks, features, queries, training
from owpc_ltr_report import comparison as compared
from owpc_ltr_report.features import NamedModel, is_model
from owpc_ltr_report.page import (
    Page,
    PageVerdict,
    Section,
    kind_verdict,
    offered_section,
    offered_verdict,
    short_name,
    short_names,
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


def measure(
    results: Sequence[Any],
    data: Data,
    baseline: Path | str | None,
    examples: int,
    progress: Progress,
    how: dict[str, Any],
) -> tuple[list[Any], str | None]:
    """The results with the rankers among them measured on the data, and the new one compared.

    Several rankers are compared; one without a baseline is evaluated. `how` are the parameters that
    `compare` and `evaluate` share.
    """
    rankers, measured = _rankers_among(results)
    if baseline is not None:
        rankers.setdefault(str(baseline), baseline)
    if not rankers:
        return [*measured, data], None
    names, files = short_names(list(rankers)), [Path(plugin) for plugin in how["plugins"]]
    loaded = {names[name]: ranker_of(ranker, data, files) for name, ranker in rankers.items()}
    measured.append({name: ranker for name, ranker in loaded.items() if _is_trained(ranker)})
    new, judged = None, data
    if len(loaded) == 1:
        evaluation = evaluate(next(iter(rankers.values())), data, **how)
        measured, judged = [*measured, evaluation], evaluation.data
    else:
        how |= {"baseline": names[str(baseline)] if baseline is not None else list(loaded)[-1]}
        new = next(name for name in loaded if name != how["baseline"])
        side_by_side, judged = _compared(loaded, new, data, examples, {**how, "progress": progress})
        measured += [*side_by_side, judged]
    if isinstance(judged, RankingDataset):
        progress("inspecting the data", None)
        measured.append(inspect(judged))
    return [*measured, *_bounds(next(iter(loaded.values())), data, how["plugins"], progress)], new


def _rankers_among(results: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Files and models by name, and the other results."""
    rankers: dict[str, Any] = {}
    other_results = []
    for result in results:
        if isinstance(result, Path | str):
            rankers.setdefault(str(result), result)
        elif isinstance(result, Mapping):
            rankers |= {str(name): ranker for name, ranker in result.items()}
        elif is_model(result):
            rankers[f"the {result.kind} model"] = result
        else:
            other_results.append(result)
    return rankers, other_results


def _is_trained(ranker: object) -> bool:
    """Whether it is more than a run, or a feature that ranks alone."""
    return "base" not in getattr(ranker, "record", ("base",))


def _compared(
    rankers: dict[str, Any], new: str, data: Data, examples: int, how: dict[str, Any]
) -> tuple[list[Any], Data]:
    """The comparison with examples, and its queries."""
    comparison = compare(rankers, data=data, **how)
    record = getattr(rankers[new], "record", {})
    warnings = [f"in training: {warning}" for warning in warnings_of(record)]
    comparison = replace(comparison, warnings=(*warnings, *comparison.warnings))
    if comparison.n_queries != data.n_queries:
        data = data.select(pc.index_in(comparison.query_ids, data.query_ids).to_numpy())
    if not isinstance(data, RankingDataset):
        return [comparison], data
    pair = rankers[how["baseline"]], rankers[new]
    if how["documents"] is not None:
        fields = "title", *(name for ranker in pair for name in getattr(ranker, "field_names", ()))
        data = with_document_fields(data, fields, Path(how["documents"]), how["id_field"])
    how["progress"]("choosing examples", None)
    scores = dataset_scores(pair[0], data), dataset_scores(pair[1], data)
    examples_shown = queries.changed_examples(
        comparison, data, scores, (how["baseline"], new), ranker=pair[1], count=examples
    )
    return [comparison, *examples_shown], data


def _bounds(
    ranker: object, data: Data, plugins: Sequence[Path | str], progress: Progress
) -> list[Any]:
    """The risk bounds of a linear model on its training queries, if `bounds` is installed."""
    bounds = public_function("bounds")
    if bounds is None or not isinstance(ranker, LinearModel) or not ranker.record.get("loss"):
        return []
    progress("computing risk bounds", None)
    try:
        trained = model_data(ranker, data, "train").data
    except OwpcLtrError:
        # The model was trained on other data.
        return []
    if not isinstance(trained, RankingDataset):
        return []
    return [bounds(ranker, trained, plugins=plugins)]
