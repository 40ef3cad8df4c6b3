"""Assembly: results of any kind put in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from owpc_ltr_clicks.grading import EffectiveSample
from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.engine.deployment.drift import Verified
from owpc_ltr.engine.search.judgment_pool import Pooled
from owpc_ltr.evaluation.risk_bounds import Bound
from owpc_ltr.explanations.explanation import Explanation
from owpc_ltr.inspection.result import Inspection
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.protocols import Model
from owpc_ltr.training.cross_validation import Selection
from owpc_ltr_report.blocks import Section
from owpc_ltr_report.clicked import click_sections, click_verdict
from owpc_ltr_report.contest import Contest
from owpc_ltr_report.examples import Example
from owpc_ltr_report.explained import example_of, explained_verdict
from owpc_ltr_report.latency import Latency
from owpc_ltr_report.page import Page
from owpc_ltr_report.record import Record
from owpc_ltr_report.sections.cheap import cheap_section
from owpc_ltr_report.sections.comparison import comparison_section
from owpc_ltr_report.sections.data import data_section
from owpc_ltr_report.sections.drift import drift_section, drift_verdict
from owpc_ltr_report.sections.examples import examples_section
from owpc_ltr_report.sections.features import features_section
from owpc_ltr_report.sections.inspection import inspection_section, inspection_verdict
from owpc_ltr_report.sections.latency import latency_section
from owpc_ltr_report.sections.pooling import pooling_section, pooling_verdict
from owpc_ltr_report.sections.provenance import provenance_section
from owpc_ltr_report.sections.queries import queries_section
from owpc_ltr_report.sections.scores import scores_section
from owpc_ltr_report.sections.selection import selection_section, selection_verdict
from owpc_ltr_report.sections.training import training_section, training_verdict
from owpc_ltr_report.verdict import Verdict, verdict_of


@dataclass(frozen=True, eq=False)
class Reported:
    """A ranker on the page: its model where there is one, and what its loss cares for."""

    name: str
    model: Model | ReorderingModel | None
    rank_weights: Sequence[float] = ()
    scores: Vector | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """All that a page can be made of; what is None or empty is left out."""

    contest: Contest | None = None
    rankers: tuple[Reported, ...] = ()
    data: RankingDataset | PartitionedDataset | None = None
    examples: tuple[Example, ...] = ()
    explained: tuple[Explanation, ...] = ()
    bounds: tuple[Bound, ...] = ()
    latency: Latency | None = None
    selection: Selection | None = None
    verified: Verified | None = None
    pooled: Pooled | None = None
    inspection: Inspection | None = None
    clicked: ClickJudgments | None = None
    effective: EffectiveSample | None = None


def page_of(material: Material, title: str) -> Page:
    """The page: the verdict, a section for whatever there is, and what is not there."""
    made: list[Section] = []
    missing: list[tuple[str, str]] = []
    for name, how, make in _PLAN:
        found = make(material)
        made += found
        if not found:
            missing.append((name, how))
    return Page(title, _verdict(material), tuple(made), tuple(missing))


def _verdict(material: Material) -> Verdict | None:
    """Of the strongest evidence that there is."""
    trained = [(one.name, one.model) for one in material.rankers if one.model is not None]
    verdict: Verdict | None = None
    if material.contest is not None:
        verdict = verdict_of(material.contest)
    elif material.verified is not None:
        verdict = drift_verdict(material.verified)
    elif material.selection is not None:
        verdict = selection_verdict(material.selection)
    elif material.pooled is not None:
        verdict = pooling_verdict(material.pooled)
    elif material.clicked is not None:
        verdict = click_verdict(material.clicked, material.effective)
    elif trained:
        name, model = trained[0]
        verdict = training_verdict(name, Record(model.record))
    elif material.inspection is not None:
        verdict = inspection_verdict(material.inspection)
    elif material.explained:
        verdict = explained_verdict(material.explained[0])
    return verdict


def _comparison(material: Material) -> list[Section]:
    return [] if material.contest is None else [comparison_section(material.contest)]


def _cheap(material: Material) -> list[Section]:
    return _some([None if material.contest is None else cheap_section(material.contest)])


def _queries(material: Material) -> list[Section]:
    return _some([None if material.contest is None else queries_section(material.contest)])


def _examples(material: Material) -> list[Section]:
    contest = material.contest
    before, after = "the ranking before", "the new ranking"
    if contest is not None and contest.baseline is not None:
        before, after = contest.baseline, contest.new.name
    examples = *material.examples, *map(example_of, material.explained)
    return _some([examples_section(examples, before, after)])


def _features(material: Material) -> list[Section]:
    data = material.data if isinstance(material.data, RankingDataset) else None
    costs = {} if material.latency is None else material.latency.milliseconds
    return _some(
        [
            features_section(each.name, model, data, costs, number)
            for number, each in enumerate(material.rankers)
            if (model := _single(each.model)) is not None
        ]
    )


def _scores(material: Material) -> list[Section]:
    data = material.data
    if not isinstance(data, RankingDataset):
        return []
    named = [one for one in material.rankers if one.scores is not None][:1]
    return _some([scores_section(one.name, one.scores, data) for one in named])  # type: ignore[arg-type]


def _training(material: Material) -> list[Section]:
    return _some(
        [
            training_section(each.name, Record(each.model.record), each.rank_weights, number)
            for number, each in enumerate(material.rankers)
            if each.model is not None
        ]
    )


def _data(material: Material) -> list[Section]:
    if material.data is None:
        return []
    contest = material.contest
    return [data_section(material.data, None if contest is None else contest.queries_in_words)]


def _provenance(material: Material) -> list[Section]:
    records = [
        (each.name, Record(each.model.record))
        for each in material.rankers
        if each.model is not None
    ]
    return _some([provenance_section(records, material.bounds)])


def _selection(material: Material) -> list[Section]:
    return [] if material.selection is None else [selection_section(material.selection)]


def _latency(material: Material) -> list[Section]:
    return _some([None if material.latency is None else latency_section(material.latency)])


def _drift(material: Material) -> list[Section]:
    return [] if material.verified is None else [drift_section(material.verified)]


def _inspection(material: Material) -> list[Section]:
    return [] if material.inspection is None else [inspection_section(material.inspection)]


def _pool(material: Material) -> list[Section]:
    return [] if material.pooled is None else [pooling_section(material.pooled)]


def _clicked(material: Material) -> list[Section]:
    found = material.clicked
    return [] if found is None else click_sections(found, material.effective)


def _some(found: Sequence[Section | None]) -> list[Section]:
    return [one for one in found if one is not None]


def _single(model: Model | ReorderingModel | None) -> Model | None:
    """What scores single documents: of a reordering, its base."""
    return model.base if isinstance(model, ReorderingModel) else model


_PLAN: tuple[tuple[str, str, Callable[[Material], list[Section]]], ...] = (
    ("a comparison", "give judged queries: --data", _comparison),
    ("proxy labels", "owpc-ltr compare --cheap --report", _cheap),
    ("queries before and after", "name a baseline: --baseline feature:NAME", _queries),
    ("examples of queries", "owpc-ltr report --data, with a baseline", _examples),
    ("features", "give a model file", _features),
    ("scores", "give a model and a dataset in one file", _scores),
    ("training", "give a model that owpc-ltr trained", _training),
    ("a selection over folds", "owpc-ltr select --report", _selection),
    ("latency", "owpc-ltr profile --json, then --feature-cost", _latency),
    ("drift", "owpc-ltr verify --report", _drift),
    ("data checks", "owpc-ltr report --data, or inspect --report", _inspection),
    ("a pool to judge", "owpc-ltr judge pool --report", _pool),
    ("judgments from clicks", "owpc-ltr judge clicks --report", _clicked),
    ("data", "give judged queries: --data", _data),
    ("provenance", "give a model that owpc-ltr trained", _provenance),
)
